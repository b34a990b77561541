// Says what was done, at the foot of the page, and offers to undo it where that can be.

import { createContext, type ReactNode, useCallback, useContext, useState } from "react";
import { useTranslations } from "use-intl";

export interface Notice {
  readonly text: string;
  /** Absent: it cannot be undone. Rejects if that fails. */
  readonly undo?: () => Promise<unknown>;
}

interface Shown extends Notice {
  readonly id: number;
  readonly state: "done" | "undoing" | "failed";
}

const mostShown = 3;

const TellContext = createContext<(notice: Notice) => void>(() => undefined);

export function Notices({ children }: { children: ReactNode }) {
  const t = useTranslations("notices");
  const [shown, setShown] = useState<readonly Shown[]>([]);
  const tell = useCallback((notice: Notice) => {
    setShown((old) => [...old, { ...notice, id: (old.at(-1)?.id ?? 0) + 1, state: "done" as const }].slice(-mostShown));
  }, []);
  const drop = (id: number) => setShown((old) => old.filter((one) => one.id !== id));
  const mark = (id: number, state: Shown["state"]) =>
    setShown((old) => old.map((one) => (one.id === id ? { ...one, state } : one)));
  const undo = async ({ id, undo: act }: Shown) => {
    mark(id, "undoing");
    try {
      await act?.();
      drop(id);
    } catch {
      mark(id, "failed");
    }
  };
  return (
    <TellContext.Provider value={tell}>
      {children}
      <div className="notices" role="status">
        {shown.map((notice) => (
          <p key={notice.id}>
            <span>{notice.state === "failed" ? t("undoFailed") : notice.text}</span>
            {notice.undo === undefined ? null : (
              <button type="button" disabled={notice.state === "undoing"} onClick={() => void undo(notice)}>
                {t("undo")}
              </button>
            )}
            <button type="button" onClick={() => drop(notice.id)}>
              {t("close")}
            </button>
          </p>
        ))}
      </div>
    </TellContext.Provider>
  );
}

/** @returns what says something at the foot of the page */
export function useTell(): (notice: Notice) => void {
  return useContext(TellContext);
}

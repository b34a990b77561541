// A dialog over the page. The browser keeps the focus in it, closes it by Escape, and gives the focus back afterwards.

import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { Refusal } from "./refusal.tsx";

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const id = useId();
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    place.current?.showModal();
  }, []);
  return (
    <dialog ref={place} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/**
 * Asks before something is done that cannot be taken back, or that reaches traffic. `children` say what it will do.
 *
 * @param props.act rejects with what went wrong, which the dialog shows; it closes when this is done
 */
export function Confirmation({
  title,
  action,
  destructive = false,
  act,
  onClose,
  children,
}: {
  title: string;
  /** What the button says. */
  action: string;
  destructive?: boolean;
  act: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}) {
  const t = useTranslations("dialog");
  const [error, setError] = useState<unknown>();
  const [isActing, setIsActing] = useState(false);
  const go = async () => {
    setIsActing(true);
    setError(undefined);
    try {
      await act();
      onClose();
    } catch (failure) {
      setError(failure);
      setIsActing(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error === undefined ? null : <Refusal error={error} />}
      <div className="actions">
        <button type="button" onClick={onClose}>
          {t("cancel")}
        </button>
        <button type="button" className={destructive ? "danger" : "main"} disabled={isActing} onClick={() => void go()}>
          {action}
        </button>
      </div>
    </Dialog>
  );
}

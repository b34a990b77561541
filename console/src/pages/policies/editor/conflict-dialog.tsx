// Somebody else has changed the policy meanwhile: shows both versions of what both changed, and merges them as one chooses.

import { useState } from "react";
import { useTranslations } from "use-intl";
import { Dialog } from "../../../parts/dialog.tsx";
import type { Json } from "./draft.ts";
import { type Conflict, mergeEdits } from "./merge.ts";

/** @param props.onMerged gets the merged document, which is not stored yet */
export function ConflictDialog({
  base,
  mine,
  theirs,
  onMerged,
  onClose,
}: {
  base: Json;
  mine: Json;
  theirs: Json;
  onMerged: (document: Json) => void;
  onClose: () => void;
}) {
  const t = useTranslations("conflict");
  const [{ document, conflicts }] = useState(() => mergeEdits(base, mine, theirs));
  const [taken, setTaken] = useState<readonly ("mine" | "theirs")[]>(() => conflicts.map(() => "mine"));
  const merge = () => {
    const merged = structuredClone(document);
    for (const [i, { path, theirs: value }] of conflicts.entries()) {
      if (taken[i] === "theirs") put(merged, path, value);
    }
    onMerged(merged);
  };
  return (
    <Dialog title={t("title")} onClose={onClose}>
      <p>{conflicts.length === 0 ? t("noneDiffers") : t("choose", { count: conflicts.length })}</p>
      {conflicts.map((conflict, i) => (
        <fieldset key={conflict.path.join(".")} className="versions">
          <legend>
            <code>{conflict.path.join(".")}</code>
          </legend>
          {(["mine", "theirs"] as const).map((side) => (
            <label key={side}>
              <input
                type="radio"
                name={`conflict-${i}`}
                checked={taken[i] === side}
                onChange={() => setTaken(taken.map((one, place) => (place === i ? side : one)))}
              />
              {t(side)} <pre>{shown(conflict[side])}</pre>
            </label>
          ))}
        </fieldset>
      ))}
      <div className="actions">
        <button type="button" onClick={onClose}>
          {t("back")}
        </button>
        <button type="button" className="main" onClick={merge}>
          {t("merge")}
        </button>
      </div>
    </Dialog>
  );
}

function shown(value: unknown): string {
  return value === undefined ? "—" : JSON.stringify(value, undefined, 2);
}

function put(document: Json, path: Conflict["path"], value: unknown): void {
  let inner: Json = document;
  for (const step of path.slice(0, -1)) inner = inner[step] as Json;
  const last = path.at(-1) as string;
  if (value === undefined) delete inner[last];
  else inner[last] = value;
}

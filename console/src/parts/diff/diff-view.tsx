// What a change does to documents: each one with its diff. Added and removed lines have their sign, and not a colour alone.

import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client.ts";
import { visible } from "../visible.ts";
import { diffLinesOf } from "./diff-lines.ts";
import "./diff.css";

export type DocumentChange = Schemas["Diff"]["changes"][number];

export function DiffView({ changes }: { changes: readonly DocumentChange[] }) {
  const t = useTranslations("diff");
  if (changes.length === 0) return <p className="quiet">{t("noDifference")}</p>;
  return changes.map(({ kind, app, name, change, text }) => {
    const title = t("changed", { what: t(`kinds.${kind}`), name, change: t(`changes.${change}`) });
    return (
      <section key={`${kind} ${app} ${name}`} aria-label={title}>
        <h2>{title}</h2>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
        <pre className="diff" tabIndex={0}>
          {diffLinesOf(text).map((line) => (
            <span key={line.id} className={line.kind}>
              {visible(line.text)}
              {"\n"}
            </span>
          ))}
        </pre>
      </section>
    );
  });
}

// Why the control plane did not do something: in its own words, with every field that is wrong.

import { useTranslations } from "use-intl";
import { RequestError } from "../api/client.ts";
import { useExpectation } from "../settings/language.tsx";

export function Refusal({ error }: { error: unknown }) {
  const t = useTranslations("refusal");
  const say = useExpectation();
  const problem = error instanceof RequestError ? error.problem : undefined;
  const errors = problem?.errors ?? [];
  const whereIs = (line: number | undefined, path: string) =>
    line === undefined ? path || t("whole") : [t("line", { line }), path].filter((part) => part !== "").join(", ");
  return (
    <div role="alert" className="refusal">
      {problem?.code === "precondition-failed" ? <p>{t("outdated")}</p> : null}
      <p>{problem?.detail ?? t("noAnswer")}</p>
      {errors.length === 0 ? null : (
        <ul>
          {errors.map(({ line, path, expected, got }) => (
            <li key={`${line} ${path} ${expected}`}>
              {t("field", { path: whereIs(line, path), expected: say(expected), got: say(got) })}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

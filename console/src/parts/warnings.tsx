// What a document says that is valid and surprises: each warning in a line.

import { useTranslations } from "use-intl";
import { useExpectation } from "../settings/language.tsx";

export interface Warning {
  readonly path: string;
  readonly expected: string;
  readonly got: string;
}

export function Warnings({ warnings }: { warnings: readonly Warning[] }) {
  const t = useTranslations("editor");
  const say = useExpectation();
  return warnings.map(({ path, expected, got }) => (
    <p key={`${path} ${expected}`} className="warning">
      {t("fault", { path: path === "" ? t("document") : path, expected: say(expected), got: say(got) })}
    </p>
  ));
}

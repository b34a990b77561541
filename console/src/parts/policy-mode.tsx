// The mode of a policy, as what it means for requests.

import { useTranslations } from "use-intl";
import { useHasNoRealm } from "./realm-missing.tsx";

export function PolicyMode({ app, mode }: { app: string; mode: "enforce" | "shadow" | "off" }) {
  const t = useTranslations("policies");
  const isForChecks = useHasNoRealm(app) && mode === "enforce";
  return (
    <span className={`mode ${isForChecks ? "off" : mode}`}>{t(isForChecks ? "checksOnly" : `modes.${mode}`)}</span>
  );
}

// Chooses how far back a chart of traffic goes.

import { useTranslations } from "use-intl";
import type { Period } from "./past-periods.ts";

/** "now": the last five minutes, as they come. */
export function PeriodChoice<One extends Period | "now">({
  periods,
  period,
  onChoose,
}: {
  periods: readonly One[];
  period: One;
  onChoose: (period: One) => void;
}) {
  const t = useTranslations("traffic");
  const offered: readonly (Period | "now")[] = periods;
  return (
    <label className="choice">
      {t("period")}
      <select value={period} onChange={(e) => onChoose(e.target.value as One)}>
        {offered.map((one) => (
          <option key={one} value={one}>
            {t(`periods.${one}`)}
          </option>
        ))}
      </select>
    </label>
  );
}

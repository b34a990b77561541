// The traffic of an app, or of one of its policies, as it comes: figures of the last second, and a chart of the last minutes, or of a day or a month.

import { useState } from "react";
import { useFormatter, useNow, useTranslations } from "use-intl";
import { nowMs } from "../../api/client.ts";
import { PastChart } from "./past-chart.tsx";
import { PeriodChoice } from "./period-choice.tsx";
import { TrafficChart } from "./traffic-chart.tsx";
import { newestOf, results } from "./traffic-window.ts";
import { useTraffic } from "./use-traffic.ts";

const periods = ["now", "24h", "30d"] as const;

export function LiveTraffic({
  app,
  policy,
}: {
  app: string;
  /** Absent: all policies of the app together. */
  policy?: string;
}) {
  const t = useTranslations("traffic");
  const format = useFormatter();
  const { window, isLive } = useTraffic(app, policy);
  const [period, setPeriod] = useState<(typeof periods)[number]>("now");
  // Seconds without traffic bring no event.
  useNow({ updateInterval: 1_000 });
  const now = newestOf(window, Math.floor(nowMs() / 1_000));
  return (
    <section aria-label={t("title")} className="card">
      <div className="heading">
        <h2>{t("title")}</h2>
        <PeriodChoice periods={periods} period={period} onChoose={setPeriod} />
        <span className={isLive ? "live" : "quiet"}>{isLive ? t("live") : t("connecting")}</span>
      </div>
      <dl className="figures">
        {results.map((result) => (
          <div key={result}>
            <dt>{t(result)}</dt>
            <dd data-result={result}>{t("perSecond", { count: format.number(now[result]) })}</dd>
          </div>
        ))}
      </dl>
      {period === "now" ? (
        <TrafficChart window={window} />
      ) : (
        <PastChart key={period} app={app} policy={policy} period={period} />
      )}
    </section>
  );
}

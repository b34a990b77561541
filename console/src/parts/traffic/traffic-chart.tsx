// Draws traffic, second by second, until now.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { useLocale, useTranslations } from "use-intl";
import "uplot/dist/uPlot.min.css";
import { nowMs } from "../../api/client.ts";
import { useTheme } from "../../settings/theme.tsx";
import { chartOptions } from "./chart-options.ts";
import { columnsOf, results, type TrafficWindow } from "./traffic-window.ts";

const height = 240;
const drawEveryMs = 500;
/** Of the present second, nothing is known yet. */
const lateSeconds = 1;

export function TrafficChart({ window: points }: { window: TrafficWindow }) {
  const t = useTranslations("traffic");
  const locale = useLocale();
  const [theme] = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const newest = useRef(points);
  newest.current = points;

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read of the page, so another theme needs another chart
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const columns = () => columnsOf(newest.current, Math.floor(nowMs() / 1_000) - lateSeconds);
    const labels = results.map((result) => t(result));
    const chart = new uPlot(chartOptions(element, { labels, locale, height, step: "second" }), columns(), element);
    const timer = setInterval(() => chart.setData(columns()), drawEveryMs);
    const sizes = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      clearInterval(timer);
      sizes.disconnect();
      chart.destroy();
    };
  }, [t, locale, theme]);

  return <div ref={place} className="chart" role="img" aria-label={t("chart")} />;
}

// Draws traffic, second by second, until now.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { useLocale, useTranslations } from "use-intl";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../../settings/theme.tsx";
import { columnsOf, results, type TrafficWindow } from "./traffic-window.ts";

const height = 240;
const drawEveryMs = 1_000;
/** Points come so much later than they happen (docs/rest.md). */
const lateSeconds = 3;

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
    const columns = () => columnsOf(newest.current, Math.floor(Date.now() / 1_000) - lateSeconds);
    const chart = new uPlot(
      optionsOf(
        element,
        results.map((result) => t(result)),
        locale,
      ),
      columns(),
      element,
    );
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

function optionsOf(element: HTMLElement, labels: readonly string[], locale: string): uPlot.Options {
  const colour = (name: string) => getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  const time = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const number = new Intl.NumberFormat(locale);
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height,
    cursor: { y: false },
    series: [
      { label: "", value: (_chart, second) => (second === null ? "" : time.format(second * 1_000)) },
      ...results.map((result, i) => ({
        label: labels[i] ?? result,
        stroke: colour(result),
        width: 2,
        points: { show: false },
        value: (_chart: uPlot, count: number | null) => (count === null ? "" : number.format(count)),
      })),
    ],
    axes: [
      { ...axis, values: (_chart, seconds) => seconds.map((second) => time.format(second * 1_000)), space: 90 },
      { ...axis, values: (_chart, counts) => counts.map((count) => number.format(count)), size: 60 },
    ],
    scales: { y: { range: (_chart, _least, most) => [0, Math.max(1, most * 1.1)] } },
  };
}

// The traffic of an app over the last hours, with a mark at each revision: what changed, and what it did to the requests.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { useLocale, useTranslations } from "use-intl";
import "uplot/dist/uPlot.min.css";
import { nowMs } from "../../api/client.ts";
import { pastTrafficQuery } from "../../api/queries.ts";
import { chartOptions } from "../../parts/traffic/chart-options.ts";
import { results } from "../../parts/traffic/traffic-window.ts";
import { useTheme } from "../../settings/theme.tsx";
import { minutesOf, type Period } from "./past-minutes.ts";

const height = 180;

export interface MarkedRevision {
  readonly n: number;
  readonly at: string;
}

export function HistoryChart({
  app,
  policy,
  period,
  revisions,
}: {
  app: string;
  policy: string | undefined;
  period: Period;
  revisions: readonly MarkedRevision[];
}) {
  const t = useTranslations("traffic");
  const words = useTranslations("history");
  const locale = useLocale();
  const [theme] = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const { data: points } = useQuery(pastTrafficQuery(app, policy, period));
  const marked = useRef(revisions);
  marked.current = revisions;
  const chart = useRef<uPlot>(undefined);
  const columns = minutesOf(points ?? [], period, nowMs());
  const newest = useRef(columns);
  newest.current = columns;

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read of the page, so another theme needs another chart
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const labels = results.map((result) => t(result));
    const marks = () => marked.current.map(({ n, at }) => ({ atSeconds: Date.parse(at) / 1_000, text: String(n) }));
    const made = new uPlot(
      chartOptions(element, { labels, locale, height, marks, withSeconds: false }),
      newest.current,
      element,
    );
    chart.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      chart.current = undefined;
      sizes.disconnect();
      made.destroy();
    };
  }, [t, locale, theme]);
  // After every rendering: points, revisions or the time are others.
  useEffect(() => chart.current?.setData(newest.current));

  return <div ref={place} className="chart" role="img" aria-label={words("chart", { count: revisions.length })} />;
}

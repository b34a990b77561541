// The traffic of an app, or of one of its policies, over the last hours or days, with a mark at each revision: what changed, and what it did to the requests.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { useLocale, useTranslations } from "use-intl";
import "uplot/dist/uPlot.min.css";
import { nowMs } from "../../api/client.ts";
import { pastTrafficQuery } from "../../api/queries.ts";
import { useTheme } from "../../settings/theme.tsx";
import { chartOptions } from "./chart-options.ts";
import { type Period, pastColumns, stepOf } from "./past-periods.ts";
import { results } from "./traffic-window.ts";

const height = 180;

const none: readonly MarkedRevision[] = [];

export interface MarkedRevision {
  readonly n: number;
  readonly at: string;
}

export function PastChart({
  app,
  policy,
  period,
  revisions = none,
}: {
  app: string;
  policy: string | undefined;
  /** Another period needs another chart. */
  period: Period;
  revisions?: readonly MarkedRevision[];
}) {
  const t = useTranslations("traffic");
  const locale = useLocale();
  const [theme] = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const step = stepOf(period);
  const { data } = useQuery(pastTrafficQuery(app, policy, period, step));
  const marked = useRef(revisions);
  marked.current = revisions;
  const chart = useRef<uPlot>(undefined);
  const columns = pastColumns(data?.points ?? [], period, nowMs());
  const newest = useRef(columns);
  newest.current = columns;

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read of the page, so another theme needs another chart
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const labels = results.map((result) => t(result));
    const marks = () => marked.current.map(({ n, at }) => ({ atSeconds: Date.parse(at) / 1_000, text: String(n) }));
    const made = new uPlot(chartOptions(element, { labels, locale, height, marks, step }), newest.current, element);
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

  return (
    <>
      <div ref={place} className="chart" role="img" aria-label={t(`past.${step}`, { count: revisions.length })} />
      {data?.complete === false ? <p className="quiet">{t("incomplete")}</p> : null}
    </>
  );
}

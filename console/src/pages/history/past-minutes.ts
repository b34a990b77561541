// The minutes of the last hours, for the chart over the history.

import type { TrafficPoint } from "../../api/queries.ts";
import { results } from "../../parts/traffic/traffic-window.ts";

export const periods = ["1h", "6h", "24h"] as const;
export type Period = (typeof periods)[number];

const minuteSeconds = 60;

export function hoursOf(period: Period): number {
  return Number(period.slice(0, -1));
}

/** @returns each minute until now, as seconds since 1970, and for each result how many requests there were in it */
export function minutesOf(points: readonly TrafficPoint[], period: Period, nowMs: number): [number[], ...number[][]] {
  const last = Math.floor(nowMs / 1_000 / minuteSeconds);
  const count = hoursOf(period) * 60;
  const byMinute = new Map(points.map((point) => [Math.floor(Date.parse(point.at) / 1_000 / minuteSeconds), point]));
  const minutes = Array.from({ length: count }, (_, i) => last - count + 1 + i);
  return [
    minutes.map((minute) => minute * minuteSeconds),
    ...results.map((result) => minutes.map((minute) => byMinute.get(minute)?.[result] ?? 0)),
  ];
}

// The last minutes of an app's traffic, second by second, for the chart.

import type { TrafficPoint } from "../../api/queries.ts";

export const results = ["admitted", "refused", "delayed", "degraded"] as const;
export type Result = (typeof results)[number];

/** Seconds that are shown. */
export const shownSeconds = 300;

/** By the second since 1970. A second without traffic is absent. */
export type TrafficWindow = ReadonlyMap<number, TrafficPoint>;

/** @returns the window with these points, without what is older than what is shown before the newest */
export function withPoints(window: TrafficWindow, points: readonly TrafficPoint[]): TrafficWindow {
  const all = new Map(window);
  for (const point of points) all.set(Math.floor(Date.parse(point.at) / 1_000), point);
  const newest = Math.max(...all.keys());
  for (const second of all.keys()) if (second <= newest - shownSeconds) all.delete(second);
  return all;
}

/** @returns the seconds up to `until`, and for each result how many requests there were in each */
export function columnsOf(window: TrafficWindow, until: number): [number[], ...number[][]] {
  const seconds = Array.from({ length: shownSeconds }, (_, i) => until - shownSeconds + 1 + i);
  return [seconds, ...results.map((result) => seconds.map((second) => window.get(second)?.[result] ?? 0))];
}

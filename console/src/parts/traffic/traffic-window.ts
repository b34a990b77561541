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

/** What has not been reported for so long did not happen. */
const silentSeconds = 4;

/**
 * @returns for each result the higher of the two newest seconds: of the last one, reports may still be on their way
 * @param now in seconds since 1970
 */
export function newestOf(window: TrafficWindow, now: number): Readonly<Record<Result, number>> {
  const newest = Math.max(now - silentSeconds, ...window.keys());
  const of = (result: Result) => Math.max(window.get(newest)?.[result] ?? 0, window.get(newest - 1)?.[result] ?? 0);
  return Object.fromEntries(results.map((result) => [result, of(result)])) as Record<Result, number>;
}

/** @returns the seconds up to `until`, and for each result how many requests there were in each */
export function columnsOf(window: TrafficWindow, until: number): [number[], ...number[][]] {
  const seconds = Array.from({ length: shownSeconds }, (_, i) => until - shownSeconds + 1 + i);
  return [seconds, ...results.map((result) => seconds.map((second) => window.get(second)?.[result] ?? 0))];
}

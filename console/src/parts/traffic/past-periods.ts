// How far back charts of traffic go, and their columns: by minute for the last hours, by hour for the last days.

import type { TrafficPoint } from "../../api/queries.ts";
import { results } from "./traffic-window.ts";

export const periods = ["1h", "6h", "24h", "30d"] as const;
export type Period = (typeof periods)[number];

export type PastStep = "minute" | "hour";

const lengths: Readonly<Record<Period, { readonly step: PastStep; readonly steps: number }>> = {
  "1h": { step: "minute", steps: 60 },
  "6h": { step: "minute", steps: 360 },
  "24h": { step: "minute", steps: 1_440 },
  "30d": { step: "hour", steps: 720 },
};
const stepSeconds = { minute: 60, hour: 3_600 } as const;

export function stepOf(period: Period): PastStep {
  return lengths[period].step;
}

/** @returns each minute or hour until now, as seconds since 1970, and for each result how many requests there were in it */
export function pastColumns(points: readonly TrafficPoint[], period: Period, nowMs: number): [number[], ...number[][]] {
  const { step, steps } = lengths[period];
  const placeOf = (atMs: number) => Math.floor(atMs / 1_000 / stepSeconds[step]);
  const last = placeOf(nowMs);
  const byPlace = new Map(points.map((point) => [placeOf(Date.parse(point.at)), point]));
  const places = Array.from({ length: steps }, (_, i) => last - steps + 1 + i);
  return [
    places.map((place) => place * stepSeconds[step]),
    ...results.map((result) => places.map((place) => byPlace.get(place)?.[result] ?? 0)),
  ];
}

// Traffic from a shape: how many requests a second are offered over time, and so when each request comes. The same shape gives the same
// requests each time.

import type { Traffic, TrafficKey } from "./traffic.ts";

export type Shape =
  | { readonly kind: "steady"; readonly perSecond: number }
  /** Steady, with so many more requests within a stretch of time. */
  | {
      readonly kind: "burst";
      readonly perSecond: number;
      readonly requests: number;
      readonly atSeconds: number;
      readonly lastsSeconds: number;
    }
  | { readonly kind: "ramp"; readonly fromPerSecond: number; readonly toPerSecond: number }
  /** The peaks are a quarter and three quarters through. */
  | { readonly kind: "two-peaks"; readonly perSecond: number; readonly peakPerSecond: number }
  /** Points in ascending order of time; straight lines between them, level before the first and after the last. */
  | { readonly kind: "drawn"; readonly points: readonly RatePoint[] }
  /** What was measured: each number of requests came within the step that begins there, in ascending order. */
  | { readonly kind: "recorded"; readonly points: readonly RecordedPoint[]; readonly stepSeconds: number };

/** Seconds since the beginning. */
export interface RatePoint {
  readonly seconds: number;
  readonly perSecond: number;
}

export interface RecordedPoint {
  readonly seconds: number;
  readonly requests: number;
}

export interface Offer {
  readonly shape: Shape;
  readonly startUs: number;
  readonly durationSeconds: number;
  /** even: at equal distances while the rate is the same. random: as independent clients come, by the seed. */
  readonly arrivals: "even" | "random";
  readonly seed: number;
  /** At least one. */
  readonly keys: readonly KeyShare[];
  /** What every request states as its cost. Absent: nothing. */
  readonly cost?: number;
}

export interface KeyShare {
  readonly key: TrafficKey;
  /** Relative to the shares of the others. */
  readonly share: number;
}

/** More are not made: what somebody draws may be any number. */
export const mostRequests = 1_000_000;

const peakPoints = 32;
/** Multiples of it, taken modulo 1, are spread evenly however many there are. */
const goldenRatio = 0.618_033_988_749_894_9;
const roundingSlack = 1e-9;

export function trafficOf({ shape, startUs, durationSeconds, arrivals, seed, keys, cost }: Offer): Traffic {
  const rates = ratesOf(shape, durationSeconds);
  const seconds = arrivals === "even" ? evenArrivals(rates) : randomArrivals(rates, seed);
  const traffic: Traffic = {
    atUs: Float64Array.from(seconds, (at) => startUs + Math.floor(at * 1_000_000 + roundingSlack)),
    keyOf: keysOf(seconds.length, keys),
    keys: keys.map(({ key }) => key),
  };
  return cost === undefined ? traffic : { ...traffic, costs: new Float64Array(seconds.length).fill(cost) };
}

/** Returns the rate over time, from 0 to the end. Two points at one time are a step. */
export function ratesOf(shape: Shape, durationSeconds: number): RatePoint[] {
  const points = within(pointsOf(shape, durationSeconds), durationSeconds);
  return points.map(({ seconds, perSecond }) => ({ seconds, perSecond: Math.max(0, perSecond) }));
}

function pointsOf(shape: Shape, durationSeconds: number): readonly RatePoint[] {
  switch (shape.kind) {
    case "steady":
      return [{ seconds: 0, perSecond: shape.perSecond }];
    case "ramp":
      return [
        { seconds: 0, perSecond: shape.fromPerSecond },
        { seconds: durationSeconds, perSecond: shape.toPerSecond },
      ];
    case "burst": {
      const { perSecond, requests, atSeconds, lastsSeconds } = shape;
      return [
        { seconds: 0, perSecond },
        ...step(atSeconds, atSeconds + lastsSeconds, perSecond + requests / lastsSeconds, perSecond),
      ];
    }
    case "two-peaks":
      return Array.from({ length: 2 * peakPoints + 1 }, (_, i) => {
        const height = (1 - Math.cos((2 * Math.PI * i) / peakPoints)) / 2;
        const perSecond = shape.perSecond + (shape.peakPerSecond - shape.perSecond) * height;
        return { seconds: (durationSeconds * i) / (2 * peakPoints), perSecond };
      });
    case "drawn":
      return shape.points;
    case "recorded":
      return shape.points.flatMap(({ seconds, requests }) =>
        step(seconds, seconds + shape.stepSeconds, requests / shape.stepSeconds, 0),
      );
  }
}

function step(fromSeconds: number, toSeconds: number, perSecond: number, otherwise: number): RatePoint[] {
  return [
    { seconds: fromSeconds, perSecond: otherwise },
    { seconds: fromSeconds, perSecond },
    { seconds: toSeconds, perSecond },
    { seconds: toSeconds, perSecond: otherwise },
  ];
}

/** Returns the part from 0 to the end. */
function within(points: readonly RatePoint[], endSeconds: number): RatePoint[] {
  const first = points[0];
  if (first === undefined) return [];
  const kept: RatePoint[] = [];
  let before: RatePoint = { seconds: Math.min(0, first.seconds), perSecond: first.perSecond };
  if (first.seconds > 0) kept.push(before);
  for (const point of points) {
    if (before.seconds < 0 && point.seconds > 0) kept.push({ seconds: 0, perSecond: between(before, point, 0) });
    if (point.seconds > endSeconds) {
      if (before.seconds < endSeconds)
        kept.push({ seconds: endSeconds, perSecond: between(before, point, endSeconds) });
      return kept;
    }
    if (point.seconds >= 0) kept.push(point);
    before = point;
  }
  if (before.seconds < endSeconds) kept.push({ seconds: endSeconds, perSecond: before.perSecond });
  return kept;
}

function between(a: RatePoint, b: RatePoint, seconds: number): number {
  return a.perSecond + ((b.perSecond - a.perSecond) * (seconds - a.seconds)) / (b.seconds - a.seconds);
}

/** The first request comes at once, and each further one when another whole request has been offered. */
function evenArrivals(rates: readonly RatePoint[]): number[] {
  let next = 0;
  return arrivalsAt(rates, () => next++);
}

function randomArrivals(rates: readonly RatePoint[], seed: number): number[] {
  const random = randomFrom(seed);
  let next = 0;
  return arrivalsAt(rates, () => {
    next -= Math.log(1 - random());
    return next;
  });
}

/** @param nextOffered how many requests have been offered when the next one comes: larger each time */
function arrivalsAt(rates: readonly RatePoint[], nextOffered: () => number): number[] {
  const seconds: number[] = [];
  let offered = 0;
  let next = nextOffered();
  for (let i = 1; i < rates.length; i++) {
    const from = rates[i - 1] as RatePoint;
    const to = rates[i] as RatePoint;
    const length = to.seconds - from.seconds;
    const more = ((from.perSecond + to.perSecond) / 2) * length;
    while (next < offered + more - roundingSlack && seconds.length < mostRequests) {
      seconds.push(from.seconds + secondsUntil(Math.max(0, next - offered), from.perSecond, to.perSecond, length));
      next = nextOffered();
    }
    offered += more;
  }
  return seconds;
}

/** Returns after how long so many requests have been offered, while the rate changes evenly over `length`. */
function secondsUntil(requests: number, fromPerSecond: number, toPerSecond: number, length: number): number {
  if (requests === 0) return 0;
  const slope = (toPerSecond - fromPerSecond) / length;
  const root = Math.sqrt(Math.max(0, fromPerSecond * fromPerSecond + 2 * slope * requests));
  // This form of the quadratic's solution holds for a slope of 0 too.
  return Math.min(length, (2 * requests) / (fromPerSecond + root));
}

/** Every stretch of the requests has the keys by their shares, as nearly as whole requests can. */
function keysOf(count: number, keys: readonly KeyShare[]): Uint32Array {
  const keyOf = new Uint32Array(count);
  if (keys.length < 2) return keyOf;
  const upTo = new Float64Array(keys.length);
  let sum = 0;
  for (const [i, { share }] of keys.entries()) {
    sum += share;
    upTo[i] = sum;
  }
  for (let i = 0; i < count; i++) {
    const place = (((i + 0.5) * goldenRatio) % 1) * sum;
    let low = 0;
    let high = keys.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] as number) > place) high = middle;
      else low = middle + 1;
    }
    keyOf[i] = low;
  }
  return keyOf;
}

/** Mulberry32. @returns a function that returns numbers from 0 to below 1 */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

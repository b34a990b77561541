// Arbitraries for fast-check: limits of every legal size, and requests that press against them.

import fc from "fast-check";
import type { Algorithm, Limit } from "../../limiter/src/algorithms/limit.ts";
import { day, maxUnits, ms, second, startUs } from "./algorithms/counter.ts";

export type LegalLimit = Omit<Limit, "name">;

export interface Request {
  readonly afterUs: number;
  readonly cost: number;
}

export const everyAlgorithm = [
  "token-bucket",
  "leaky-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "concurrency",
] as const satisfies readonly Algorithm[];

export const longestWindowUs = 366 * day;

/** The longest trace, and the longest refill of a bucket, so that every moment stays below 2^53 µs, the year 2255. */
const longestTraceUs = 3e15;
const longestFullUs = 2e15;

/** Whole numbers of every magnitude up to `max`, with the bounds often. */
export function magnitudes(max: number): fc.Arbitrary<number> {
  const digits = Math.ceil(Math.log2(max));
  return fc.oneof(
    fc.integer({ min: 0, max: digits }).chain((bits) => fc.integer({ min: 1, max: Math.min(2 ** bits, max) })),
    fc.constantFrom(...[1, 2, 3, 7, max - 1, max].filter((value) => value >= 1 && value <= max)),
  );
}

/** Parts of a whole, each equally likely; those of fc.double are nearly all next to 0. */
export function shares(most: number): fc.Arbitrary<number> {
  return fc.nat(10_000).map((part) => (part / 10_000) * most);
}

export const windowsUs = fc.oneof(
  magnitudes(longestWindowUs / ms).map((windowMs) => windowMs * ms),
  fc.constantFrom(ms, second, 11 * second, day, longestWindowUs),
);

/** Windows with a precision that divides them into 1 to 1000 blocks: whole ms, or the default of a tenth. */
const blockedWindows = fc.oneof(
  windowsUs.map((windowUs) => ({ windowUs, precisionUs: windowUs / 10 })),
  fc
    .tuple(magnitudes(1000), windowsUs)
    .map(([blocks, us]) => ({ blocks, precisionUs: Math.max(ms, Math.floor(us / blocks / ms) * ms) }))
    .map(({ blocks, precisionUs }) => ({ windowUs: blocks * precisionUs, precisionUs }))
    .filter(({ windowUs }) => windowUs <= longestWindowUs),
);

export function legalLimits(algorithm: Algorithm): fc.Arbitrary<LegalLimit> {
  const quota = magnitudes(maxUnits);
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    return fc
      .record({ quota, windowUs: windowsUs, burst: magnitudes(maxUnits) })
      .filter(({ quota, windowUs, burst }) => ((burst + 1) / quota) * windowUs < longestFullUs)
      .map((sizes) => ({ algorithm, ...sizes, precisionUs: 0 }));
  }
  const windows =
    algorithm === "sliding-window" ? blockedWindows : windowsUs.map((windowUs) => ({ windowUs, precisionUs: 0 }));
  return fc.tuple(quota, windows).map(([quota, sizes]) => ({ algorithm, quota, burst: quota, ...sizes }));
}

/** @returns the most that one request may cost */
export function capacityOf({ algorithm, quota, burst }: LegalLimit): number {
  if (algorithm === "leaky-bucket") return burst + 1;
  return algorithm === "token-bucket" ? burst : quota;
}

/** Moments at which a trace begins; ring ticks wrap at 2^32 µs, which is less than two hours. */
export const starts = fc.nat(2 ** 33).map((us) => startUs + us);

/** Requests that mostly press against the limit: about as far apart as their cost takes to refill. */
export function traces(limit: LegalLimit, most: number): fc.Arbitrary<Request[]> {
  const capacity = capacityOf(limit);
  const cost = fc.oneof(magnitudes(capacity), magnitudes(Math.max(1, Math.floor(capacity / 8))), fc.constant(capacity));
  const some = shares(1.2);
  const request = fc.record({
    cost,
    share: fc.oneof(fc.constant(0), fc.constant(0), some),
    windows: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.constantFrom(0.1, 0.5, 1), some),
    jitterUs: fc.integer({ min: 0, max: 2 }),
  });
  return fc.array(request, { minLength: 1, maxLength: most }).map((requests) =>
    requests.map(({ cost, share, windows, jitterUs }) => ({
      cost,
      afterUs: Math.floor(Math.min(pauseUs(limit, share * cost, windows), longestTraceUs / most - 2)) + jitterUs,
    })),
  );
}

function pauseUs({ algorithm, quota, windowUs }: LegalLimit, units: number, windows: number): number {
  const refillUs = (units / quota) * windowUs;
  // A bucket takes time for its burst, other algorithms for their window.
  return algorithm === "token-bucket" || algorithm === "leaky-bucket" ? refillUs : refillUs / 4 + windows * windowUs;
}

export interface Trace {
  readonly limit: LegalLimit;
  readonly fromUs: number;
  readonly requests: readonly Request[];
}

export function limitedTraces(algorithm: Algorithm, most: number): fc.Arbitrary<Trace> {
  return legalLimits(algorithm).chain((limit) =>
    fc.record({ limit: fc.constant(limit), fromUs: starts, requests: traces(limit, most) }),
  );
}

/** Small numbers, so that the same ticks and borders occur again and again. */
export function crowdedTraces(algorithm: Algorithm, most: number): fc.Arbitrary<Trace> {
  const limit = fc
    .record({
      quota: fc.integer({ min: 1, max: 30 }),
      burst: fc.integer({ min: 1, max: 30 }),
      windowMs: fc.integer({ min: 1, max: 20 }),
      blocks: fc.constantFrom(1, 2, 4, 5, 8, 10, 20),
    })
    .map(({ quota, burst, windowMs, blocks }) => ({
      algorithm,
      quota,
      windowUs: windowMs * ms,
      burst,
      precisionUs: algorithm === "sliding-window" ? (windowMs * ms) / blocks : 0,
    }));
  return limit.chain((one) => {
    const { windowUs, quota } = one;
    const request = fc.record({
      cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: quota })),
      afterUs: fc.oneof(
        { weight: 3, arbitrary: fc.constant(0) },
        { weight: 6, arbitrary: fc.nat(Math.floor(windowUs / 8)) },
        fc.nat(2 * windowUs),
      ),
    });
    return fc.record({
      limit: fc.constant(one),
      fromUs: starts,
      requests: fc.array(request, { minLength: 1, maxLength: most, size: "max" }),
    });
  });
}

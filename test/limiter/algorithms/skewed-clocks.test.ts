// The workers of one machine share counters, and read clocks that are some ms apart: requests by a clock behind never gain
// units from the clock ahead, however short the window is.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Rate } from "../../../limiter/src/algorithms/rate.ts";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { capacityOf, everyAlgorithm, type LegalLimit } from "../legal-limits.ts";
import { Counter, ms, startUs } from "./counter.ts";

interface Admission {
  /** The latest time that any clock has shown the counter so far. */
  readonly us: number;
  readonly cost: number;
}

/** Returns the most units in any stretch of one window; for a fixed window, in any window. */
function mostWithin({ algorithm, windowUs }: LegalLimit, admitted: readonly Admission[]): number {
  const lastsUs = algorithm === "concurrency" ? 0.9 * windowUs : windowUs;
  const isFixed = algorithm === "fixed-window";
  let most = 0;
  let units = 0;
  let oldest = 0;
  for (const { us, cost } of admitted) {
    units += cost;
    const since = isFixed ? us - (us % windowUs) : us - lastsUs + 1;
    for (; (admitted[oldest] as Admission).us < since; oldest++) units -= (admitted[oldest] as Admission).cost;
    most = Math.max(most, units);
  }
  return most;
}

/** Returns by how many whole units any stretch exceeds a bucket's room and what refills meanwhile. */
function overdrawn({ quota, windowUs, burst, algorithm }: LegalLimit, admitted: readonly Admission[]): number {
  const room = algorithm === "leaky-bucket" ? burst + 1 : burst;
  let owed = 0;
  let lastUs = 0;
  let most = 0;
  // The unit is a quota-th of a µs, which is exact.
  for (const { us, cost } of admitted) {
    owed = Math.max(0, owed - (us - lastUs) * quota) + cost * windowUs;
    lastUs = us;
    most = Math.max(most, owed - room * windowUs);
  }
  return Math.ceil(most / windowUs);
}

function limitOf(algorithm: LegalLimit["algorithm"], windowUs: number, quota: number): LegalLimit {
  const burst = algorithm === "leaky-bucket" ? Math.max(1, quota - 1) : quota;
  return { algorithm, quota, windowUs, burst, precisionUs: algorithm === "sliding-window" ? windowUs / 10 : 0 };
}

for (const algorithm of everyAlgorithm) {
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  const minted = (limit: LegalLimit, admitted: readonly Admission[]) =>
    isBucket ? overdrawn(limit, admitted) : Math.max(0, mostWithin(limit, admitted) - limit.quota);

  describe(`${algorithm}, asked by clocks 3 to 40 ms apart,`, () => {
    test("admits for both in turn what the clock ahead alone would get, for windows of 1 to 100 ms", () => {
      for (const windowMs of [1, 2, 5, 10, 39, 41, 50, 100]) {
        for (const behindMs of [3, 7, 20, 40]) {
          const limit = limitOf(algorithm, windowMs * ms, 4);
          const rate: Rate = rateOf(limit);
          const [shared, ahead] = [new Counter(rate), new Counter(rate)];
          const admitted: Admission[] = [];
          let [ofBoth, ofAhead] = [0, 0];
          for (let us = startUs; us < startUs + 300 * ms; us += (windowMs * ms) / 8) {
            for (const clockUs of [us, us - behindMs * ms]) {
              if (ahead.allows(us)) ofAhead += 1;
              if (!shared.allows(clockUs)) continue;
              ofBoth += 1;
              admitted.push({ us, cost: 1 });
            }
            if (shared.state.stepped) expect.fail("a clock behind was taken for a step");
          }
          expect(minted(limit, admitted)).toBe(0);
          expect(ofBoth).toBeLessThanOrEqual(ofAhead);
          // Nor is either clock locked out.
          expect(ofBoth).toBeGreaterThan(0.8 * ofAhead);
        }
      }
    });

    const traces = fc.record({
      windowUs: fc.integer({ min: 1, max: 100 }).map((windowMs) => windowMs * ms),
      quota: fc.integer({ min: 1, max: 8 }),
      behindUs: fc.integer({ min: 3 * ms, max: 40 * ms }),
      asks: fc.array(
        fc.record({
          isBehind: fc.boolean(),
          /** In sixteenths of a window; often zero. */
          pause: fc.oneof(fc.constant(0), fc.nat(3), fc.nat(24)),
          cost: fc.integer({ min: 1, max: 8 }),
        }),
        { minLength: 1, maxLength: 120, size: "max" },
      ),
    });

    /** @returns what was admitted, each at the latest time that any clock has shown the counter */
    function admittedOf(limit: LegalLimit, behindUs: number, asks: readonly Ask[]): Admission[] {
      const counter = new Counter(rateOf(limit));
      const admitted: Admission[] = [];
      let [nowUs, shownUs] = [startUs, 0];
      for (const { isBehind, pause, cost } of asks) {
        nowUs += Math.floor((pause * limit.windowUs) / 16);
        const clockUs = isBehind ? nowUs - behindUs : nowUs;
        shownUs = Math.max(shownUs, clockUs);
        if (counter.allows(clockUs, cost)) admitted.push({ us: shownUs, cost });
        if (counter.state.stepped) expect.fail("a clock behind was taken for a step");
      }
      return admitted;
    }

    test("admits nothing beyond the limit, in whatever order they ask", () => {
      fc.assert(
        fc.property(traces, ({ windowUs, quota, behindUs, asks }) => {
          const limit = limitOf(algorithm, windowUs, quota);
          const single = asks.map((ask) => ({ ...ask, cost: 1 }));
          expect(minted(limit, admittedOf(limit, behindUs, single))).toBe(0);
        }),
        { numRuns: 80 },
      );
    });

    test("admits nothing beyond the limit at differing costs, where units that slide may count from the last charge, less than a window ago", () => {
      fc.assert(
        fc.property(traces, ({ windowUs, quota, behindUs, asks }) => {
          const limit = limitOf(algorithm, windowUs, quota);
          const within = asks.map((ask) => ({ ...ask, cost: 1 + (ask.cost % capacityOf(limit)) }));
          const more = isBucket || algorithm === "fixed-window" ? 0 : quota;
          expect(minted(limit, admittedOf(limit, behindUs, within))).toBeLessThanOrEqual(more);
        }),
        { numRuns: 80 },
      );
    });
  });

  interface Ask {
    readonly isBehind: boolean;
    readonly pause: number;
    readonly cost: number;
  }
}

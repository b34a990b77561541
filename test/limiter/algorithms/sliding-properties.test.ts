import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { crowdedTraces, type LegalLimit, limitedTraces, shares } from "../legal-limits.ts";
import { AdmissionList } from "./admission-list.ts";
import { Counter, expectSame, ms, startUs } from "./counter.ts";

const slidingAlgorithms = ["sliding-window", "sliding-log", "concurrency"] as const;

/** Happens besides requests: a refund of what was charged so many requests ago, and an edit of the quota. */
const edit = fc.record({
  refundOf: fc.option(fc.nat(6), { freq: 3 }),
  refundShare: fc.constantFrom(0.3, 1, 2),
  quotaShare: fc.option(fc.constantFrom(0.3, 0.9, 1.5, 1), { freq: 12 }),
});

for (const algorithm of slidingAlgorithms) {
  describe(`${algorithm}, whatever is asked, refunded and edited,`, () => {
    const edited = (traces: typeof crowdedTraces, most: number) =>
      fc.tuple(traces(algorithm, most), fc.array(edit, { minLength: 1, maxLength: 20 }));

    for (const [size, traces, most, numRuns] of [
      ["small", crowdedTraces, 150, 250],
      ["legal", limitedTraces, 40, 600],
    ] as const) {
      test(`decides as a list of all admissions would, for limits of every ${size} size`, () => {
        fc.assert(
          fc.property(edited(traces, most), ([{ limit, fromUs, requests }, edits]) => {
            const counter = new Counter(rateOf(limit));
            const list = new AdmissionList(limit);
            const charges: { atUs: number; cost: number }[] = [];
            let nowUs = fromUs;
            requests.forEach(({ afterUs, cost }, i) => {
              nowUs += afterUs;
              const { refundOf, refundShare, quotaShare } = edits[i % edits.length] as (typeof edits)[0];
              if (quotaShare !== null) {
                list.quota = Math.max(1, Math.min(2 ** 31, Math.floor(limit.quota * quotaShare)));
                counter.rate = rateOf({ ...limit, quota: list.quota });
              }
              const decision = counter.ask(nowUs, cost);
              expectSame(decision, list.ask(nowUs, cost));
              if (decision.allowed) charges.push({ atUs: counter.state.atUs, cost });
              const charge = refundOf === null ? undefined : charges.at(-1 - refundOf);
              if (charge === undefined) return;
              const units = Math.ceil(charge.cost * refundShare);
              counter.refund(units, nowUs, charge.atUs);
              list.refund(charge.atUs, units);
            });
          }),
          { numRuns },
        );
      });
    }
  });
}

for (const algorithm of ["sliding-window", "sliding-log"] as const) {
  describe(algorithm, () => {
    for (const [size, traces, most, numRuns] of [
      ["small", crowdedTraces, 120, 250],
      ["legal", limitedTraces, 40, 500],
    ] as const) {
      test(`never holds more than the quota in an interval of one window, for limits of every ${size} size`, () => {
        fc.assert(
          fc.property(traces(algorithm, most), ({ limit, fromUs, requests }) => {
            const counter = new Counter(rateOf(limit));
            const admitted: { us: number; cost: number }[] = [];
            let nowUs = fromUs;
            for (const { afterUs, cost } of requests) {
              nowUs += afterUs;
              if (counter.allows(nowUs, cost)) admitted.push({ us: nowUs, cost });
            }
            for (const first of admitted) {
              const within = admitted.filter(({ us }) => us >= first.us && us < first.us + limit.windowUs);
              const units = within.reduce((sum, { cost }) => sum + cost, 0);
              if (units > limit.quota) expect(units).toBeLessThanOrEqual(limit.quota);
            }
          }),
          { numRuns },
        );
      });
    }

    test("frees a unit at the earliest one window after it was taken, and at the latest by its bound", () => {
      fc.assert(
        fc.property(limitedTraces(algorithm, 1), ({ limit, fromUs }) => {
          const counter = new Counter(rateOf(limit));
          counter.ask(fromUs, limit.quota);
          const lateUs = counter.peek(fromUs, 1).retryAfterUs - limit.windowUs;
          expect(lateUs).toBeGreaterThanOrEqual(0);
          expect(lateUs).toBeLessThanOrEqual(mostLateUs(limit));
        }),
        { numRuns: 1_000 },
      );
    });
  });
}

/** A sliding-log is exact up to 2^30 µs; beyond that, the ticks in which a unit was taken and in which it ends are added. */
function mostLateUs({ algorithm, windowUs, precisionUs }: LegalLimit): number {
  if (algorithm === "sliding-window") return precisionUs;
  return windowUs <= 2 ** 30 ? 0 : (4 * windowUs) / 2 ** 30;
}

const walk = fc.record({
  quota: fc.integer({ min: 1, max: 5 }),
  windowUs: fc.integer({ min: 1, max: 60 }).map((windowMs) => windowMs * ms),
  blocks: fc.constantFrom(1, 2, 5, 10),
  asks: fc.array(
    fc.record({
      cost: fc.integer({ min: 1, max: 5 }),
      afterShare: fc.oneof(fc.constant(0), shares(0.5)),
      /** In windows, beyond the step that is still waited for. */
      backShare: fc.option(shares(2), { freq: 2 }),
      /** Whether it then waits, to the µs, until its units are free. */
      waits: fc.boolean(),
    }),
    { minLength: 3, maxLength: 30, size: "max" },
  ),
});

for (const algorithm of slidingAlgorithms) {
  test(`${algorithm} frees nothing early, wherever in its tick a clock is that steps back`, () => {
    fc.assert(
      fc.property(walk, ({ quota, windowUs, blocks, asks }) => {
        const precisionUs = algorithm === "sliding-window" ? windowUs / blocks : 0;
        const counter = new Counter(rateOf({ algorithm, quota, windowUs, burst: quota, precisionUs }));
        const countsUs = algorithm === "concurrency" ? 0.9 * windowUs : windowUs;
        const admitted: { reportedUs: number; cost: number }[] = [];
        // `reportedUs` is the time that has passed by the clock, without its steps back.
        let [clockUs, reportedUs] = [startUs, 0];
        for (const { cost: anyCost, afterShare, backShare, waits } of asks) {
          const cost = Math.min(anyCost, quota);
          let afterUs = Math.floor(afterShare * windowUs);
          if (backShare !== null) {
            clockUs -= Math.max(windowUs, 50 * ms) + 1 + Math.floor(backShare * windowUs);
            counter.peek(clockUs);
          }
          if (waits) {
            const { allowed, retryAfterUs, resetAfterUs } = counter.copy().peek(clockUs, cost);
            if (!allowed) afterUs = algorithm === "concurrency" ? resetAfterUs : retryAfterUs;
          }
          clockUs += afterUs;
          reportedUs += afterUs;
          if (counter.allows(clockUs, cost)) admitted.push({ reportedUs, cost });
        }
        for (const { reportedUs: us } of admitted) {
          const within = admitted.filter((one) => one.reportedUs > us - countsUs && one.reportedUs <= us);
          const units = within.reduce((sum, { cost }) => sum + cost, 0);
          if (units > quota) expect(units).toBeLessThanOrEqual(quota);
        }
      }),
      { numRuns: 200 },
    );
  });
}

describe("concurrency", () => {
  test("never has more than its quota held, and holds each slot until its release or for nine tenths of its life", () => {
    fc.assert(
      fc.property(
        fc.oneof(crowdedTraces("concurrency", 120), limitedTraces("concurrency", 40)),
        fc.array(fc.nat(3), { minLength: 1, maxLength: 10 }),
        ({ limit, fromUs, requests }, releases) => {
          const counter = new Counter(rateOf(limit));
          let held: { us: number; atUs: number; slots: number }[] = [];
          let nowUs = fromUs;
          requests.forEach(({ afterUs, cost }, i) => {
            nowUs += afterUs;
            const allowed = counter.allows(nowUs, cost);
            held = held.filter(({ us }) => nowUs - us < 0.9 * limit.windowUs);
            const slots = held.reduce((sum, one) => sum + one.slots, 0);
            if (allowed) {
              if (slots + cost > limit.quota) expect(slots + cost).toBeLessThanOrEqual(limit.quota);
              held.push({ us: nowUs, atUs: counter.state.atUs, slots: cost });
            }
            if (releases[i % releases.length] !== 0 || held.length === 0) return;
            const [released] = held.splice(i % held.length, 1) as [(typeof held)[0]];
            counter.refund(released.slots, nowUs, released.atUs);
          });
        },
      ),
      { numRuns: 600 },
    );
  });

  test("frees a slot that is not renewed after more than nine tenths of its life, and after its whole life at the latest", () => {
    fc.assert(
      fc.property(limitedTraces("concurrency", 1), ({ limit, fromUs }) => {
        const counter = new Counter(rateOf(limit));
        counter.ask(fromUs, limit.quota);
        expect(counter.peek(fromUs + 0.9 * limit.windowUs).allowed).toBe(false);
        expect(counter.peek(fromUs + limit.windowUs).allowed).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

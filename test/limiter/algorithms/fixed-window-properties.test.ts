import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { fixedWindow } from "../../../limiter/src/algorithms/fixed-window.ts";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { crowdedTraces, limitedTraces } from "../legal-limits.ts";
import { Counter } from "./counter.ts";

/** 2023-11-14T22:13:00Z, where a minute begins. */
const borderUs = 1_699_999_980_000_000;

const traces = fc.oneof(crowdedTraces("fixed-window", 100), limitedTraces("fixed-window", 50));

describe("a fixed window, for every legal limit and any requests,", () => {
  test("decides like a count for each window, with refunds and an edited quota", () => {
    const edits = fc.array(fc.constantFrom("none", "none", "refund", "halve", "double"), {
      minLength: 1,
      maxLength: 9,
    });
    fc.assert(
      fc.property(traces, edits, ({ limit, fromUs, requests }, what) => {
        const counter = new Counter(rateOf(limit));
        const { windowUs } = limit;
        const used = new Map<number, number>();
        let [nowUs, quota] = [fromUs, limit.quota];
        requests.forEach(({ afterUs, cost }, i) => {
          nowUs += afterUs;
          const edit = what[i % what.length];
          if (edit === "halve") quota = Math.ceil(quota / 2);
          if (edit === "double") quota = Math.min(quota * 2, limit.quota * 2, 2 ** 31);
          counter.rate = fixedWindow(quota, windowUs);
          const window = Math.floor(nowUs / windowUs);
          const before = used.get(window) ?? 0;
          const allowed = before + cost <= quota;
          if (allowed) used.set(window, before + cost);
          const resetAfterUs = (window + 1) * windowUs - nowUs;
          expect(counter.ask(nowUs, cost)).toEqual({
            allowed,
            limit: quota,
            remaining: Math.max(0, quota - before - (allowed ? cost : 0)),
            retryAfterUs: allowed ? 0 : cost > quota ? never : resetAfterUs,
            resetAfterUs,
            delayUs: 0,
          });
          if (allowed && edit === "refund") {
            counter.refund(cost, nowUs);
            used.set(window, before);
          }
        });
      }),
      { numRuns: 500 },
    );
  });

  test("admits no more than its quota in each window, and twice that in any interval as long", () => {
    fc.assert(
      fc.property(traces, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        const admitted: { us: number; cost: number }[] = [];
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          if (counter.allows(nowUs, cost)) admitted.push({ us: nowUs, cost });
        }
        const { quota, windowUs } = limit;
        const windowOf = (us: number) => Math.floor(us / windowUs);
        for (const { us } of admitted) {
          const unitsWhere = (within: (other: number) => boolean) =>
            admitted.reduce((sum, one) => sum + (within(one.us) ? one.cost : 0), 0);
          expect(unitsWhere((other) => windowOf(other) === windowOf(us))).toBeLessThanOrEqual(quota);
          expect(unitsWhere((other) => other >= us && other < us + windowUs)).toBeLessThanOrEqual(2 * quota);
        }
      }),
      { numRuns: 200 },
    );
  });
});

test("no window ever has more than the quota, whatever requests come in whatever order within two windows", () => {
  const request = fc.record({ us: fc.integer({ min: 0, max: 2_000 - 1 }), cost: fc.integer({ min: 1, max: 4 }) });
  fc.assert(
    fc.property(fc.array(request, { maxLength: 50 }), fc.integer({ min: 1, max: 20 }), (requests, quota) => {
      const counter = new Counter(fixedWindow(quota, 1_000));
      const usedIn = [0, 0];
      for (const { us, cost } of requests) {
        // The step back is never longer than the tolerance, so the later window goes on.
        if (!counter.allows(borderUs + us, cost)) continue;
        const window = (counter.state.atUs - borderUs) / 1_000;
        usedIn[window] = (usedIn[window] as number) + cost;
      }
      expect(Math.max(...usedIn)).toBeLessThanOrEqual(quota);
    }),
  );
});

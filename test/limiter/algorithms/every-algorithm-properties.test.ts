// Properties of all algorithms. The particular properties of each are in files of its own.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Ring } from "../../../limiter/src/algorithms/counter-state.ts";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { admits, capacity, slides as isSliding, lifetimeUs, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { needsRing } from "../../../limiter/src/algorithms/sliding-window.ts";
import {
  capacityOf,
  crowdedTraces,
  everyAlgorithm,
  type LegalLimit,
  limitedTraces,
  longestWindowUs,
  type Trace,
} from "../legal-limits.ts";
import { tickUsOf } from "./admission-list.ts";
import { Counter, copyOf, day, expectSame, hour, maxUnits, ms, second, startUs } from "./counter.ts";

/** @returns the moments of a trace, with the cost of each request */
function* moments({ fromUs, requests }: Trace): Generator<{ nowUs: number; cost: number }> {
  let nowUs = fromUs;
  for (const { afterUs, cost } of requests) {
    nowUs += afterUs;
    yield { nowUs, cost };
  }
}

const toleranceUs = ({ windowUs }: LegalLimit) => Math.max(Math.min(windowUs, second), 50 * ms);

/** @returns by how much a counter may stay ahead of its clock */
function mostAheadUs(limit: LegalLimit): number {
  const slides = ["sliding-window", "sliding-log", "concurrency"].includes(limit.algorithm);
  return slides ? Math.max(toleranceUs(limit), tickUsOf(limit) - 1) : toleranceUs(limit);
}

/** @returns the longest wait of a request that finds every unit taken */
function longestWaitUs(limit: LegalLimit, cost: number): number {
  const { algorithm, quota, windowUs, precisionUs } = limit;
  if (algorithm === "fixed-window") return windowUs;
  if (algorithm === "sliding-window") return windowUs + precisionUs;
  if (algorithm === "sliding-log") return windowUs <= 2 ** 30 ? windowUs : windowUs + (4 * windowUs) / 2 ** 30;
  if (algorithm === "concurrency") return windowUs;
  // This is the wait at a bucket whose debt is as large as it can be.
  return Math.ceil(Number((BigInt(cost) * BigInt(windowUs)) / BigInt(quota))) + 1;
}

for (const algorithm of everyAlgorithm) {
  const traces = fc.oneof(crowdedTraces(algorithm, 80), limitedTraces(algorithm, 40));
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";

  describe(`${algorithm}, for every legal limit and any requests,`, () => {
    test("decides as if refused requests had never come", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          const spared = new Counter(counter.rate);
          for (const { nowUs, cost } of moments(trace)) {
            const decision = counter.ask(nowUs, cost);
            if (decision.allowed) expectSame(spared.ask(nowUs, cost), decision);
          }
        }),
        { numRuns: 120 },
      );
    });

    test("decides as if nobody had peeked, and a peek returns what asking would, except for the charge", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          const peeked = new Counter(counter.rate);
          for (const { nowUs, cost } of moments(trace)) {
            const { allowed, retryAfterUs, delayUs } = peeked.peek(nowUs, cost);
            const decision = counter.ask(nowUs, cost);
            expectSame({ ...decision, allowed, retryAfterUs, delayUs }, decision);
            expectSame(peeked.ask(nowUs, cost), decision);
          }
        }),
        { numRuns: 120 },
      );
    });

    test("never admits a cost beyond its capacity, says so, and charges nothing", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          const most = capacityOf(trace.limit);
          expect(capacity(counter.rate)).toBe(most);
          for (const { nowUs, cost } of moments(trace)) {
            const { remaining } = counter.peek(nowUs, cost);
            const refused = counter.ask(nowUs, most + 1);
            expectSame(refused, { ...refused, allowed: false, remaining, retryAfterUs: never });
            const { limit } = counter.ask(nowUs, cost);
            if (limit !== most) expect(limit).toBe(most);
          }
        }),
        { numRuns: 150 },
      );
    });

    if (algorithm !== "concurrency") {
      test("allows a refused request after exactly retryAfter, and not 1 µs before", () => {
        fc.assert(
          fc.property(traces, (trace) => {
            const counter = new Counter(rateOf(trace.limit));
            for (const { nowUs, cost } of moments(trace)) {
              const { allowed, retryAfterUs } = counter.ask(nowUs, cost);
              if (allowed || cost > capacityOf(trace.limit)) continue;
              const before = counter.copy().allows(nowUs + retryAfterUs - 1, cost);
              const after = counter.copy().allows(nowUs + retryAfterUs, cost);
              if (retryAfterUs > 0 && !before && after) continue;
              expect({ retryAfterUs, before, after }).toEqual({
                retryAfterUs: "more than 0",
                before: false,
                after: true,
              });
            }
          }),
          { numRuns: 120 },
        );
      });
    }

    test("has its whole capacity again after exactly resetAfter, and may be forgotten then or later", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          const most = capacityOf(trace.limit);
          for (const { nowUs, cost } of moments(trace)) {
            const { resetAfterUs } = counter.ask(nowUs, cost);
            const isWhole = counter.copy().peek(nowUs + resetAfterUs).remaining === most;
            const wasWhole =
              counter.peek(nowUs).remaining < most && counter.copy().peek(nowUs + resetAfterUs - 1, most).allowed;
            const isKept = lifetimeUs(counter.rate, counter.state, nowUs) >= resetAfterUs;
            if (isWhole && !wasWhole && isKept) continue;
            expect({ resetAfterUs, isWhole, wasWhole, isKept }).toEqual({
              resetAfterUs,
              isWhole: true,
              wasWhole: false,
              isKept: true,
            });
          }
        }),
        { numRuns: 120 },
      );
    });

    test("is like new after an idle year, or after its bucket's time to fill", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          let lastUs = trace.fromUs;
          for (const { nowUs, cost } of moments(trace)) {
            counter.ask(nowUs, cost);
            lastUs = nowUs;
          }
          const { quota, windowUs } = trace.limit;
          const most = capacityOf(trace.limit);
          const fillsUs = isBucket ? Math.ceil((most / quota) * windowUs) + 1_000 : 2 * longestWindowUs;
          const restedUs = lastUs + Math.max(fillsUs, 366 * day);
          expect(counter.ask(restedUs, most)).toEqual(new Counter(counter.rate).ask(restedUs, most));
        }),
        { numRuns: 100 },
      );
    });

    test("needs nothing stored after a refusal", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const counter = new Counter(rateOf(trace.limit));
          const stored = new Counter(counter.rate);
          for (const { nowUs, cost } of moments(trace)) {
            const before = copyOf(stored.state);
            const decision = stored.ask(nowUs, cost);
            expectSame(decision, counter.ask(nowUs, cost));
            if (stored.state.stepped) expect.fail("the clock did not step");
            if (!decision.allowed) stored.state = before;
          }
        }),
        { numRuns: 150 },
      );
    });

    test("returns a refund whole at once, and nothing of it later", () => {
      fc.assert(
        fc.property(traces, fc.nat(), fc.nat(12), (trace, pick, laterBy) => {
          const counter = new Counter(rateOf(trace.limit));
          const spared = new Counter(counter.rate);
          const refundAt = pick % trace.requests.length;
          let [i, charge] = [0, undefined as { atUs: number; cost: number; i: number } | undefined];
          for (const { nowUs, cost } of moments(trace)) {
            if (charge !== undefined && i === charge.i + laterBy) {
              counter.refund(charge.cost, nowUs, charge.atUs);
              // A bucket knows others' charges to the µs, so its refund may count as if made 1 µs later at most.
              const sparedLeft = spared.peek(nowUs + (isBucket ? 1 : 0)).remaining;
              expect(counter.peek(nowUs).remaining).toBeLessThanOrEqual(sparedLeft);
              return;
            }
            const { allowed } = counter.ask(nowUs, cost);
            if (allowed && i === refundAt) {
              charge = { atUs: counter.state.atUs, cost, i };
              if (laterBy === 0) {
                counter.refund(cost, nowUs, charge.atUs);
                expect(counter.peek(nowUs).remaining).toBe(spared.peek(nowUs).remaining);
                return;
              }
            } else if (allowed) {
              // It may have been refused beside the refunded request, but never the other way round.
              if (!spared.allows(nowUs, cost)) expect.fail("refused although less was charged");
            }
            i += 1;
          }
        }),
        { numRuns: 200 },
      );
    });
  });

  describe(`${algorithm}, with steps of its clock,`, () => {
    const walks = traces.chain((trace) =>
      fc.record({
        trace: fc.constant(trace),
        steps: fc.array(
          fc.oneof(
            { weight: 6, arbitrary: fc.constant(0) },
            fc.constantFrom(-ms, -50 * ms, -50 * ms - 1, -second, -second - 1, -hour, -366 * day, 366 * day),
            fc.integer({ min: -2 * trace.limit.windowUs, max: trace.limit.windowUs }),
            fc.nat(2 * trace.limit.windowUs).map((us) => -toleranceUs(trace.limit) - us),
          ),
          { minLength: 1, maxLength: 30 },
        ),
      }),
    );
    /** @returns the moments that the clock shows, and how much time has passed by it, where a step back counts as none */
    function* reported(trace: Trace, steps: readonly number[]) {
      let [clockUs, reportedUs] = [trace.fromUs, 0];
      for (const [i, { afterUs, cost }] of trace.requests.entries()) {
        const next = Math.min(8e15, Math.max(1e15, clockUs + afterUs + (steps[i % steps.length] as number)));
        reportedUs += Math.max(0, next - clockUs);
        clockUs = next;
        yield { clockUs, reportedUs, cost };
      }
    }

    test("locks nobody out: no wait is longer than that of a spent counter and of the clock's step together", () => {
      fc.assert(
        fc.property(walks, ({ trace, steps }) => {
          const { limit } = trace;
          const counter = new Counter(rateOf(limit));
          for (const { clockUs, cost } of reported(trace, steps)) {
            const { allowed, retryAfterUs } = counter.ask(clockUs, cost);
            const mostUs = longestWaitUs(limit, cost) + mostAheadUs(limit);
            if (allowed || cost > capacityOf(limit)) continue;
            if (retryAfterUs > mostUs) expect(retryAfterUs).toBeLessThanOrEqual(mostUs);
            const waitedUs = algorithm === "concurrency" ? mostUs : retryAfterUs;
            if (!counter.copy().allows(clockUs + waitedUs, cost)) expect.fail(`refused after ${waitedUs} µs too`);
          }
        }),
        { numRuns: 200 },
      );
    });

    test("admits nothing extra: no stretch of the clock's time has more than it may", () => {
      fc.assert(
        fc.property(walks, fc.boolean(), ({ trace, steps }, forgets) => {
          const { limit } = trace;
          const counter = new Counter(rateOf(limit));
          const admitted: Admission[] = [];
          let [borders, openUs] = [0, -1];
          for (const { clockUs, reportedUs, cost } of reported(trace, steps)) {
            // A fixed window begins anew when the clock passes a border for the first time.
            const windowUs = clockUs - (clockUs % limit.windowUs);
            if (windowUs > openUs) borders += 1;
            if (windowUs > openUs || openUs - clockUs > toleranceUs(limit)) openUs = windowUs;
            const before = copyOf(counter.state);
            const allowed = counter.allows(clockUs, cost);
            if (allowed) admitted.push({ reportedUs, borders, cost });
            else if (forgets && !counter.state.stepped) counter.state = before;
          }
          for (const first of admitted) expectNoneMinted(limit, first, admitted);
        }),
        { numRuns: 200 },
      );
    });
  });

  interface Admission {
    readonly reportedUs: number;
    /** How many borders of fixed windows were passed before. */
    readonly borders: number;
    readonly cost: number;
  }

  function expectNoneMinted(limit: LegalLimit, first: Admission, admitted: readonly Admission[]): void {
    const { quota, windowUs } = limit;
    let units = 0;
    for (const one of admitted.slice(admitted.indexOf(first))) {
      const elapsedUs = one.reportedUs - first.reportedUs;
      if (algorithm === "fixed-window" && one.borders !== first.borders) break;
      if (!isBucket && algorithm !== "fixed-window") {
        const leastUs = algorithm === "concurrency" ? 0.9 * windowUs : windowUs;
        if (elapsedUs >= leastUs) break;
      }
      units += one.cost;
      if (isBucket) {
        const mostExact = BigInt(capacityOf(limit)) * BigInt(windowUs) + BigInt(elapsedUs) * BigInt(quota);
        if (BigInt(units) * BigInt(windowUs) <= mostExact) continue;
      } else if (units <= quota) {
        continue;
      }
      throw new Error(`${units} units in ${elapsedUs} µs`);
    }
  }

  test(`${algorithm} at both ends of every legal range gives its capacity at once and not one unit more`, () => {
    const ends = (most: number) => [1, most];
    for (const quota of ends(maxUnits)) {
      for (const windowUs of [ms, longestWindowUs]) {
        for (const burst of isBucket ? ends(maxUnits) : [quota]) {
          for (const blocks of algorithm === "sliding-window" ? [1, windowUs === ms ? 10 : 1000] : [0]) {
            const precisionUs = blocks === 0 ? 0 : windowUs / blocks;
            const limit = { algorithm, quota, windowUs, burst, precisionUs };
            const most = capacityOf(limit);
            const counter = new Counter(rateOf(limit));
            expect(counter.ask(startUs, most + 1)).toMatchObject({ allowed: false, retryAfterUs: never });
            expect(counter.ask(startUs, most)).toMatchObject({ allowed: true, remaining: 0, limit: most });
            expect(counter.ask(startUs, 1)).toMatchObject({ allowed: false, remaining: 0 });
          }
        }
      }
    }
  });
}

describe("a store that keeps the ring separately", () => {
  const untouched: Ring = {
    tickAt: () => unasked(),
    startAt: () => unasked(),
    put: () => unasked(),
    grow: () => unasked(),
  };
  function unasked(): never {
    throw new Error("the ring was asked");
  }

  for (const algorithm of ["sliding-window", "sliding-log", "concurrency"] as const) {
    test(`need not fetch it for ${algorithm} if needsRing says so: the decision is the same without it`, () => {
      fc.assert(
        fc.property(crowdedTraces(algorithm, 100), fc.nat(3), (trace, refunds) => {
          const counter = new Counter(rateOf(trace.limit));
          if (!isSliding(counter.rate)) throw new Error(`${algorithm} keeps no entries`);
          let i = 0;
          for (const { nowUs, cost } of moments(trace)) {
            if (!needsRing(counter.rate, counter.state, nowUs, cost)) {
              const head = { ...counter.state, first: 0, length: 0, capacity: 0, start: 0, offset: 0 };
              const allowed = admits(counter.rate, head, untouched, nowUs, cost);
              const expected = admits(counter.rate, copyOf(counter.state), memoryRing, nowUs, cost);
              if (allowed !== expected) expect(allowed).toBe(expected);
            }
            const { allowed } = counter.ask(nowUs, cost);
            if (allowed && i++ % 4 < refunds) counter.refund(cost, nowUs);
          }
        }),
        { numRuns: 200 },
      );
    });
  }
});

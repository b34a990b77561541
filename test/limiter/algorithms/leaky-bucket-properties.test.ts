import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { crowdedTraces, type LegalLimit, limitedTraces, type Trace } from "../legal-limits.ts";
import { Counter } from "./counter.ts";
import { ExactBucket } from "./exact-bucket.ts";

interface Departure {
  /** When the request was admitted; the next field: when it departs. */
  readonly askedUs: bigint;
  readonly us: bigint;
  readonly cost: bigint;
}

function departuresOf({ limit, fromUs, requests }: Trace): Departure[] {
  const counter = new Counter(rateOf(limit));
  const departures: Departure[] = [];
  let nowUs = fromUs;
  for (const { afterUs, cost } of requests) {
    nowUs += afterUs;
    const { allowed, delayUs } = counter.ask(nowUs, cost);
    if (allowed) departures.push({ askedUs: BigInt(nowUs), us: BigInt(nowUs + delayUs), cost: BigInt(cost) });
  }
  return departures;
}

const unitsOf = (departures: readonly Departure[]) => departures.reduce((sum, { cost }) => sum + cost, 0n);
const quotaOf = ({ quota }: LegalLimit) => BigInt(quota);
const windowOf = ({ windowUs }: LegalLimit) => BigInt(windowUs);

for (const [size, traces, numRuns] of [
  ["small", crowdedTraces("leaky-bucket", 100), 200],
  ["legal", limitedTraces("leaky-bucket", 50), 800],
] as const) {
  describe(`for limits of every ${size} size and any requests, a leaky bucket`, () => {
    test("decides and delays exactly like a bucket in exact arithmetic", () => {
      fc.assert(
        fc.property(traces, ({ limit, fromUs, requests }) => {
          const counter = new Counter(rateOf(limit));
          const exact = new ExactBucket(limit);
          let nowUs = fromUs;
          for (const { afterUs, cost } of requests) {
            nowUs += afterUs;
            expect(counter.ask(nowUs, cost)).toEqual(exact.ask(nowUs, cost));
          }
        }),
        { numRuns },
      );
    });

    test("lets no departure be nearer to an earlier one than what departs between them takes, to within 1 µs", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const departures = departuresOf(trace);
          for (let from = 0; from < departures.length; from++) {
            let between = 0n;
            for (let to = from + 1; to < departures.length; to++) {
              const [first, last, before] = [departures[from], departures[to], departures[to - 1]] as Departure[];
              between += (before as Departure).cost;
              const spanned = ((last as Departure).us - (first as Departure).us + 1n) * quotaOf(trace.limit);
              expect(spanned > between * windowOf(trace.limit)).toBe(true);
            }
          }
        }),
        { numRuns: numRuns / 2 },
      );
    });

    test("has at most the burst waiting", () => {
      fc.assert(
        fc.property(traces, (trace) => {
          const departures = departuresOf(trace);
          departures.forEach(({ askedUs }, i) => {
            const waiting = departures.slice(0, i + 1).filter(({ us }) => us > askedUs);
            expect(unitsOf(waiting) <= BigInt(trace.limit.burst)).toBe(true);
          });
        }),
        { numRuns: numRuns / 2 },
      );
    });
  });
}

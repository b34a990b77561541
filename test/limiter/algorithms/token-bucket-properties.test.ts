import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { maxExact } from "../../../limiter/src/algorithms/wide-multiply.ts";
import { type LegalLimit, legalLimits, limitedTraces as tracesOf } from "../legal-limits.ts";
import { Counter, day, maxUnits, startUs } from "./counter.ts";
import { ExactBucket } from "./exact-bucket.ts";

const limitedTraces = tracesOf("token-bucket", 60);

const counterOf = (limit: LegalLimit) => new Counter(rateOf(limit));

describe("for every legal limit and any requests", () => {
  test("decides exactly as a bucket in exact arithmetic does", () => {
    fc.assert(
      fc.property(limitedTraces, ({ limit, fromUs, requests }) => {
        const counter = counterOf(limit);
        const exact = new ExactBucket(limit);
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          expect(counter.ask(nowUs, cost)).toEqual(exact.ask(nowUs, cost));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("admits at most burst + quota ÷ window × τ in any interval τ, to the last unit", () => {
    fc.assert(
      fc.property(limitedTraces, ({ limit, fromUs, requests }) => {
        const counter = counterOf(limit);
        const admitted: { us: bigint; cost: bigint }[] = [];
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          if (counter.allows(nowUs, cost)) admitted.push({ us: BigInt(nowUs), cost: BigInt(cost) });
        }
        const window = BigInt(limit.windowUs);
        for (let from = 0; from < admitted.length; from++) {
          const first = admitted[from] as { us: bigint };
          let units = 0n;
          for (const { us, cost } of admitted.slice(from)) {
            units += cost;
            const most = BigInt(limit.burst) * window + (us - first.us) * BigInt(limit.quota);
            expect(units * window <= most).toBe(true);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("a clock that goes back and forth admits no more than one that stands at its latest time", () => {
    const cases = legalLimits("token-bucket").chain((limit) =>
      fc.tuple(fc.constant(limit), fc.array(fc.integer({ min: 0, max: 1_000 }), { maxLength: 60 })),
    );
    fc.assert(
      fc.property(cases, ([limit, lags]) => {
        const counter = counterOf(limit);
        counter.ask(startUs, limit.burst);
        // Each clock is behind by at most 1 ms, which every legal window allows.
        for (const lagUs of lags) expect(counter.allows(startUs - lagUs)).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  test("a refund at once undoes its charge exactly", () => {
    fc.assert(
      fc.property(limitedTraces, fc.nat(), ({ limit, requests }, pick) => {
        const counter = counterOf(limit);
        counter.ask(startUs, Math.ceil(limit.burst / 2));
        const cost = requests[pick % requests.length]?.cost ?? 1;
        const before = counter.head;
        if (counter.allows(startUs, cost)) counter.refund(cost, startUs);
        expect(counter.head).toEqual(before);
      }),
      { numRuns: 1_000 },
    );
  });
});

test("1 per 366 d with a burst of 2^31 allows 2^31 at once, in one request or in parts, and not one more", () => {
  const limit = { algorithm: "token-bucket", quota: 1, windowUs: 366 * day, burst: maxUnits, precisionUs: 0 } as const;
  const parts = counterOf(limit);
  expect(parts.allowedOf(2, startUs, 2 ** 30)).toBe(2);
  expect(parts.ask(startUs)).toMatchObject({ allowed: false, remaining: 0 });
  const whole = counterOf(limit);
  expect(whole.allows(startUs, maxUnits)).toBe(true);
  expect(whole.ask(startUs)).toMatchObject({ allowed: false, remaining: 0, resetAfterUs: maxExact });
  expect(counterOf(limit).ask(startUs).remaining).toBe(maxUnits - 1);
});

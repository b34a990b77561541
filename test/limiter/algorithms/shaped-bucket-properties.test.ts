// What a token-bucket with `initial` or `warmUp` guarantees, for every legal limit, against sums and fractions in whole numbers without bounds.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Decision } from "../../../limiter/src/algorithms/decision.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { lifetimeUs, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { clockOf, enterClock, shapedBucket, timeAt } from "../../../limiter/src/algorithms/shaped-bucket.ts";
import { type LegalLimit, legalLimits, magnitudes, type Request, shares, starts, traces } from "../legal-limits.ts";
import { Counter, copyOf, day, expectSame, hour, maxUnits, ms, second, startUs } from "./counter.ts";

type ShapedLimit = LegalLimit & { readonly initial: number; readonly warmUpUs: number };

interface Trace {
  readonly limit: ShapedLimit;
  readonly fromUs: number;
  readonly requests: readonly Request[];
}

/** Warm-ups of every legal length, and such that a trace of some dozen requests is over before or after them. */
function shapes(limit: LegalLimit): fc.Arbitrary<ShapedLimit> {
  const { quota, windowUs, burst } = limit;
  const refillMs = Math.min(Math.max(Math.ceil((burst / quota) * (windowUs / ms)), 1_000), day / ms);
  return fc.record({
    ...Object.fromEntries(Object.entries(limit).map(([name, value]) => [name, fc.constant(value)])),
    initial: fc.oneof(fc.constant(0), fc.constant(burst), shares(burst).map(Math.floor)),
    warmUpUs: fc
      .oneof(magnitudes(day / ms), fc.constant(refillMs), magnitudes(3 * refillMs))
      .map((long) => Math.min(Math.max(long, 1_000), day / ms) * ms),
  }) as unknown as fc.Arbitrary<ShapedLimit>;
}

const warming: fc.Arbitrary<Trace> = legalLimits("token-bucket")
  .chain(shapes)
  .chain((limit) => fc.record({ limit: fc.constant(limit), fromUs: starts, requests: traces(limit, 60) }));

/** @returns three warm-ups times the integral of the rate's part from 0 to this age: 3U × (x ÷ 3 + x² ÷ 3U), then 3U × (x − U ÷ 3) */
function integral(ageUs: bigint, warmUpUs: bigint): bigint {
  if (ageUs <= warmUpUs) return ageUs * warmUpUs + ageUs * ageUs;
  return 3n * warmUpUs * ageUs - warmUpUs * warmUpUs;
}

describe("for every legal limit with initial and warmUp, and any requests", () => {
  test("admits at most what the rate gives from the beginning on, and in any interval the burst and what the rate gives in it", () => {
    fc.assert(
      fc.property(warming, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        const [window, quota, warmUp] = [limit.windowUs, limit.quota, limit.warmUpUs].map(BigInt) as [
          bigint,
          bigint,
          bigint,
        ];
        const admitted: { run: bigint; cost: bigint }[] = [];
        let beganUs: number | undefined;
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          beganUs ??= nowUs;
          if (!counter.allows(nowUs, cost)) continue;
          admitted.push({ run: integral(BigInt(nowUs - beganUs), warmUp), cost: BigInt(cost) });
        }
        // Everything below is multiplied by the window and by three warm-ups.
        const scale = 3n * warmUp;
        let sum = 0n;
        for (const { run, cost } of admitted) {
          sum += cost;
          expect(sum * window * scale <= BigInt(limit.initial) * window * scale + run * quota).toBe(true);
        }
        for (let from = 0; from < admitted.length; from++) {
          const { run: before } = admitted[from] as { run: bigint };
          let units = 0n;
          for (const { run, cost } of admitted.slice(from)) {
            units += cost;
            // The clock shows whole µs, so it may run one more in an interval than time does.
            const most = BigInt(limit.burst) * window * scale + (run - before + scale) * quota;
            expect(units * window * scale <= most).toBe(true);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("decides as a bucket of exact fractions whose time runs as its rate grows", () => {
    fc.assert(
      fc.property(warming, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        const exact = new ExactShapedBucket(limit);
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          const { allowed, remaining } = counter.ask(nowUs, cost);
          expect({ allowed, remaining }).toEqual(exact.ask(nowUs, cost));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("a refusal says to the µs when the same request can be admitted, and a reset when the bucket is full", () => {
    fc.assert(
      fc.property(warming, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          const { allowed, retryAfterUs, resetAfterUs } = counter.ask(nowUs, cost);
          if (!allowed && cost <= limit.burst) {
            expect(retryAfterUs).toBeGreaterThan(0);
            expect(counter.copy().allows(nowUs + retryAfterUs, cost)).toBe(true);
            expect(counter.copy().allows(nowUs + retryAfterUs - 1, cost)).toBe(false);
          }
          const full = counter.copy().peek(nowUs + resetAfterUs, limit.burst);
          expect(full).toMatchObject({ allowed: true, remaining: limit.burst });
          if (resetAfterUs > 0) expect(counter.copy().peek(nowUs + resetAfterUs - 1).resetAfterUs).toBe(1);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("is kept until it is full, and for an hour, a window and a warm-up after that", () => {
    fc.assert(
      fc.property(warming, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        const idleUs = Math.max(hour, limit.windowUs, limit.warmUpUs);
        let nowUs = fromUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          const { resetAfterUs } = counter.ask(nowUs, cost);
          const keptUs = lifetimeUs(counter.rate, counter.state, nowUs);
          expect(keptUs).toBeGreaterThanOrEqual(resetAfterUs + idleUs);
          expect(keptUs).toBeLessThanOrEqual(resetAfterUs + idleUs + limit.warmUpUs / 3 + 2);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("a clock that goes back and forth neither mints units nor locks out for longer than an empty bucket would", () => {
    const walks = fc.tuple(
      warming,
      fc.array(fc.integer({ min: -2 * day, max: 2 * day }), { minLength: 1, maxLength: 5 }),
    );
    fc.assert(
      fc.property(walks, ([{ limit, fromUs, requests }, steps]) => {
        const counter = new Counter(rateOf(limit));
        const { quota, windowUs, burst } = limit;
        const toleranceUs = Math.max(Math.min(windowUs, second), 50 * ms);
        let [clockUs, forwardUs, units] = [fromUs, 0, 0];
        for (const [i, { afterUs, cost }] of requests.entries()) {
          const stepUs = i % 4 === 3 ? (steps[i % steps.length] as number) : 0;
          const next = Math.max(clockUs + afterUs + stepUs, 1e15);
          forwardUs += Math.max(next - clockUs, 0);
          clockUs = next;
          const { allowed, retryAfterUs } = counter.ask(clockUs, cost);
          if (allowed) units += cost;
          // What time gives at most, at the whole rate; the sum is rounded, and this is far from a whole burst.
          const most = limit.initial + ((forwardUs + 1) / windowUs) * quota;
          if (units > most * (1 + 1e-9)) expect(units).toBeLessThanOrEqual(most);
          if (allowed || cost > burst) continue;
          // At a third of the rate at least.
          expect(retryAfterUs).toBeLessThanOrEqual(3 * ((cost / quota) * windowUs + toleranceUs) * (1 + 1e-9) + 3);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("a refund at once undoes its charge exactly, at any age", () => {
    fc.assert(
      fc.property(warming, ({ limit, fromUs, requests }) => {
        const counter = new Counter(rateOf(limit));
        let nowUs = fromUs;
        for (const [i, { afterUs, cost }] of requests.entries()) {
          nowUs += afterUs;
          // Nothing refills into a bucket that is full.
          const before = counter.peek(nowUs, 1);
          if (i % 2 === 0 || !counter.allows(nowUs, cost)) continue;
          counter.refund(cost, nowUs);
          expectSame(counter.peek(nowUs, 1), before);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("the clock of a counter that warms", () => {
  const bucket = (warmUpUs: number) => shapedBucket(1, second, 1, 1, warmUpUs);
  const ages = magnitudes(day / ms).chain((warmUpMs) => {
    const warmUpUs = Math.max(warmUpMs, 1_000) * ms;
    return fc.tuple(fc.constant(warmUpUs), fc.integer({ min: 0, max: warmUpUs + 2 }));
  });

  test("runs as the integral of the growing rate, to the µs, never goes back, and shows the time at last", () => {
    fc.assert(
      fc.property(ages, ([warmUpUs, ageUs]) => {
        const { state } = new Counter(bucket(warmUpUs));
        enterClock(bucket(warmUpUs), state, memoryRing, startUs);
        const warmUp = BigInt(warmUpUs);
        const shown = clockOf(state, memoryRing, startUs + ageUs);
        const aheadUs = Math.ceil(warmUpUs / 3);
        const exact = integral(BigInt(ageUs), warmUp) / (3n * warmUp);
        if (ageUs < warmUpUs) expect(shown).toBe(startUs + aheadUs + Number(exact));
        else expect(shown).toBe(startUs + ageUs);
        const later = clockOf(state, memoryRing, startUs + ageUs + 1) - shown;
        expect([0, 1]).toContain(later);
        expect(shown).toBeGreaterThanOrEqual(startUs + ageUs);
      }),
      { numRuns: 10_000 },
    );
  });

  test("shows every moment, and says when for the first time", () => {
    fc.assert(
      fc.property(ages, ([warmUpUs, ageUs]) => {
        const { state } = new Counter(bucket(warmUpUs));
        enterClock(bucket(warmUpUs), state, memoryRing, startUs);
        const shown = clockOf(state, memoryRing, startUs + ageUs);
        const at = timeAt(state, memoryRing, shown);
        expect(at).toBeLessThanOrEqual(startUs + ageUs);
        expect(clockOf(state, memoryRing, at)).toBe(shown);
        if (at > startUs) expect(clockOf(state, memoryRing, at - 1)).toBeLessThan(shown);
      }),
      { numRuns: 10_000 },
    );
  });
});

describe("under saturation, within 0.01 % of what the rate gives", () => {
  const cases: [string, Pick<LegalLimit, "quota" | "windowUs" | "burst">, number][] = [
    ["3 per second", { quota: 3, windowUs: second, burst: 3 }, 10 * second],
    ["7 per 11 s", { quota: 7, windowUs: 11 * second, burst: 1 }, 300 * second],
    ["999,983 per second", { quota: 999_983, windowUs: second, burst: 500 }, second],
    ["2^31 per 366 d", { quota: maxUnits, windowUs: 366 * day, burst: 1 }, 10 * second],
    ["2^31 per 1 ms", { quota: maxUnits, windowUs: ms, burst: maxUnits }, second],
    ["1 per minute", { quota: 1, windowUs: 60 * second, burst: 1 }, day],
  ];
  for (const [name, sizes, warmUpUs] of cases) {
    test(name, () => {
      const perUs = sizes.quota / sizes.windowUs;
      const cost = Math.min(sizes.burst, Math.max(1, Math.ceil(perUs * 200)));
      const counter = new Counter(
        rateOf({ algorithm: "token-bucket", ...sizes, precisionUs: 0, initial: 0, warmUpUs }),
      );
      let [nowUs, units] = [startUs, 0];
      while (units < cost * 20_000) {
        const { allowed, retryAfterUs } = counter.ask(nowUs, cost);
        if (allowed) units += cost;
        else nowUs += retryAfterUs;
      }
      const given = Number(integral(BigInt(nowUs - startUs), BigInt(warmUpUs))) / (3 * warmUpUs);
      expect(Math.abs(units / (given * perUs) - 1)).toBeLessThan(0.0001);
    });
  }
});

test("with a warm-up of 0 and the whole burst, decides as the plain bucket does, in head and in words", () => {
  const plain = legalLimits("token-bucket").chain((limit) =>
    fc.record({ limit: fc.constant(limit), fromUs: starts, requests: traces(limit, 40) }),
  );
  fc.assert(
    fc.property(plain, ({ limit, fromUs, requests }) => {
      const { quota, windowUs, burst } = limit;
      const counter = new Counter(rateOf(limit));
      const shaped = new Counter(shapedBucket(quota, windowUs, burst, burst, 0));
      let nowUs = fromUs;
      for (const { afterUs, cost } of requests) {
        nowUs += afterUs;
        const before: Decision = counter.ask(nowUs, cost);
        expectSame(shaped.ask(nowUs, cost), before);
        if (copyOf(counter.state).atUs > 0) expect(shaped.head).toEqual(counter.head);
      }
    }),
    { numRuns: 500 },
  );
});

/** Levels are in units × window × three warm-ups: whole numbers, however the rate grows; the time by which it grows is shown in whole µs. */
class ExactShapedBucket {
  readonly #limit: ShapedLimit;
  readonly #full: bigint;
  readonly #unit: bigint;
  #level: bigint | undefined;
  #beganUs = 0;
  #shown = 0n;

  constructor(limit: ShapedLimit) {
    this.#limit = limit;
    this.#unit = BigInt(limit.windowUs);
    this.#full = BigInt(limit.burst) * this.#unit;
  }

  ask(nowUs: number, cost: number): { allowed: boolean; remaining: number } {
    if (this.#level === undefined) {
      this.#level = BigInt(this.#limit.initial) * this.#unit;
      this.#beganUs = nowUs;
    }
    const warmUp = BigInt(this.#limit.warmUpUs);
    const age = BigInt(nowUs - this.#beganUs);
    const run = integral(age, warmUp) / (3n * warmUp);
    // The clock is ahead by whole µs at first, so a third of a µs is given when it is warm.
    const shown = age < warmUp ? run : age - (warmUp - (2n * warmUp) / 3n);
    const level = this.#level + (shown - this.#shown) * BigInt(this.#limit.quota);
    this.#shown = shown;
    this.#level = level > this.#full ? this.#full : level;
    const asked = BigInt(cost) * this.#unit;
    const allowed = asked <= this.#level;
    if (allowed) this.#level -= asked;
    return { allowed, remaining: Number(this.#level / this.#unit) };
  }
}

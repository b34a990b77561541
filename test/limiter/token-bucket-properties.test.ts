import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tokenBucket } from "../../limiter/src/algorithms/token-bucket.ts";
import { maxExact } from "../../limiter/src/algorithms/wide-multiply.ts";
import { type Decision, never } from "../../limiter/src/decision.ts";
import { Counter, day, maxUnits, ms, second, startUs } from "./counter.ts";

interface Limit {
  readonly quota: number;
  readonly windowUs: number;
  readonly burst: number;
}

interface Request {
  readonly afterUs: number;
  readonly cost: number;
}

/** Whole numbers of every magnitude up to `max`, the borders often. */
function magnitudes(max: number): fc.Arbitrary<number> {
  const digits = Math.ceil(Math.log2(max));
  return fc.oneof(
    fc.integer({ min: 0, max: digits }).chain((bits) => fc.integer({ min: 1, max: Math.min(2 ** bits, max) })),
    fc.constantFrom(...[1, 2, 3, 7, max - 1, max].filter((value) => value >= 1 && value <= max)),
  );
}

const windowsUs = fc.oneof(
  magnitudes(366 * 86_400_000).map((windowMs) => windowMs * ms),
  fc.constantFrom(ms, second, 11 * second, day, 366 * day),
);

/** How long a trace may take, and a bucket to refill, so that every moment stays below 2^53 µs, the year 2255. */
const longestTraceUs = 3e15;
const longestFullUs = 2e15;

const limits: fc.Arbitrary<Limit> = fc
  .record({ quota: magnitudes(maxUnits), windowUs: windowsUs, burst: magnitudes(maxUnits) })
  .filter(({ quota, windowUs, burst }) => (burst / quota) * windowUs < longestFullUs);

/** Requests that mostly press against the limit: as far apart as their cost takes to refill, give or take. */
function traces({ quota, windowUs, burst }: Limit, most: number): fc.Arbitrary<Request[]> {
  const cost = fc.oneof(magnitudes(burst), fc.constant(burst));
  const request = fc.record({
    cost,
    share: fc.oneof(fc.constant(0), fc.constant(0), fc.double({ min: 0, max: 1.2, noNaN: true })),
    jitterUs: fc.integer({ min: 0, max: 2 }),
  });
  return fc.array(request, { minLength: 1, maxLength: most }).map((requests) =>
    requests.map(({ cost, share, jitterUs }) => ({
      cost,
      afterUs: Math.floor(Math.min((share * cost * windowUs) / quota, longestTraceUs / most - 2)) + jitterUs,
    })),
  );
}

const limitedTraces = limits.chain((limit) => fc.tuple(fc.constant(limit), traces(limit, 60)));

/** The textbook's bucket in exact arithmetic: a level in units × window that only whole numbers ever touch. */
class ExactBucket {
  readonly #quota: bigint;
  readonly #window: bigint;
  readonly #full: bigint;
  readonly #limit: Limit;
  #level: bigint;
  #nowUs = 0n;

  constructor(limit: Limit) {
    this.#limit = limit;
    this.#quota = BigInt(limit.quota);
    this.#window = BigInt(limit.windowUs);
    this.#full = BigInt(limit.burst) * this.#window;
    this.#level = this.#full;
  }

  ask(nowUs: number, cost: number): Decision {
    const now = BigInt(nowUs);
    const refilled = this.#level + (now - this.#nowUs) * this.#quota;
    this.#level = refilled > this.#full ? this.#full : refilled;
    this.#nowUs = now;
    const asked = BigInt(cost) * this.#window;
    const allowed = asked <= this.#level;
    if (allowed) this.#level -= asked;
    const wait = cost > this.#limit.burst ? never : ceilDivide(asked - this.#level, this.#quota);
    return {
      allowed,
      limit: this.#limit.burst,
      remaining: Number(this.#level / this.#window),
      retryAfterUs: allowed ? 0 : Number(wait),
      resetAfterUs: Number(ceilDivide(this.#full - this.#level, this.#quota)),
    };
  }
}

function ceilDivide(a: bigint, b: bigint): bigint {
  return (a + b - 1n) / b;
}

const counterOf = ({ quota, windowUs, burst }: Limit) => new Counter(tokenBucket(quota, windowUs, burst));

describe("for every legal limit and any requests", () => {
  test("decides exactly as a bucket in exact arithmetic does", () => {
    fc.assert(
      fc.property(limitedTraces, ([limit, requests]) => {
        const counter = counterOf(limit);
        const exact = new ExactBucket(limit);
        let nowUs = startUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          expect(counter.ask(nowUs, cost)).toEqual(exact.ask(nowUs, cost));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("admits no more than burst + quota ÷ window × τ in any interval τ, to the last unit", () => {
    fc.assert(
      fc.property(limitedTraces, ([limit, requests]) => {
        const counter = counterOf(limit);
        const admitted: { us: bigint; cost: bigint }[] = [];
        let nowUs = startUs;
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

  test("allows a refused request after exactly retryAfter, and not 1 µs before", () => {
    fc.assert(
      fc.property(limitedTraces, ([limit, requests]) => {
        const counter = counterOf(limit);
        let nowUs = startUs;
        for (const { afterUs, cost } of requests) {
          nowUs += afterUs;
          const { allowed, retryAfterUs } = counter.ask(nowUs, cost);
          if (allowed) continue;
          expect(retryAfterUs).toBeGreaterThan(0);
          expect(counter.copy().allows(nowUs + retryAfterUs, cost)).toBe(true);
          expect(counter.copy().allows(nowUs + retryAfterUs - 1, cost)).toBe(false);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("a clock that goes back and forth admits no more than one that stands at its latest time", () => {
    const cases = limits.chain((limit) =>
      fc.tuple(fc.constant(limit), fc.array(fc.integer({ min: 0, max: 1_000 }), { maxLength: 60 })),
    );
    fc.assert(
      fc.property(cases, ([limit, lags]) => {
        const counter = counterOf(limit);
        counter.ask(startUs, limit.burst);
        // Behind by at most a window, which every legal window allows.
        for (const lagUs of lags) expect(counter.allows(startUs - lagUs)).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  test("a refund undoes its charge exactly", () => {
    fc.assert(
      fc.property(limitedTraces, fc.nat(), ([limit, requests], pick) => {
        const counter = counterOf(limit);
        counter.ask(startUs, Math.ceil(limit.burst / 2));
        const cost = requests[pick % requests.length]?.cost ?? 1;
        const before = { ...counter.state };
        if (counter.allows(startUs, cost)) counter.refund(cost);
        expect(counter.state).toEqual(before);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("under saturation, the long-run rate is within 0.01% of quota ÷ window for", () => {
  const rates: [string, Limit][] = [
    ["3 per second", { quota: 3, windowUs: second, burst: 3 }],
    ["7 per 11 s", { quota: 7, windowUs: 11 * second, burst: 1 }],
    ["1 per day", { quota: 1, windowUs: day, burst: 1 }],
    ["1,000,000 per second", { quota: 1_000_000, windowUs: second, burst: 500 }],
    ["999,983 per second", { quota: 999_983, windowUs: second, burst: 500 }],
    ["2^31 per 366 d", { quota: maxUnits, windowUs: 366 * day, burst: 1 }],
    ["2^31 − 1 per 366 d", { quota: maxUnits - 1, windowUs: 366 * day, burst: maxUnits }],
    ["2^31 per 1 ms", { quota: maxUnits, windowUs: ms, burst: maxUnits }],
    ["1 per 366 d with a burst of 2^31", { quota: 1, windowUs: 366 * day, burst: maxUnits }],
    ["1 per 366 d with a burst of 1", { quota: 1, windowUs: 366 * day, burst: 1 }],
  ];
  for (const [name, limit] of rates) {
    test(name, () => {
      const counter = counterOf(limit);
      let nowUs = 1_000_000_000;
      counter.ask(nowUs, limit.burst);
      const fromUs = nowUs;
      // Well below the burst where a µs refills units: what refills into a full bucket until the next µs is nobody's.
      const perUs = limit.quota / limit.windowUs;
      const cost = Math.min(limit.burst, Math.max(1, Math.ceil(perUs * 200)));
      const untilUs = Math.min(fromUs + Math.ceil((20_000 * cost) / perUs), 8e15);
      let admitted = 0;
      for (;;) {
        const { allowed, retryAfterUs } = counter.ask(nowUs, cost);
        if (allowed) admitted += cost;
        else if (nowUs + retryAfterUs > untilUs) break;
        else nowUs += retryAfterUs;
      }
      // The admission due next is not here yet: what was admitted took until now.
      const exact = (nowUs - fromUs) * perUs;
      expect(admitted).toBeGreaterThan(200);
      expect(Math.abs(admitted - exact) / exact).toBeLessThan(0.0001);
    });
  }
});

test("1 per 366 d with a burst of 2^31 allows 2^31 at once, whole or in parts, and not one more", () => {
  const limit = { quota: 1, windowUs: 366 * day, burst: maxUnits };
  const parts = counterOf(limit);
  expect(parts.allowedOf(2, startUs, 2 ** 30)).toBe(2);
  expect(parts.ask(startUs)).toMatchObject({ allowed: false, remaining: 0 });
  const whole = counterOf(limit);
  expect(whole.allows(startUs, maxUnits)).toBe(true);
  expect(whole.ask(startUs)).toMatchObject({ allowed: false, remaining: 0, resetAfterUs: maxExact });
  expect(counterOf(limit).ask(startUs).remaining).toBe(maxUnits - 1);
});

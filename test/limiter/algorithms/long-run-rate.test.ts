// Measures what is admitted over a long time with more requests than allowed: each algorithm under the same awkward rates.

import { describe, expect, test } from "vitest";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { capacityOf, type LegalLimit } from "../legal-limits.ts";
import { Counter, day, maxUnits, ms, second, startUs } from "./counter.ts";

const rates: [string, Pick<LegalLimit, "quota" | "windowUs" | "burst">][] = [
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

/** @returns units admitted by asking again as soon as a refusal allows, starting with a spent counter, and the time it took */
function saturate(limit: LegalLimit, cost: number, admissions: number, fromUs: number): { units: number; us: number } {
  const counter = new Counter(rateOf(limit));
  counter.ask(fromUs, capacityOf(limit));
  let [nowUs, units] = [fromUs, 0];
  for (;;) {
    const { allowed, retryAfterUs } = counter.ask(nowUs, cost);
    if (allowed) units += cost;
    else if (units >= admissions * cost || nowUs + retryAfterUs > 8e15) break;
    else nowUs += retryAfterUs;
  }
  return { units, us: nowUs - fromUs };
}

for (const algorithm of ["token-bucket", "leaky-bucket"] as const) {
  describe(`under saturation, a ${algorithm} admits within 0.01% of quota ÷ window for`, () => {
    for (const [name, sizes] of rates) {
      test(name, () => {
        const limit = { algorithm, ...sizes, precisionUs: 0 };
        // The cost is well below the capacity if a µs refills units: what refills into a full bucket until the next µs is lost.
        const perUs = limit.quota / limit.windowUs;
        const cost = Math.min(limit.burst, Math.max(1, Math.ceil(perUs * 200)));
        // The first moments of a spent counter need a long time before them.
        const { units, us } = saturate(limit, cost, 20_000, 1_000_000_000);
        expect(units).toBeGreaterThan(200);
        expect(Math.abs(units / (us * perUs) - 1)).toBeLessThan(0.0001);
      });
    }
  });
}

/** @returns windows per quota, if the whole quota is taken each time as soon as possible */
function windowsTaken(algorithm: Algorithm, sizes: (typeof rates)[0][1], precisionUs: number): number {
  const { units, us } = saturate(
    { algorithm, ...sizes, precisionUs },
    sizes.quota,
    100,
    startUs - (startUs % sizes.windowUs),
  );
  return us / sizes.windowUs / (units / sizes.quota);
}

describe("under saturation, a fixed window admits its quota in each window, exactly, for", () => {
  for (const [name, sizes] of rates) {
    test(name, () => expect(windowsTaken("fixed-window", sizes, 0)).toBe(1));
  }
});

describe("under saturation, a sliding log admits its quota in each window, within a hundred-millionth, for", () => {
  for (const [name, sizes] of rates) {
    test(name, () => {
      const windows = windowsTaken("sliding-log", sizes, 0);
      if (sizes.windowUs <= 2 ** 30) expect(windows).toBe(1);
      expect(windows).toBeGreaterThanOrEqual(1);
      expect(windows).toBeLessThan(1 + 1e-8);
    });
  }
});

describe("under saturation, a sliding window admits its quota once per window and block, as it is late by one block, for", () => {
  for (const [name, sizes] of rates) {
    test(name, () => {
      const [perTenth, perThousandth] = [10, 1000].map((blocks) =>
        windowsTaken("sliding-window", sizes, Math.max(sizes.windowUs / blocks, 100)),
      );
      expect(perTenth).toBeCloseTo(1.1, 9);
      expect(perThousandth).toBeCloseTo(sizes.windowUs === ms ? 1.1 : 1.001, 9);
    });
  }

  test("3 per second requested one by one, with nothing lost but each block's rest", () => {
    const limit = { algorithm: "sliding-window", quota: 3, windowUs: second, burst: 3, precisionUs: 100 * ms } as const;
    const { units, us } = saturate(limit, 1, 3_000, startUs);
    expect([units, us]).toEqual([3_000, 1_000 * 1_100 * ms]);
  });
});

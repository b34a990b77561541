// The size of a node's share of a limit. While Redis is away, the share begins where Redis left off, and never holds more because of a further outage.

import { describe, expect, test } from "vitest";
import type { Limit } from "../../../limiter/src/algorithms/limit.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { capacity, type Rate, rateOf } from "../../../limiter/src/algorithms/rate.ts";
import { beginShare, shareOf } from "../../../limiter/src/algorithms/share.ts";
import { everyAlgorithm } from "../legal-limits.ts";
import { Counter, ms, second, startUs } from "./counter.ts";

describe("one node's share of a rate", () => {
  const limit = { quota: 7, windowUs: second, burst: 20, precisionUs: 250_000 };
  const [bucket, leaky, window, sliding, log, slots] = everyAlgorithm.map((algorithm) =>
    rateOf({ algorithm, ...limit }),
  ) as [Rate, Rate, Rate, Rate, Rate, Rate];
  const all = [bucket, leaky, window, sliding, log, slots];
  const share = (rate: Rate, shares: number, cost: number) => shareOf(rate, shares, cost);
  /** A rate that remembers larger debts than this bucket of its own would. */
  const remembering = (rate: Rate) => ({ ...rate, toleranceUs: expect.any(Number) as number });

  test("is the whole rate for one node", () => {
    for (const rate of all) if (rate !== window) expect(share(rate, 1, 1)).toEqual(rate);
  });

  test("is a bucket for a fixed window, so that an outage over its end does not give two windows", () => {
    expect(share(window, 1, 1)).toStrictEqual(rateOf({ algorithm: "token-bucket", ...limit, burst: 7 }));
    for (const [cost, burst] of [
      [1, 2],
      [5, 5],
    ] as const) {
      const bucketOfWindow = rateOf({ algorithm: "token-bucket", ...limit, quota: 2, burst });
      expect(share(window, 3, cost)).toStrictEqual(remembering(bucketOfWindow));
    }
  });

  test("is rounded down, so that all shares together are no more than the whole", () => {
    const bucketOfThird = rateOf({ algorithm: "token-bucket", ...limit, quota: 2, burst: 6 });
    expect(share(bucket, 3, 1)).toStrictEqual(remembering(bucketOfThird));
    expect(share(sliding, 3, 1)).toStrictEqual(rateOf({ algorithm: "sliding-window", ...limit, quota: 2 }));
    expect(share(log, 3, 1)).toStrictEqual(rateOf({ algorithm: "sliding-log", ...limit, quota: 2 }));
    expect(share(slots, 3, 1)).toStrictEqual(rateOf({ algorithm: "concurrency", ...limit, quota: 2 }));
  });

  test("is a share of all that a leaky bucket holds, including the one that departs", () => {
    const third = rateOf({ algorithm: "leaky-bucket", ...limit, quota: 2, burst: 6 });
    expect(share(leaky, 3, 1)).toEqual(remembering(third));
    expect(share(leaky, 20, 1)).toMatchObject({ quota: 1, burst: 1 });
  });

  test("has room for one request, or it would refuse them all", () => {
    for (const rate of all) {
      for (const cost of [1, 5]) {
        const least = share(rate, 100, cost);
        expect(capacity(least)).toBe(cost);
        expect(new Counter(least).allowedOf(3, startUs, cost)).toBe(1);
      }
    }
    expect(share(bucket, 3, 5)).toMatchObject({ quota: 2, burst: 6 });
    expect(share(bucket, 100, 5)).toMatchObject({ quota: 1, burst: 5 });
  });
});

const rate = (algorithm: Limit["algorithm"]): Rate => {
  const precisionUs = algorithm === "sliding-window" ? second : 0;
  return shareOf(rateOf({ algorithm, quota: 100, windowUs: 10 * second, burst: 100, precisionUs }), 1, 1);
};

const counting = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

/** `startUs` is a multiple of ten seconds. */
function begin(share: Counter, knownAtUs: number, nowUs: number, nothingUntilUs = 0): boolean {
  return beginShare(share.rate, share.state, memoryRing, { atUs: knownAtUs, nothingUntilUs, limits: undefined }, nowUs);
}

describe.each(counting)("a share by %s", (algorithm) => {
  test("has next to nothing if Redis last replied a moment ago, at the end of a window", () => {
    const share = new Counter(rate(algorithm));
    const nowUs = startUs + 9_999 * ms;
    expect(begin(share, nowUs, nowUs)).toBe(true);
    expect(share.allowedOf(200, nowUs)).toBe(0);
  });

  test("refills at its rate from then on", () => {
    const share = new Counter(rate(algorithm));
    let allowed = 0;
    for (let us = startUs + second; us < startUs + 9 * second; us += 50 * ms) {
      begin(share, startUs + second, us);
      allowed += share.allowedOf(20, us);
    }
    // A sliding window frees what was used in tenths, a block late.
    expect(allowed).toBeLessThanOrEqual(81);
    expect(allowed).toBeGreaterThanOrEqual(60);
  });

  test("admits no more in ten outages in a row than in one", () => {
    const share = new Counter(rate(algorithm));
    let allowed = 0;
    for (let outage = 0; outage < 10; outage++) {
      const knownAtUs = startUs + outage * 900 * ms;
      for (let us = knownAtUs; us < knownAtUs + 300 * ms; us += 10 * ms) {
        begin(share, knownAtUs, us);
        allowed += share.allowedOf(20, us);
      }
    }
    // Three seconds of outages at the rate, and a unit that was refilling each time.
    expect(allowed).toBeLessThanOrEqual(40);
  });

  test("is whole again a window after the last reply of Redis", () => {
    const share = new Counter(rate(algorithm));
    expect(begin(share, startUs + 5 * second, startUs + 5 * second)).toBe(true);
    const nowUs = startUs + 17 * second;
    begin(share, startUs + 5 * second, nowUs);
    expect(share.allowedOf(200, nowUs)).toBe(algorithm === "leaky-bucket" ? 101 : 100);
  });

  test("does not change if it is begun again", () => {
    const share = new Counter(rate(algorithm));
    begin(share, startUs + 2 * second, startUs + 3 * second);
    share.ask(startUs + 4 * second);
    const before = share.copy().state;
    expect(begin(share, startUs + 2 * second, startUs + 4 * second)).toBe(false);
    expect(share.state).toEqual(before);
  });
});

test.each(counting)("by %s, a share admits nothing until the time up to which Redis reported no units", (algorithm) => {
  const share = new Counter(rate(algorithm));
  const endUs = startUs + 10 * second;
  const admitted = (fromUs: number, untilUs: number) => {
    let allowed = 0;
    for (let us = fromUs; us < untilUs; us += 50 * ms) {
      begin(share, startUs + second, us, endUs);
      allowed += share.allowedOf(20, us);
    }
    return allowed;
  };
  expect(admitted(startUs + 2 * second, endUs)).toBe(0);
  const after = admitted(endUs, endUs + 5 * second);
  expect(after).toBeGreaterThanOrEqual(30);
  expect(after).toBeLessThanOrEqual(50);
});

test("a sliding share does not add what it had left in the block in which Redis replied again", () => {
  const share = new Counter(rate("sliding-window"));
  begin(share, startUs, startUs);
  const nowUs = startUs + 5_100 * ms;
  expect(share.allowedOf(1, nowUs)).toBe(1);
  begin(share, nowUs + 800 * ms, nowUs + 800 * ms);
  expect(share.allowedOf(100, nowUs + 800 * ms)).toBe(0);
});

test("a share does not use up slots", () => {
  expect(begin(new Counter(rate("concurrency")), startUs, startUs)).toBe(false);
});

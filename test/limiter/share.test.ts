// Where a node's share begins while Redis is away: where Redis left off, and never with more because an outage came again.

import { describe, expect, test } from "vitest";
import { memoryRing } from "../../limiter/src/algorithms/memory-ring.ts";
import { type Rate, rateOf } from "../../limiter/src/algorithms/rate.ts";
import type { Limit } from "../../limiter/src/policy/policy.ts";
import { beginShare } from "../../limiter/src/share.ts";
import { Counter, ms, second, startUs } from "./counter.ts";

const rate = (algorithm: Limit["algorithm"]): Rate =>
  rateOf({
    algorithm,
    quota: 100,
    windowUs: 10 * second,
    burst: 100,
    precisionUs: algorithm === "sliding-window" ? second : 0,
  });

const counting = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

/** startUs is a multiple of ten seconds. */
function begin(share: Counter, heardAtUs: number, nowUs: number, nothingUntilUs = 0): boolean {
  return beginShare(share.rate, share.state, memoryRing, { atUs: heardAtUs, nothingUntilUs }, nowUs);
}

describe.each(counting)("a share by %s", (algorithm) => {
  test("has next to nothing right after Redis was heard in the last moment of a window", () => {
    const share = new Counter(rate(algorithm));
    const nowUs = startUs + 9_999 * ms;
    expect(begin(share, nowUs, nowUs)).toBe(true);
    expect(share.allowedOf(200, nowUs)).toBe(0);
  });

  test("is had at its rate from then on", () => {
    const share = new Counter(rate(algorithm));
    let allowed = 0;
    for (let us = startUs + second; us < startUs + 9 * second; us += 50 * ms) {
      begin(share, startUs + second, us);
      allowed += share.allowedOf(20, us);
    }
    // Of the rest of a fixed window all is there at once; a sliding one gives back what was used in tenths, a block late.
    expect(allowed).toBeLessThanOrEqual(algorithm === "fixed-window" ? 90 : 81);
    expect(allowed).toBeGreaterThanOrEqual(60);
  });

  test("is no more for ten outages in a row than for one", () => {
    const share = new Counter(rate(algorithm));
    let allowed = 0;
    for (let outage = 0; outage < 10; outage++) {
      const heardAtUs = startUs + outage * 900 * ms;
      for (let us = heardAtUs; us < heardAtUs + 300 * ms; us += 10 * ms) {
        begin(share, heardAtUs, us);
        allowed += share.allowedOf(20, us);
      }
    }
    // Three seconds of outages by the rate, and a unit that was under way each time; of one fixed window its quota.
    expect(allowed).toBeLessThanOrEqual(algorithm === "fixed-window" ? 100 : 40);
  });

  test("is whole again a window after Redis was heard", () => {
    const share = new Counter(rate(algorithm));
    expect(begin(share, startUs + 5 * second, startUs + 5 * second)).toBe(true);
    const nowUs = startUs + 17 * second;
    begin(share, startUs + 5 * second, nowUs);
    expect(share.allowedOf(200, nowUs)).toBe(algorithm === "leaky-bucket" ? 101 : 100);
  });

  test("asked again, changes nothing", () => {
    const share = new Counter(rate(algorithm));
    begin(share, startUs + 2 * second, startUs + 3 * second);
    share.ask(startUs + 4 * second);
    const before = share.copy().state;
    expect(begin(share, startUs + 2 * second, startUs + 4 * second)).toBe(false);
    expect(share.state).toEqual(before);
  });
});

test("a fixed window of which Redis said that it is used up has nothing until its end", () => {
  const share = new Counter(rate("fixed-window"));
  const endUs = startUs + 10 * second;
  begin(share, startUs + second, startUs + 2 * second, endUs);
  expect(share.allowedOf(10, startUs + 9 * second)).toBe(0);
  begin(share, startUs + second, endUs, endUs);
  expect(share.allowedOf(200, endUs)).toBe(100);
});

test("units that a share of a fixed window spent in an earlier outage are not had again", () => {
  const share = new Counter(rate("fixed-window"));
  begin(share, startUs + second, startUs + second);
  expect(share.allowedOf(80, startUs + second)).toBe(80);
  begin(share, startUs + 2 * second, startUs + 2 * second);
  expect(share.allowedOf(80, startUs + 2 * second)).toBe(10);
});

test("slots are not a thing that is used up", () => {
  expect(begin(new Counter(rate("concurrency")), startUs, startUs)).toBe(false);
});

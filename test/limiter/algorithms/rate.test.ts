import { describe, expect, test } from "vitest";
import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import type { Algorithm } from "../../../limiter/src/algorithms/limit.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import {
  admits,
  capacity,
  charge,
  describe as describeCounter,
  keepsEntries,
  type Rate,
  rateOf,
  sizeOf,
} from "../../../limiter/src/algorithms/rate.ts";
import { everyAlgorithm } from "../legal-limits.ts";
import { second, startUs } from "./counter.ts";

const limit = { quota: 7, windowUs: second, burst: 20, precisionUs: 250_000 };
const [bucket, leaky, window, sliding, log, slots] = everyAlgorithm.map((algorithm) =>
  rateOf({ algorithm, ...limit }),
) as [Rate, Rate, Rate, Rate, Rate, Rate];
const all = [bucket, leaky, window, sliding, log, slots];

describe("a limit's rate", () => {
  test("has the algorithm that the limit names", () => {
    expect(all.map(({ algorithm }) => algorithm)).toEqual([...everyAlgorithm]);
  });

  test("has a capacity: a bucket its burst, a leaky one one more, the others their quota", () => {
    expect(all.map(capacity)).toEqual([20, 21, 7, 7, 7, 7]);
  });

  test("can be rebuilt from its quota, its window and its size", () => {
    expect(all.map(sizeOf)).toEqual([20, 20, 0, 250_000, 0, 0]);
    for (const rate of all) {
      const { quota, windowUs } = rate;
      const algorithm = rate.algorithm as Algorithm;
      expect(rateOf({ algorithm, quota, windowUs, burst: sizeOf(rate), precisionUs: sizeOf(rate) })).toEqual(rate);
    }
  });

  test("keeps entries if it slides", () => {
    expect(all.map(keepsEntries)).toEqual([false, false, false, true, true, true]);
  });
});

test("a decision is written completely, whatever its record had before", () => {
  for (const rate of all) {
    const counter = memoryCounter();
    for (let asked = 0; asked < 25; asked++) {
      const allowed = admits(rate, counter, memoryRing, startUs, 1);
      if (allowed) charge(rate, counter, memoryRing);
      const [clean, used] = [emptyDecision(), emptyDecision()];
      Object.assign(used, {
        allowed: !allowed,
        limit: 99,
        remaining: 99,
        retryAfterUs: 99,
        resetAfterUs: 99,
        delayUs: 99,
      });
      for (const decision of [clean, used]) describeCounter(rate, counter, memoryRing, startUs, 1, allowed, decision);
      expect(used).toEqual(clean);
      expect(clean).toMatchObject({ allowed, limit: capacity(rate) });
    }
  }
});

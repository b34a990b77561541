import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { admitsAll, type Counter, chargeAll, newCounter } from "../../../limiter/src/algorithms/charge-all.ts";
import { concurrency } from "../../../limiter/src/algorithms/concurrency.ts";
import { fixedWindow } from "../../../limiter/src/algorithms/fixed-window.ts";
import { leakyBucket } from "../../../limiter/src/algorithms/leaky-bucket.ts";
import { type MemoryCounter, memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import type { Rate } from "../../../limiter/src/algorithms/rate.ts";
import { slidingLog } from "../../../limiter/src/algorithms/sliding-log.ts";
import { slidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import { tokenBucket } from "../../../limiter/src/algorithms/token-bucket.ts";
import { day, hour, second, startUs } from "./counter.ts";

const bucket = tokenBucket(2, second, 10);
const daily = fixedWindow(3, day);
const headOf = ({ atUs, count }: { atUs: number; count: number }) => ({ atUs, count });

type RingCounter = Counter & MemoryCounter;

function ringCounter(rate: Rate, cost: number): RingCounter {
  return { ...memoryCounter(), rate, cost, unpaidUs: 0, allowed: true };
}

describe("among the counters of one request,", () => {
  test("all are charged when all allow", () => {
    const counters = [newCounter(bucket, 4), newCounter(daily, 2)];
    expect(chargeAll(counters, 2, memoryRing, startUs)).toBe(true);
    expect(counters.map(headOf)).toEqual([
      { atUs: startUs + 2 * second, count: 0 },
      { atUs: startUs - (startUs % day), count: 2 },
    ]);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, true]);
  });

  test("none is charged when the last refuses, and each shows whether it allows", () => {
    const counters = [newCounter(bucket, 1), newCounter(daily, 2), newCounter(fixedWindow(1, second), 2)];
    chargeAll(counters, 2, memoryRing, startUs);
    const before = counters.map(headOf);
    expect(chargeAll(counters, 3, memoryRing, startUs)).toBe(false);
    expect(counters.map(headOf)).toEqual(before);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, false, false]);
  });

  test("none is charged when the first refuses", () => {
    const counters = [newCounter(bucket, 11), newCounter(daily, 1)];
    expect(chargeAll(counters, 2, memoryRing, startUs)).toBe(false);
    expect(counters.map(headOf)).toEqual([
      { atUs: 0, count: 0 },
      { atUs: 0, count: 0 },
    ]);
    expect(counters.map(({ allowed }) => allowed)).toEqual([false, true]);
  });

  test("only the first `count` are used", () => {
    const counters = [newCounter(bucket, 1), newCounter(daily, 100)];
    expect(chargeAll(counters, 1, memoryRing, startUs)).toBe(true);
    expect(headOf(counters[1] as Counter)).toEqual({ atUs: 0, count: 0 });
    expect(chargeAll([], 0, memoryRing, startUs)).toBe(true);
  });

  test("none is charged by a check, and each shows whether it would allow", () => {
    const counters = [ringCounter(bucket, 10), ringCounter(daily, 4), ringCounter(slidingLog(2, second), 2)];
    expect(admitsAll(counters, 3, memoryRing, startUs)).toBe(false);
    expect(admitsAll(counters, 1, memoryRing, startUs)).toBe(true);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, false, true]);
    expect(counters.map(headOf)).toEqual(counters.map(() => ({ atUs: 0, count: 0 })));
    expect(chargeAll([counters[0] as Counter, counters[2] as Counter], 2, memoryRing, startUs)).toBe(true);
  });

  test("each uses its own algorithm", () => {
    const rates = [bucket, daily, leakyBucket(2, second, 2), slidingWindow(3, second, 100_000), slidingLog(3, day)];
    const counters = [...rates, concurrency(3, day)].map((rate) => ringCounter(rate, 3));
    expect(chargeAll(counters, 6, memoryRing, startUs)).toBe(true);
    expect(chargeAll(counters, 6, memoryRing, startUs)).toBe(false);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, false, false, false, false, false]);
    expect(counters.map(({ count }) => count)).toEqual([0, 3, 0, 3, 3, 3]);
  });

  test("a counter that allows again after a refusal shows it", () => {
    const counter = newCounter(bucket, 10);
    chargeAll([counter], 1, memoryRing, startUs);
    expect(chargeAll([counter], 1, memoryRing, startUs)).toBe(false);
    expect(counter.allowed).toBe(false);
    expect(chargeAll([counter], 1, memoryRing, startUs + 5 * second)).toBe(true);
    expect(counter.allowed).toBe(true);
  });

  test("one that a clock's step back left an hour ahead is emptied as of now, and must be stored although it refused", () => {
    const counters = [newCounter(daily, 1), newCounter(bucket, 1)];
    expect(chargeAll(counters, 2, memoryRing, startUs)).toBe(true);
    expect(counters.map(({ stepped }) => stepped)).toEqual([false, false]);
    const [window, tokens] = counters as [Counter, Counter];
    tokens.atUs = startUs + hour;
    expect(chargeAll(counters, 2, memoryRing, startUs)).toBe(false);
    expect(counters.map(({ stepped, allowed }) => ({ stepped, allowed }))).toEqual([
      { stepped: false, allowed: true },
      { stepped: true, allowed: false },
    ]);
    expect(headOf(window)).toEqual({ atUs: startUs - (startUs % day), count: 1 });
    expect(headOf(tokens)).toEqual({ atUs: startUs + 5 * second, count: 0 });
    expect(chargeAll(counters, 2, memoryRing, startUs + 500_000)).toBe(true);
    expect(tokens.stepped).toBe(false);
  });
});

test("a new counter is unused, with the cost that it is to be charged", () => {
  expect(newCounter(bucket, 7)).toEqual({
    unpaidUs: 0,
    atUs: 0,
    count: 0,
    nextAtUs: 0,
    nextCount: 0,
    stepped: false,
    first: 0,
    length: 0,
    capacity: 0,
    start: 0,
    offset: 0,
    rate: bucket,
    cost: 7,
    allowed: true,
  });
});

test("a refused group is as if it had never asked, whatever the state of its counters", () => {
  const few = fc.integer({ min: 1, max: 5 });
  const rate: fc.Arbitrary<Rate> = fc.oneof(
    fc.tuple(few, few).map(([quota, burst]) => tokenBucket(quota, second, burst)),
    fc.tuple(few, few).map(([quota, burst]) => leakyBucket(quota, second, burst)),
    few.map((quota) => fixedWindow(quota, second)),
    few.map((quota) => slidingWindow(quota, second, 100_000)),
    few.map((quota) => slidingLog(quota, second)),
    few.map((quota) => concurrency(quota, second)),
  );
  const groups = fc.array(fc.record({ rate, cost: fc.integer({ min: 1, max: 3 }) }), { minLength: 1, maxLength: 5 });
  const waits = fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(groups, waits, (group, afterUs) => {
      const counters = group.map(({ rate, cost }) => ringCounter(rate, cost));
      const spared = group.map(({ rate, cost }) => ringCounter(rate, cost));
      let nowUs = startUs;
      for (const us of afterUs) {
        nowUs += us;
        const all = chargeAll(counters, counters.length, memoryRing, nowUs);
        expect(all).toBe(counters.every(({ allowed }) => allowed));
        if (!all) continue;
        expect(chargeAll(spared, spared.length, memoryRing, nowUs)).toBe(true);
        expect(counters.map(headOf)).toEqual(spared.map(headOf));
      }
    }),
    { numRuns: 300 },
  );
});

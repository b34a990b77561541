import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fixedWindow } from "../../limiter/src/algorithms/fixed-window.ts";
import { tokenBucket } from "../../limiter/src/algorithms/token-bucket.ts";
import { chargeAll, newCounter } from "../../limiter/src/charge-all.ts";
import { day, hour, second, startUs } from "./counter.ts";

const bucket = tokenBucket(2, second, 10);
const daily = fixedWindow(3, day);
const stateOf = ({ atUs, count }: { atUs: number; count: number }) => ({ atUs, count });

describe("of the counters of one request", () => {
  test("all are charged when all allow", () => {
    const counters = [newCounter(bucket, 4), newCounter(daily, 2)];
    expect(chargeAll(counters, 2, startUs)).toBe(true);
    expect(counters.map(stateOf)).toEqual([
      { atUs: startUs + 2 * second, count: 0 },
      { atUs: startUs - (startUs % day), count: 2 },
    ]);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, true]);
  });

  test("none is charged when the last refuses, and it is told which one did", () => {
    const counters = [newCounter(bucket, 1), newCounter(daily, 2), newCounter(fixedWindow(1, second), 2)];
    chargeAll(counters, 2, startUs);
    const before = counters.map(stateOf);
    expect(chargeAll(counters, 3, startUs)).toBe(false);
    expect(counters.map(stateOf)).toEqual(before);
    expect(counters.map(({ allowed }) => allowed)).toEqual([true, false, false]);
  });

  test("none is charged when the first refuses", () => {
    const counters = [newCounter(bucket, 11), newCounter(daily, 1)];
    expect(chargeAll(counters, 2, startUs)).toBe(false);
    expect(counters.map(stateOf)).toEqual([
      { atUs: 0, count: 0 },
      { atUs: 0, count: 0 },
    ]);
    expect(counters.map(({ allowed }) => allowed)).toEqual([false, true]);
  });

  test("only the first `count` are looked at", () => {
    const counters = [newCounter(bucket, 1), newCounter(daily, 100)];
    expect(chargeAll(counters, 1, startUs)).toBe(true);
    expect(stateOf(counters[1] as never)).toEqual({ atUs: 0, count: 0 });
    expect(chargeAll([], 0, startUs)).toBe(true);
  });

  test("a counter that allows again after refusing says so", () => {
    const counter = newCounter(bucket, 10);
    chargeAll([counter], 1, startUs);
    expect(chargeAll([counter], 1, startUs)).toBe(false);
    expect(counter.allowed).toBe(false);
    expect(chargeAll([counter], 1, startUs + 5 * second)).toBe(true);
    expect(counter.allowed).toBe(true);
  });

  test("one that a clock's step back left an hour ahead is empty as of now, and to be written although it refused", () => {
    const counters = [newCounter(daily, 1), newCounter(bucket, 1)];
    for (let i = 0; i < 3; i++) chargeAll(counters, 2, startUs);
    const [window, tokens] = counters as [(typeof counters)[0], (typeof counters)[0]];
    window.count = 0;
    tokens.atUs = startUs + hour;
    expect(chargeAll(counters, 2, startUs)).toBe(false);
    expect(stateOf(window)).toEqual({ atUs: window.beforeAtUs, count: window.beforeCount });
    expect(stateOf(tokens)).toEqual({ atUs: startUs + 5 * second, count: 0 });
    expect(tokens.beforeAtUs).toBe(startUs + hour);
    expect(chargeAll(counters, 2, startUs + 500_000)).toBe(true);
  });
});

test("a refused group is as if it had never asked, whatever its counters hold", () => {
  const rate = fc.oneof(
    fc
      .record({ quota: fc.integer({ min: 1, max: 5 }), burst: fc.integer({ min: 1, max: 5 }) })
      .map(({ quota, burst }) => tokenBucket(quota, second, burst)),
    fc.integer({ min: 1, max: 5 }).map((quota) => fixedWindow(quota, second)),
  );
  const groups = fc.array(fc.record({ rate, cost: fc.integer({ min: 1, max: 3 }) }), { minLength: 1, maxLength: 5 });
  const waits = fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(groups, waits, (group, afterUs) => {
      const counters = group.map(({ rate, cost }) => newCounter(rate, cost));
      let nowUs = startUs;
      for (const us of afterUs) {
        nowUs += us;
        const before = counters.map(stateOf);
        const all = chargeAll(counters, counters.length, nowUs);
        expect(all).toBe(counters.every(({ allowed }) => allowed));
        if (!all) expect(counters.map(stateOf)).toEqual(before);
      }
    }),
    { numRuns: 500 },
  );
});

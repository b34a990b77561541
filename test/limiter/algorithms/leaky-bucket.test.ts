import { describe, expect, test } from "vitest";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { leakyBucket } from "../../../limiter/src/algorithms/leaky-bucket.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { Counter, day, hour, maxUnits, ms, second, startUs } from "./counter.ts";

/** One request departs each half second, and three may wait. */
const twoPerSecond = () => new Counter(leakyBucket(2, second, 3));

const delaysOf = (counter: Counter, requests: number, nowUs: number) =>
  Array.from({ length: requests }, () => counter.ask(nowUs)).map(({ allowed, delayUs }) =>
    allowed ? delayUs : "refused",
  );

describe("a leaky bucket", () => {
  test("lets the first go at once, delays the burst by one departure more each, and refuses the rest", () => {
    expect(delaysOf(twoPerSecond(), 5, startUs)).toEqual([0, 500_000, 1_000_000, 1_500_000, "refused"]);
  });

  test("counts the one that departs and the burst that may wait", () => {
    const counter = twoPerSecond();
    expect(counter.ask(startUs)).toEqual({
      allowed: true,
      limit: 4,
      remaining: 3,
      retryAfterUs: 0,
      resetAfterUs: 500_000,
      delayUs: 0,
    });
    expect(counter.ask(startUs, 3)).toEqual({
      allowed: true,
      limit: 4,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: 2_000_000,
      delayUs: 500_000,
    });
    expect(counter.ask(startUs)).toEqual({
      allowed: false,
      limit: 4,
      remaining: 0,
      retryAfterUs: 500_000,
      resetAfterUs: 2_000_000,
      delayUs: 0,
    });
  });

  test("delays a request by what is left of the departures before it", () => {
    const counter = twoPerSecond();
    counter.ask(startUs);
    expect(counter.ask(startUs + 200_000).delayUs).toBe(300_000);
    expect(counter.ask(startUs + 999_999).delayUs).toBe(1);
    expect(counter.ask(startUs + 1_500_000).delayUs).toBe(0);
  });

  test("does not delay requests that arrive more slowly than they depart", () => {
    const counter = twoPerSecond();
    for (let i = 0; i < 10; i++) expect(counter.ask(startUs + i * 500_000).delayUs).toBe(0);
  });

  test("keeps departures exactly apart at a rate that does not divide, rounding up to the µs", () => {
    const counter = new Counter(leakyBucket(3, second, 6));
    expect(delaysOf(counter, 7, startUs)).toEqual([0, 333_334, 666_667, 1_000_000, 1_333_334, 1_666_667, 2_000_000]);
  });

  test("makes requests behind a costly one wait for all of its units, and itself only for those before it", () => {
    const counter = twoPerSecond();
    expect(counter.ask(startUs, 3).delayUs).toBe(0);
    expect(counter.ask(startUs).delayUs).toBe(1_500_000);
  });

  test("never admits a cost beyond the one that departs and its burst", () => {
    expect(twoPerSecond().ask(startUs, 5)).toMatchObject({
      allowed: false,
      remaining: 4,
      retryAfterUs: never,
      delayUs: 0,
    });
    expect(twoPerSecond().ask(startUs, 4)).toMatchObject({ allowed: true, remaining: 0, delayUs: 0 });
  });

  test("shows the same in a peek, which charges nothing", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    const before = counter.head;
    expect(counter.peek(startUs)).toMatchObject({ allowed: true, remaining: 2, delayUs: 1_000_000 });
    expect(counter.head).toEqual(before);
  });

  test("of 2^31 per ms lets 2,147,483 go each µs", () => {
    const counter = new Counter(leakyBucket(maxUnits, ms, maxUnits));
    expect(counter.ask(startUs, 2_147_483).delayUs).toBe(0);
    // 0.9999998 µs
    expect(counter.ask(startUs, 2_147_484).delayUs).toBe(1);
    expect(counter.ask(startUs).delayUs).toBe(2);
    // 2.0000003 µs are owed, and one has passed.
    expect(counter.ask(startUs + 1).delayUs).toBe(2);
  });

  test("of 2^31 per 366 d delays the last of 2^31 by 366 d", () => {
    const counter = new Counter(leakyBucket(maxUnits, 366 * day, maxUnits));
    expect(counter.ask(startUs, maxUnits).delayUs).toBe(0);
    expect(counter.ask(startUs).delayUs).toBe(366 * day);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 14_726 });
  });

  test("that is idle for a year is like new", () => {
    const counter = twoPerSecond();
    delaysOf(counter, 5, startUs);
    expect(delaysOf(counter, 5, startUs + 365 * day)).toEqual([0, 500_000, 1_000_000, 1_500_000, "refused"]);
  });

  test("is kept until nobody waits, and 1 µs longer", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 4);
    expect(lifetimeUs(counter.rate, counter.state, startUs)).toBe(2_000_001);
  });

  test("moves later requests forward when a waiting one is refunded", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 4);
    counter.refund(1, startUs);
    expect(delaysOf(counter, 2, startUs)).toEqual([1_500_000, "refused"]);
  });
});

describe("a leaky bucket that is edited while its counter lives", () => {
  test("lets more wait at once under a larger burst", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 4);
    counter.rate = leakyBucket(2, second, 5);
    expect(delaysOf(counter, 3, startUs)).toEqual([2_000_000, 2_500_000, "refused"]);
  });

  test("admits nobody under a smaller burst until those beyond it have departed", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 4);
    counter.rate = leakyBucket(2, second, 1);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 1_500_000 });
    expect(counter.allows(startUs + 1_499_999)).toBe(false);
    expect(counter.ask(startUs + 1_500_000)).toMatchObject({ allowed: true, delayUs: 500_000 });
  });

  test("keeps the time that is owed under another quota", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    counter.rate = leakyBucket(4, second, 7);
    expect(delaysOf(counter, 5, startUs)).toEqual([1_000_000, 1_250_000, 1_500_000, 1_750_000, "refused"]);
    counter.rate = leakyBucket(1, second, 3);
    expect(delaysOf(counter, 3, startUs)).toEqual([2_000_000, 3_000_000, "refused"]);
  });
});

describe("a clock that steps", () => {
  test("back by 1 ms lengthens the wait by 1 ms, so that nobody departs too early", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    expect(counter.ask(startUs - ms).delayUs).toBe(1_001_000);
  });

  test("back by an hour refuses as when full, and admits the next after one departure", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    expect(counter.ask(startUs - hour)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 500_000 });
    expect(counter.ask(startUs - hour + 500_000)).toMatchObject({ allowed: true, delayUs: 1_500_000 });
  });
});

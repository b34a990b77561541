import { describe, expect, test } from "vitest";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { tokenBucket } from "../../../limiter/src/algorithms/token-bucket.ts";
import { Counter, day, hour, maxUnits, minute, ms, second, startUs } from "./counter.ts";

/** 2 per second and 10 at once: a unit takes half a second. */
const twoPerSecond = () => new Counter(tokenBucket(2, second, 10));

describe("a token bucket that was never used", () => {
  test("is full", () => {
    expect(twoPerSecond().ask(startUs)).toEqual({
      allowed: true,
      limit: 10,
      remaining: 9,
      retryAfterUs: 0,
      resetAfterUs: 500_000,
      delayUs: 0,
    });
  });

  test("allows the whole burst at once, in one request or in ten", () => {
    expect(twoPerSecond().ask(startUs, 10)).toMatchObject({ allowed: true, remaining: 0, resetAfterUs: 5_000_000 });
    expect(twoPerSecond().allowedOf(11, startUs)).toBe(10);
  });

  test("is full at the epoch too", () => {
    expect(twoPerSecond().allowedOf(11, 0)).toBe(10);
  });
});

describe("a token bucket whose burst is spent", () => {
  const spent = () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    return counter;
  };

  test("refuses the next request and reports exactly when it would be allowed", () => {
    expect(spent().ask(startUs)).toEqual({
      allowed: false,
      limit: 10,
      remaining: 0,
      retryAfterUs: 500_000,
      resetAfterUs: 5_000_000,
      delayUs: 0,
    });
  });

  test("refuses 1 µs before a unit has refilled, and allows at that µs", () => {
    expect(spent().allows(startUs + 499_999)).toBe(false);
    expect(spent().allows(startUs + 500_000)).toBe(true);
  });

  test("refills without steps: one unit each half second, not two each second", () => {
    const counter = spent();
    for (let unit = 1; unit <= 20; unit++) {
      expect(counter.allowedOf(2, startUs + unit * 500_000)).toBe(1);
    }
  });

  test("holds 3 units after 1.5 s and refuses a fourth", () => {
    expect(spent().allowedOf(4, startUs + 1_500_000)).toBe(3);
    expect(spent().allows(startUs + 1_500_000, 4)).toBe(false);
    expect(spent().allows(startUs + 1_999_999, 4)).toBe(false);
    expect(spent().allows(startUs + 2_000_000, 4)).toBe(true);
  });

  test("is full again after resetAfter and not 1 µs before", () => {
    expect(spent().allows(startUs + 4_999_999, 10)).toBe(false);
    expect(spent().allows(startUs + 5_000_000, 10)).toBe(true);
  });

  test("never holds more than the burst after any length of rest", () => {
    const counter = spent();
    expect(counter.allowedOf(11, startUs + 365 * day)).toBe(10);
  });

  test("charges nothing for what it refuses", () => {
    const counter = spent();
    const before = counter.head;
    for (let i = 0; i < 1_000; i++) counter.ask(startUs + i, 1 + (i % 10));
    expect(counter.head).toEqual(before);
    expect(counter.allows(startUs + 500_000)).toBe(true);
  });
});

describe("a request that costs more than the burst", () => {
  test("is refused by a full bucket, with a wait for ever and no charge", () => {
    const counter = twoPerSecond();
    expect(counter.ask(startUs, 11)).toEqual({
      allowed: false,
      limit: 10,
      remaining: 10,
      retryAfterUs: never,
      resetAfterUs: 0,
      delayUs: 0,
    });
    expect(counter.allows(startUs, 10)).toBe(true);
  });

  test("is also refused by a spent bucket, with a wait for ever", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    expect(counter.ask(startUs, 11).retryAfterUs).toBe(never);
  });
});

describe("a rate that does not divide", () => {
  test("3 per second: the third of a µs is carried, not lost", () => {
    const counter = new Counter(tokenBucket(3, second, 1));
    expect(counter.ask(startUs)).toMatchObject({ allowed: true, resetAfterUs: 333_334 });
    expect(counter.head).toEqual({ atUs: startUs + 333_333, count: 1 });
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 333_334 });
    expect(counter.allows(startUs + 333_333)).toBe(false);
    expect(counter.allows(startUs + 333_334)).toBe(true);
  });

  test("3 per second: the third of a µs that is still owed is reported in the wait", () => {
    const counter = new Counter(tokenBucket(3, second, 1));
    counter.ask(startUs);
    expect(counter.ask(startUs + 333_333)).toMatchObject({ allowed: false, retryAfterUs: 1, resetAfterUs: 1 });
    expect(counter.peek(startUs + 333_334)).toMatchObject({ allowed: true, remaining: 1, resetAfterUs: 0 });
  });

  test("fractions that add up to a whole µs are carried", () => {
    const quota = maxUnits - 1;
    for (const first of [1, 12_345, 2 ** 30]) {
      const counter = new Counter(tokenBucket(quota, 366 * day, maxUnits));
      counter.ask(startUs, first);
      expect(counter.head.count).toBeGreaterThan(0);
      counter.ask(startUs, quota - first);
      expect(counter.head).toEqual({ atUs: startUs + 366 * day, count: 0 });
    }
  });

  test("3 per second, spent at once: the three units refill after 333,334, 666,667 and 1,000,000 µs", () => {
    const counter = new Counter(tokenBucket(3, second, 3));
    counter.ask(startUs, 3);
    const arrivals: number[] = [];
    for (let us = 333_332; us <= 1_000_001; us++) if (counter.allows(startUs + us)) arrivals.push(us);
    expect(arrivals).toEqual([333_334, 666_667, 1_000_000]);
  });

  test("7 per 11 s: 700 units refill in exactly 1,100 s", () => {
    const counter = new Counter(tokenBucket(7, 11 * second, 7));
    expect(counter.allowedOf(8, startUs)).toBe(7);
    let nowUs = startUs;
    for (let i = 0; i < 700; i++) {
      nowUs += counter.ask(nowUs).retryAfterUs;
      expect(counter.allows(nowUs)).toBe(true);
    }
    // The last of every seven is due at a whole µs; the others wait until the end of the µs.
    expect(nowUs).toBe(startUs + 1_100 * second);
  });

  test("2^31 per ms: a unit is less than a thousandth of a µs, and still counted", () => {
    const counter = new Counter(tokenBucket(maxUnits, ms, maxUnits));
    expect(counter.ask(startUs, maxUnits)).toMatchObject({ allowed: true, remaining: 0, resetAfterUs: 1_000 });
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 1 });
    // 2^31 ÷ 1000 units a µs
    expect(counter.allows(startUs + 1, 2_147_484)).toBe(false);
    expect(counter.allows(startUs + 1, 2_147_483)).toBe(true);
    expect(counter.ask(startUs + 1)).toMatchObject({ allowed: false, retryAfterUs: 1 });
  });

  test("2^31 per 366 d: a cost of 2^30 + 1 takes exactly its time", () => {
    const counter = new Counter(tokenBucket(maxUnits, 366 * day, maxUnits));
    expect(counter.ask(startUs, 2 ** 30 + 1)).toEqual({
      allowed: true,
      limit: maxUnits,
      remaining: 2 ** 30 - 1,
      retryAfterUs: 0,
      // 183 d and one unit of 14,725.33 µs.
      resetAfterUs: 183 * day + 14_726,
      delayUs: 0,
    });
    expect(counter.ask(startUs, 2 ** 30)).toMatchObject({ allowed: false, retryAfterUs: 14_726 });
  });
});

describe("what remains", () => {
  test("is exact to the unit even if products exceed 2^53", () => {
    // At 2^30 + 1 units a window, the burst is almost two windows.
    for (const [quota, burst] of [
      [maxUnits, maxUnits],
      [maxUnits - 1, maxUnits - 1],
      [2 ** 30 + 1, maxUnits],
      [999_999_937, 2_000_000_011],
    ] as const) {
      const counter = new Counter(tokenBucket(quota, 366 * day, burst));
      let left = burst;
      for (let cost = 1; cost <= 200; cost++) {
        left -= cost;
        expect(counter.ask(startUs, cost).remaining).toBe(left);
      }
      expect(counter.ask(startUs, left - 1).remaining).toBe(1);
      expect(counter.ask(startUs, 1).remaining).toBe(0);
    }
  });

  test("grows by a unit in the µs in which it refills, even if products exceed 2^53", () => {
    const counter = new Counter(tokenBucket(maxUnits - 1, 366 * day, maxUnits));
    counter.ask(startUs, maxUnits);
    // A unit takes 14,725.33 µs.
    const left = [14_725, 14_726, 29_450, 29_451, 44_175, 44_176].map((us) => counter.peek(startUs + us).remaining);
    expect(left).toEqual([0, 1, 1, 2, 2, 3]);
  });
});

describe("a refund", () => {
  test("returns exactly what the charge took", () => {
    const counter = new Counter(tokenBucket(7, 11 * second, 7));
    counter.ask(startUs, 3);
    const before = counter.head;
    counter.ask(startUs + 5, 4);
    counter.refund(4, startUs + 5);
    expect(counter.head).toEqual(before);
  });

  test("of the only charge leaves the bucket full", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    counter.refund(10, startUs);
    expect(counter.ask(startUs, 10)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("of more than was charged makes it no fuller than full", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 1);
    counter.refund(10, startUs);
    counter.refund(10, startUs);
    expect(counter.allowedOf(11, startUs)).toBe(10);
  });

  test("to a counter that was forgotten meanwhile does nothing", () => {
    const counter = twoPerSecond();
    counter.refund(10, startUs, startUs + 5 * second);
    expect(counter.ask(startUs)).toMatchObject({ allowed: true, remaining: 9 });
    const thirds = new Counter(tokenBucket(3, second, 3));
    thirds.refund(1, startUs, startUs + 333_333);
    expect(thirds.ask(startUs)).toMatchObject({ allowed: true, remaining: 2 });
  });

  test("of units that have refilled by themselves returns nothing", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    const chargedAtUs = counter.state.atUs;
    counter.ask(startUs + 900_000, 10);
    counter.ask(startUs + 900_000, 8);
    const before = counter.head;
    counter.refund(2, startUs + 1_000_001, chargedAtUs);
    expect(counter.head).toEqual(before);
  });

  test("of units of which some have refilled returns the others", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    const chargedAtUs = counter.state.atUs;
    counter.ask(startUs + 500_000, 3);
    // One unit refilled after half a second. Without the refunded request, that time would have refilled nothing.
    counter.refund(2, startUs + 500_000, chargedAtUs);
    expect(counter.head).toEqual({ atUs: startUs + 2 * second, count: 0 });
    expect(counter.peek(startUs + 500_000, 7).allowed).toBe(true);
    expect(counter.peek(startUs + 500_000, 8).allowed).toBe(false);
  });

  test("keeps the fractions of a µs of the charges after it", () => {
    const atOnce = new Counter(tokenBucket(3, second, 3));
    atOnce.ask(startUs);
    atOnce.ask(startUs);
    atOnce.refund(1, startUs, startUs + 333_333);
    expect(atOnce.head).toEqual({ atUs: startUs + 333_333, count: 1 });
    const later = new Counter(tokenBucket(3, second, 3));
    later.ask(startUs);
    later.ask(startUs + 100_000);
    later.refund(1, startUs + 200_000, startUs + 333_333);
    // Two thirds of a µs are owed, and nothing records which charge owes which.
    expect(later.head).toEqual({ atUs: startUs + 533_333, count: 2 });
  });

  test("is exact after time has passed if nothing was charged since", () => {
    const counter = new Counter(tokenBucket(3, second, 3));
    counter.ask(startUs, 2);
    counter.ask(startUs, 1);
    counter.refund(1, startUs + 1);
    expect(counter.head).toEqual({ atUs: startUs + 666_666, count: 2 });
    counter.refund(2, startUs + 2);
    expect(counter.head).toEqual({ atUs: startUs + 2, count: 0 });
    expect(counter.ask(startUs + 2)).toMatchObject({ allowed: true, remaining: 2, resetAfterUs: 333_334 });
  });

  test("of costs beyond 2^53 quota-ths is exact", () => {
    const counter = new Counter(tokenBucket(maxUnits - 1, 366 * day, maxUnits));
    counter.ask(startUs, 12_345);
    const before = counter.head;
    counter.ask(startUs, 2 ** 31 - 12_346);
    counter.refund(2 ** 31 - 12_346, startUs);
    expect(counter.head).toEqual(before);
  });
});

describe("a clock that steps", () => {
  test("back by 1 ms admits nothing more, and the reported wait is exact", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    const refused = counter.ask(startUs - ms);
    expect(refused).toEqual({
      allowed: false,
      limit: 10,
      remaining: 0,
      retryAfterUs: 501_000,
      resetAfterUs: 5_001_000,
      delayUs: 0,
    });
    expect(counter.allows(startUs - ms + 500_999)).toBe(false);
    expect(counter.allows(startUs - ms + 501_000)).toBe(true);
  });

  test("to and fro by 3 ms, as the clocks of two workers may be, admits nothing more", () => {
    const counter = new Counter(tokenBucket(1_000, second, 100));
    let allowed = 0;
    for (let i = 0; i <= 10_000; i++) allowed += counter.allowedOf(1, startUs + i * 100 - (i % 2) * 3 * ms);
    // 100 at once, and 1000 in the second that this took.
    expect(allowed).toBe(1_100);
  });

  test("back by 1 h admits nothing more, and the bucket refills from then on", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    const back = startUs - hour;
    expect(counter.ask(back)).toEqual({
      allowed: false,
      limit: 10,
      remaining: 0,
      retryAfterUs: 500_000,
      resetAfterUs: 5_000_000,
      delayUs: 0,
    });
    expect(counter.allows(back + 499_999)).toBe(false);
    expect(counter.allows(back + 500_000)).toBe(true);
    expect(counter.allowedOf(3, back + 1_500_000)).toBe(2);
  });

  test("back by exactly a second is waited for, and 1 µs further is not", () => {
    for (const [quota, windowUs] of [
      [2, second],
      [120, minute],
    ] as const) {
      const counter = new Counter(tokenBucket(quota, windowUs, 10));
      counter.ask(startUs, 10);
      expect(counter.copy().ask(startUs - second).retryAfterUs).toBe(1_500_000);
      expect(counter.copy().ask(startUs - second - 1).retryAfterUs).toBe(500_000);
    }
  });

  test("back by at most the window is waited for if the window is shorter than a second, and by 50 ms at least", () => {
    for (const [windowMs, waitedMs] of [
      [100, 100],
      [50, 50],
      [10, 50],
    ] as const) {
      const counter = new Counter(tokenBucket(2, windowMs * ms, 10));
      counter.ask(startUs, 10);
      const unitUs = (windowMs / 2) * ms;
      expect(counter.copy().ask(startUs - waitedMs * ms).retryAfterUs).toBe(unitUs + waitedMs * ms);
      expect(counter.copy().ask(startUs - waitedMs * ms - 1).retryAfterUs).toBe(unitUs);
    }
  });

  test("back by an hour while units are left first takes those units, before the debt seems longer", () => {
    const counter = new Counter(tokenBucket(1, hour, 3));
    counter.ask(startUs, 2);
    // The debt is two hours; an hour back it seems to be three.
    expect(counter.copy().ask(startUs - hour)).toMatchObject({ allowed: false, retryAfterUs: hour });
    expect(counter.copy().ask(startUs - 2 * hour - second - 1)).toMatchObject({ allowed: false, retryAfterUs: hour });
  });

  test("forward by a year fills the bucket, and back again locks nobody out", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    expect(counter.allowedOf(11, startUs + 365 * day)).toBe(10);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 500_000 });
    expect(counter.allowedOf(2, startUs + 500_000)).toBe(1);
  });
});

describe("a limit that is edited while its counter lives", () => {
  test("a larger burst adds its units at once", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    counter.rate = tokenBucket(2, second, 15);
    expect(counter.allowedOf(6, startUs)).toBe(5);
  });

  test("a smaller burst takes away what is beyond it", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 2);
    counter.rate = tokenBucket(2, second, 5);
    expect(counter.allowedOf(5, startUs)).toBe(3);
  });

  test("under a burst smaller than the debt, the wait is at most one window", () => {
    const counter = new Counter(tokenBucket(1, minute, 1_000));
    counter.ask(startUs, 1_000);
    counter.rate = tokenBucket(1, minute, 10);
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: minute });
    expect(counter.allows(startUs + minute - 1)).toBe(false);
    expect(counter.allows(startUs + minute)).toBe(true);
  });

  test("a larger quota pays the same debt faster", () => {
    const counter = twoPerSecond();
    counter.ask(startUs, 10);
    counter.rate = tokenBucket(20, second, 100);
    // The debt is 5 s, and all of 100 units take 5 s.
    expect(counter.ask(startUs)).toMatchObject({ allowed: false, retryAfterUs: 50_000 });
    expect(counter.allowedOf(2, startUs + 50_000)).toBe(1);
  });

  test("a smaller quota keeps the time of the debt", () => {
    const counter = new Counter(tokenBucket(1_000_000, second, 1_000_000));
    counter.ask(startUs, 500_000);
    counter.rate = tokenBucket(3, second, 3);
    // The debt is half of the second, so one unit and a half are left.
    expect(counter.ask(startUs)).toMatchObject({ allowed: true, remaining: 0 });
    expect(counter.allows(startUs)).toBe(false);
  });

  test("a fraction of a µs written under a larger quota is dropped", () => {
    const counter = new Counter(tokenBucket(1_000_007, second, 1_000_007));
    counter.ask(startUs, 5);
    expect(counter.state.count).toBeGreaterThan(3);
    counter.rate = tokenBucket(3, second, 3);
    counter.ask(startUs);
    expect(counter.head).toEqual({ atUs: startUs + 4 + 333_333, count: 1 });
  });

  test("a fraction of a µs as large as the new quota is dropped too", () => {
    const counter = new Counter(tokenBucket(7, second, 7));
    counter.ask(startUs, 3);
    // 428,571 3⁄7 µs
    expect(counter.head).toEqual({ atUs: startUs + 428_571, count: 3 });
    counter.rate = tokenBucket(3, second, 3);
    expect(counter.peek(startUs, 4)).toMatchObject({ remaining: 1, resetAfterUs: 428_571 });
    counter.ask(startUs);
    expect(counter.head).toEqual({ atUs: startUs + 428_571 + 333_333, count: 1 });
  });
});

test("a token bucket is kept until it is full again, and 1 µs longer", () => {
  const counter = twoPerSecond();
  counter.ask(startUs, 10);
  expect(lifetimeUs(counter.rate, counter.state, startUs)).toBe(5_000_001);
  expect(lifetimeUs(counter.rate, counter.state, startUs + 6 * second)).toBe(1);
});

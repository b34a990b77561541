import { describe, expect, test } from "vitest";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import {
  needsRing,
  refundSliding,
  type SlidingWindow,
  slidingWindow,
} from "../../../limiter/src/algorithms/sliding-window.ts";
import { Counter, day, hour, maxUnits, minute, ms, second, startUs } from "./counter.ts";

/** A block begins at `startUs`. */
const fivePerSecond = () => new Counter(slidingWindow(5, second, 100 * ms));
const at = (milliseconds: number) => startUs + milliseconds * ms;

describe("a sliding window", () => {
  test("admits its quota and refuses the next until the block is out of the window", () => {
    const counter = fivePerSecond();
    expect(counter.ask(at(0))).toEqual({
      allowed: true,
      limit: 5,
      remaining: 4,
      retryAfterUs: 0,
      resetAfterUs: 1_100_000,
      delayUs: 0,
    });
    expect(counter.allowedOf(5, at(99))).toBe(4);
    expect(counter.ask(at(99))).toEqual({
      allowed: false,
      limit: 5,
      remaining: 0,
      retryAfterUs: 1_001_000,
      resetAfterUs: 1_001_000,
      delayUs: 0,
    });
    expect(counter.allows(at(1_100) - 1)).toBe(false);
    expect(counter.allowedOf(6, at(1_100))).toBe(5);
  });

  test("frees units block by block, as they were taken", () => {
    const counter = fivePerSecond();
    for (const milliseconds of [0, 250, 250, 500, 999]) counter.ask(at(milliseconds));
    expect(counter.ask(at(999))).toMatchObject({ remaining: 0, retryAfterUs: 101_000, resetAfterUs: 1_001_000 });
    expect(counter.ask(at(999), 2)).toMatchObject({ retryAfterUs: 301_000 });
    expect(counter.ask(at(999), 3)).toMatchObject({ retryAfterUs: 301_000 });
    expect(counter.ask(at(999), 4)).toMatchObject({ retryAfterUs: 601_000 });
    expect(counter.ask(at(999), 5)).toMatchObject({ retryAfterUs: 1_001_000 });
    const left = [1_099, 1_100, 1_299, 1_300, 1_599, 1_600, 1_999, 2_000].map((now) => counter.peek(at(now)).remaining);
    expect(left).toEqual([0, 1, 1, 3, 3, 4, 4, 5]);
  });

  test("reports the wait for each cost, whatever was taken and is free again", () => {
    const counter = fivePerSecond();
    for (const milliseconds of [-500, 0, 250, 250, 500, 600]) expect(counter.allows(at(milliseconds))).toBe(true);
    const waits = [1, 2, 3, 4, 5].map((cost) => counter.ask(at(600), cost).retryAfterUs / ms);
    expect(waits).toEqual([500, 700, 700, 1_000, 1_100]);
  });

  test("has no border: units taken before the end of a second still count after it", () => {
    const counter = fivePerSecond();
    expect(counter.allowedOf(6, at(1_000) - 1)).toBe(5);
    expect(counter.allows(at(1_000))).toBe(false);
    expect(counter.allows(at(2_000) - 1)).toBe(false);
    expect(counter.allows(at(2_000))).toBe(true);
  });

  test("with one block as long as itself counts everything for at most one window more", () => {
    const counter = new Counter(slidingWindow(5, second, second));
    expect(counter.allowedOf(6, at(500))).toBe(5);
    expect(counter.ask(at(999))).toMatchObject({ allowed: false, retryAfterUs: 1_001_000 });
    expect(counter.allows(at(2_000) - 1)).toBe(false);
    expect(counter.allows(at(2_000))).toBe(true);
  });

  test("with a thousand blocks is late by at most one block", () => {
    const counter = new Counter(slidingWindow(5, second, ms));
    for (let i = 0; i < 5; i++) counter.ask(at(i) + i);
    expect(counter.ask(at(4) + 5)).toMatchObject({ allowed: false, retryAfterUs: 996_995 });
    expect([1_000, 1_001, 1_002].map((now) => counter.peek(at(now)).remaining)).toEqual([0, 1, 2]);
  });

  test("refuses a cost beyond what remains, without a charge", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 3);
    expect(counter.ask(at(0), 3)).toMatchObject({ allowed: false, remaining: 2 });
    expect(counter.ask(at(0), 2)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("never admits a cost beyond its quota", () => {
    const counter = fivePerSecond();
    expect(counter.ask(at(0), 6)).toEqual({
      allowed: false,
      limit: 5,
      remaining: 5,
      retryAfterUs: never,
      resetAfterUs: 0,
      delayUs: 0,
    });
    expect(counter.ask(at(0), 5)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("is as new after an idle year", () => {
    const counter = fivePerSecond();
    for (let i = 0; i < 50; i++) counter.ask(at(i * 100));
    expect(counter.ask(startUs + 365 * day)).toEqual(fivePerSecond().ask(startUs + 365 * day));
    expect(counter.state.length).toBe(0);
  });

  test("counts 2^31 in 1 ms and in 366 d, repeatedly, although sums wrap at 2^32", () => {
    for (const [windowUs, precisionUs] of [
      [ms, 100],
      [366 * day, 36.6 * day],
    ] as const) {
      const counter = new Counter(slidingWindow(maxUnits, windowUs, precisionUs));
      const fromUs = startUs - (startUs % precisionUs);
      for (let i = 0; i < 5; i++) {
        const nowUs = fromUs + i * (windowUs + precisionUs);
        expect(counter.ask(nowUs, maxUnits - 1)).toMatchObject({ allowed: true, remaining: 1 });
        expect(counter.ask(nowUs + precisionUs, 2)).toMatchObject({ allowed: false, retryAfterUs: windowUs });
        expect(counter.ask(nowUs + precisionUs, 1)).toMatchObject({ allowed: true, remaining: 0 });
        expect(counter.ask(nowUs + windowUs + precisionUs - 1, maxUnits - 1).allowed).toBe(false);
        counter.refund(1, nowUs + precisionUs);
      }
    }
  });

  test("is kept for as long as its newest units count, and a block longer", () => {
    const counter = fivePerSecond();
    counter.ask(at(50));
    expect(lifetimeUs(counter.rate, counter.state, at(50))).toBe(1_150_000);
    expect(lifetimeUs(counter.rate, counter.state, at(60))).toBe(1_140_000);
  });
});

describe("the ring of a sliding window", () => {
  const blocks = (counter: Counter, from: number, to: number) => {
    for (let i = from; i < to; i++) expect(counter.allows(at(i))).toBe(true);
  };

  test("has no room until a second block is used, then room for 8, and whenever it is full a sixteenth more, or 8", () => {
    const counter = new Counter(slidingWindow(2_000, second, ms));
    const rooms: number[] = [];
    for (let i = 0; i < 1_001; i++) {
      counter.ask(at(i));
      if (counter.state.capacity !== rooms.at(-1)) rooms.push(counter.state.capacity);
    }
    expect(rooms.slice(0, 5)).toEqual([0, 8, 16, 24, 32]);
    expect(rooms.slice(-4)).toEqual([857, 910, 966, 1_001]);
    expect(counter.peek(at(1_000)).remaining).toBe(999);
  });

  test("never grows beyond the number of blocks that can count", () => {
    const counter = fivePerSecond();
    for (let i = 0; i < 100; i++) counter.ask(at(100 * i));
    expect(counter.state.capacity).toBe(8);
    const busy = new Counter(slidingWindow(1_000, second, 100 * ms));
    for (let i = 0; i < 100; i++) busy.ask(at(100 * i));
    expect(busy.state.capacity).toBe(11);
    expect(busy.state.length).toBe(10);
  });

  test("wraps at its end, and grows from any first slot", () => {
    const counter = new Counter(slidingWindow(2_000, 20 * ms, ms));
    for (let i = 0; i < 25; i++) counter.ask(at(i));
    expect(counter.state).toMatchObject({ first: 4, length: 20, capacity: 21 });
    const wide = new Counter(slidingWindow(2_000, 1_000 * ms, ms));
    blocks(wide, 0, 8);
    // All but the last two are over; then it fills beyond its room of 8.
    blocks(wide, 1_006, 1_007);
    expect(wide.state).toMatchObject({ first: 6, length: 2, capacity: 8 });
    blocks(wide, 1_007, 1_013);
    expect(wide.state).toMatchObject({ first: 0, length: 6, capacity: 8 });
    const wrapped = new Counter(wide.rate);
    blocks(wrapped, 0, 8);
    blocks(wrapped, 1_004, 1_016);
    expect(wrapped.state).toMatchObject({ first: 0, length: 11, capacity: 16 });
    expect(wrapped.peek(at(1_020)).remaining).toBe(2_000 - 12);
    expect(wrapped.peek(at(2_012)).remaining).toBe(2_000 - 4);
  });

  test("drops any number of expired blocks at once", () => {
    for (const taken of [2, 3, 7, 100, 511, 512, 513, 1_000]) {
      const counter = new Counter(slidingWindow(1_000, second, ms));
      blocks(counter, 0, taken);
      for (const later of [1, 2, 3, 64, 65, taken - 1, taken]) {
        if (later > taken) continue;
        // At 1000 + i, the blocks before i are over.
        expect(counter.copy().peek(at(1_000 + later)).remaining).toBe(1_000 - taken + later);
      }
    }
  });

  test("adds no entry for a block in which nothing counts any more", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 2);
    counter.refund(2, at(0));
    counter.ask(at(100));
    expect(counter.state.length).toBe(0);
    counter.ask(at(200));
    expect(counter.state.length).toBe(1);
  });

  test("is not needed within the newest block while units are left, nor when nothing counts", () => {
    const limit = slidingWindow(5, second, 100 * ms);
    const counter = fivePerSecond();
    const needs = (nowUs: number, cost: number) => needsRing(limit, counter.state, nowUs, cost);
    expect(needs(at(0), 1)).toBe(false);
    counter.ask(at(0), 2);
    counter.ask(at(150), 2);
    expect(needs(at(199), 1)).toBe(false);
    expect(needs(at(199), 2)).toBe(true);
    expect(needs(at(200), 1)).toBe(true);
    expect(needs(at(99), 1)).toBe(true);
    expect(needs(at(1_199), 1)).toBe(true);
    expect(needs(at(1_200), 1)).toBe(false);
    counter.refund(2, at(150));
    counter.refund(2, at(150), at(0));
    expect(needs(at(200), 1)).toBe(false);
  });
});

describe("a refund to a sliding window", () => {
  const limit = slidingWindow(5, second, 100 * ms);

  test("subtracts the units from the block in which they were charged", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 2);
    counter.ask(at(300), 2);
    counter.ask(at(600));
    counter.refund(2, at(650), at(300));
    expect([650, 1_100, 1_400, 1_700].map((now) => counter.peek(at(now)).remaining)).toEqual([2, 4, 4, 5]);
  });

  test("refunds no more than was charged there, and nothing for a block that is over or never existed", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 2);
    counter.ask(at(300), 2);
    const refunded = (chargedAt: number, units: number) =>
      refundSliding(limit, counter.state, memoryRing, at(chargedAt), units);
    expect(refunded(0, 5)).toBe(2);
    expect(refunded(0, 5)).toBe(0);
    expect(refunded(100, 1)).toBe(0);
    expect(refunded(300, 1)).toBe(1);
    expect(refunded(300, 5)).toBe(1);
    expect(counter.peek(at(300)).remaining).toBe(5);
  });

  test("refunds no more than was charged in any block, including the newest and those between", () => {
    const counter = new Counter(slidingWindow(20, second, 100 * ms));
    for (const [milliseconds, units] of [
      [0, 2],
      [300, 3],
      [600, 4],
      [900, 5],
    ] as const) {
      counter.ask(at(milliseconds), units);
    }
    const refunded = (chargedAt: number) =>
      refundSliding(counter.rate as SlidingWindow, counter.state, memoryRing, at(chargedAt), 9);
    expect([900, 300].map(refunded)).toEqual([5, 3]);
    expect(counter.state).toMatchObject({ count: 6, start: 6 });
    expect(counter.state.starts).toEqual([0, 2, 2]);
    expect([600, 0].map(refunded)).toEqual([4, 2]);
    expect(counter.state).toMatchObject({ count: 0, start: 0 });
    expect(counter.state.starts).toEqual([0, 0, 0]);
  });

  test("reaches back 128 blocks, and older units are freed in their own time", () => {
    const fine = slidingWindow(1_000, second, ms);
    for (const [after, returned] of [
      [128, 3],
      [129, 0],
    ] as const) {
      const counter = new Counter(fine);
      counter.ask(at(0), 3);
      for (let i = 1; i <= after; i++) counter.ask(at(i));
      expect(refundSliding(fine, counter.state, memoryRing, at(0), 5)).toBe(returned);
      expect(refundSliding(fine, counter.copy().state, memoryRing, at(2), 5)).toBe(1);
      expect(counter.peek(at(after)).remaining).toBe(1_000 - after - 3 + returned);
      expect(counter.peek(at(1_001)).remaining).toBe(1_000 - after);
    }
  });
});

describe("a sliding window that is edited while its counter lives", () => {
  const withQuota = (quota: number) => slidingWindow(quota, second, 100 * ms);

  test("has at once as many more units as its quota grows", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 5);
    counter.rate = withQuota(8);
    expect(counter.allowedOf(4, at(0))).toBe(3);
  });

  test("admits nothing under a smaller quota until less than that counts", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 2);
    counter.ask(at(500), 3);
    counter.rate = withQuota(3);
    expect(counter.ask(at(500))).toMatchObject({ allowed: false, limit: 3, remaining: 0, retryAfterUs: 1_100_000 });
    expect(counter.ask(at(1_100))).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 500_000 });
    expect(counter.allowedOf(4, at(1_600))).toBe(3);
  });
});

describe("a clock that steps", () => {
  test("back by 1 ms into the previous block continues in the newest", () => {
    const counter = fivePerSecond();
    counter.ask(at(200), 3);
    expect(counter.ask(at(199))).toMatchObject({ allowed: true, remaining: 1, resetAfterUs: 1_101_000 });
    expect(counter.state.atUs).toBe(at(200));
    expect(counter.state.stepped).toBe(false);
  });

  test("back by a second behind the newest block is waited for, and 1 µs further moves everything along", () => {
    for (const windowUs of [second, minute]) {
      const counter = new Counter(slidingWindow(5, windowUs, 100 * ms));
      counter.ask(at(0), 2);
      counter.ask(at(500), 3);
      const waiting = counter.copy();
      expect(waiting.ask(at(500) - second)).toMatchObject({ allowed: false, retryAfterUs: windowUs + 600_000 });
      expect(waiting.state.stepped).toBe(false);
      const along = counter.copy();
      // Half a second older than the newest, as before. The clock's block began at −600, so the newest is now the one at −500.
      expect(along.ask(at(500) - second - 1)).toMatchObject({
        allowed: false,
        retryAfterUs: windowUs + 100_000 - 500_000 + 1,
        resetAfterUs: windowUs + 100_000 + 1,
      });
      expect(along.state.stepped).toBe(true);
      expect(along.state.atUs).toBe(at(-500));
    }
  });

  test("back by at most the window is waited for if that is shorter than a second, and by 50 ms at least", () => {
    for (const [windowMs, waitedMs] of [
      [100, 100],
      [50, 50],
      [10, 50],
    ] as const) {
      const counter = new Counter(slidingWindow(5, windowMs * ms, ms));
      counter.ask(at(0), 5);
      expect(counter.copy().ask(at(-waitedMs)).retryAfterUs).toBe((windowMs + 1 + waitedMs) * ms);
      expect(counter.copy().ask(at(-waitedMs) - 1).retryAfterUs).toBe((windowMs + 1) * ms + 1);
    }
  });

  test("back into a block that has begun moves what counts to its end, and no further during that block", () => {
    const counter = new Counter(slidingWindow(5, minute, 6 * second));
    const blockUs = startUs - (startUs % (6 * second)) - hour;
    counter.ask(blockUs + hour, 2);
    counter.ask(blockUs + hour + 6 * second, 2);
    // Ahead of the clock by 5 s, which is more than is ever waited for, and yet this is no step.
    expect(counter.ask(blockUs + second)).toMatchObject({ allowed: true, resetAfterUs: 71 * second });
    expect(counter.state).toMatchObject({ atUs: blockUs + 6 * second, stepped: true });
    for (const afterUs of [second, 2 * second, 1, 6 * second - 1, 6 * second]) {
      expect(counter.ask(blockUs + afterUs).retryAfterUs).toBe(66 * second - afterUs);
      expect(counter.state).toMatchObject({ atUs: blockUs + 6 * second, stepped: false });
    }
    // A step back to the beginning of a block moves what counts to that block.
    expect(counter.ask(blockUs - minute).retryAfterUs).toBe(60 * second);
    expect(counter.state).toMatchObject({ atUs: blockUs - minute, stepped: true });
  });

  test("back frees nothing early that was taken late in its block", () => {
    const counter = fivePerSecond();
    counter.ask(at(99), 2);
    counter.ask(at(100), 3);
    // The two are 1 ms old. Counted in the block before the clock's, which is nearly over, they would be free 98 ms early.
    const back = at(99) - hour;
    expect(counter.ask(back).retryAfterUs).toBe(1_001_000);
    expect(counter.copy().allowedOf(6, back + 1_000_999)).toBe(0);
    expect(counter.copy().allowedOf(6, back + 1_001_000)).toBe(2);
  });

  test("back by an hour admits nothing more: all units become free after the same wait as before the step", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 2);
    counter.ask(at(500), 3);
    const back = at(500) - hour;
    expect(counter.ask(back)).toMatchObject({ allowed: false, retryAfterUs: 600_000, resetAfterUs: 1_100_000 });
    expect(counter.allowedOf(3, back + 600_000)).toBe(2);
    expect(counter.allowedOf(4, back + 1_100_000)).toBe(3);
    expect(counter.allowedOf(1, back + 1_699_999)).toBe(0);
    expect(counter.allowedOf(3, back + 1_700_000)).toBe(2);
  });

  test("back by an hour twice allows refunds of what was charged since", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 1);
    counter.ask(at(100) - hour, 1);
    counter.ask(at(200) - 2 * hour, 1);
    counter.ask(at(300) - 2 * hour, 2);
    expect(counter.peek(at(300) - 2 * hour).remaining).toBe(0);
    counter.refund(1, at(300) - 2 * hour, at(200) - 2 * hour);
    expect(counter.peek(at(300) - 2 * hour).remaining).toBe(1);
    expect(counter.peek(at(1_299) - 2 * hour).remaining).toBe(1);
    expect(counter.peek(at(1_300) - 2 * hour).remaining).toBe(3);
    expect(counter.peek(at(1_400) - 2 * hour).remaining).toBe(5);
  });

  test("forward by a year frees everything, and back again moves along what was charged meanwhile", () => {
    const counter = fivePerSecond();
    counter.ask(at(0), 5);
    expect(counter.allowedOf(4, startUs + 365 * day)).toBe(4);
    expect(counter.allowedOf(2, at(0))).toBe(1);
    expect(counter.ask(at(0))).toMatchObject({ allowed: false, retryAfterUs: 1_100_000 });
    expect(counter.allowedOf(6, at(1_100))).toBe(5);
  });
});

test("a sliding window's limit consists of its numbers only", () => {
  expect(slidingWindow(5, minute, second)).toEqual({
    algorithm: "sliding-window",
    quota: 5,
    windowUs: minute,
    tickUs: second,
    ticks: 60,
    toleranceUs: second,
  } satisfies SlidingWindow);
});

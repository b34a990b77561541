import { describe, expect, test } from "vitest";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { slidingLog } from "../../../limiter/src/algorithms/sliding-log.ts";
import { mostEntries } from "../../../limiter/src/algorithms/sliding-window.ts";
import { Counter, day, hour, maxUnits, minute, ms, second, startUs } from "./counter.ts";

const fivePerMinute = () => new Counter(slidingLog(5, minute));

describe("a sliding log", () => {
  test("admits its quota and frees each unit one window after it was taken, to the µs", () => {
    const counter = fivePerMinute();
    for (const us of [0, 1, 1, 250, 999_999]) counter.ask(startUs + us);
    const now = startUs + 1_000_000;
    expect(counter.ask(now)).toEqual({
      allowed: false,
      limit: 5,
      remaining: 0,
      retryAfterUs: minute - second,
      resetAfterUs: minute - 1,
      delayUs: 0,
    });
    expect(counter.ask(now, 2).retryAfterUs).toBe(minute - second + 1);
    expect(counter.ask(now, 3).retryAfterUs).toBe(minute - second + 1);
    expect(counter.ask(now, 5).retryAfterUs).toBe(minute - 1);
    const left = [-1, 0, 1, 249, 250, 999_998, 999_999].map((us) => counter.peek(startUs + minute + us).remaining);
    expect(left).toEqual([0, 1, 3, 3, 4, 4, 5]);
  });

  test("never admits a cost beyond its quota", () => {
    expect(fivePerMinute().ask(startUs, 6)).toMatchObject({ allowed: false, remaining: 5, retryAfterUs: never });
    expect(fivePerMinute().ask(startUs, 5)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("keeps one entry for everything taken in the same µs", () => {
    const counter = new Counter(slidingLog(1_000, minute));
    for (let i = 0; i < 900; i++) counter.ask(startUs + Math.floor(i / 300));
    expect(counter.state.length).toBe(2);
  });

  test("is as new after an idle year, and forgets its entries", () => {
    const counter = fivePerMinute();
    for (let i = 0; i < 5; i++) counter.ask(startUs + i);
    expect(counter.ask(startUs + 365 * day)).toMatchObject({ allowed: true, remaining: 4, resetAfterUs: minute });
    expect(counter.state.length).toBe(0);
  });

  test("is kept for as long as its newest unit counts, and 1 µs longer", () => {
    const counter = fivePerMinute();
    counter.ask(startUs);
    expect(lifetimeUs(counter.rate, counter.state, startUs + 5)).toBe(minute - 4);
  });

  test("subtracts a refund from the µs in which it was charged", () => {
    const counter = fivePerMinute();
    counter.ask(startUs, 2);
    counter.ask(startUs + 10, 3);
    counter.refund(2, startUs + 20, startUs);
    expect(counter.peek(startUs + 20).remaining).toBe(2);
    expect(counter.peek(startUs + minute).remaining).toBe(2);
    expect(counter.peek(startUs + minute + 10).remaining).toBe(5);
  });
});

describe("the tick of a sliding log", () => {
  test("is 1 µs while the window has at most 2^30 of them, and otherwise the least power of two that fits", () => {
    const ticks = [ms, minute, 1_073_741_000, 1_073_742_000, hour, day, 366 * day].map((windowUs) => {
      const { tickUs, ticks } = slidingLog(1, windowUs);
      return [tickUs, ticks];
    });
    expect(ticks).toEqual([
      [1, 999],
      [1, 59_999_999],
      [1, 1_073_740_999],
      [2, 536_871_000],
      [4, 900_000_000],
      [128, 675_000_000],
      [32_768, 965_039_063],
    ]);
    expect(slidingLog(1, 2 ** 30).tickUs).toBe(1);
    expect(slidingLog(1, 2 ** 30 + 1).tickUs).toBe(2);
  });

  test("is 32,768 µs for a window of 366 d: a unit is free after its window, and at most 0.049 s later", () => {
    for (const offsetUs of [0, 1, 32_767]) {
      const counter = new Counter(slidingLog(1, 366 * day));
      const takenUs = startUs - (startUs % 32_768) + offsetUs;
      counter.ask(takenUs);
      const { retryAfterUs } = counter.ask(takenUs);
      const lateUs = retryAfterUs - 366 * day;
      // A window of 366 d is 965,039,062.5 ticks.
      expect(lateUs).toBe(49_152 - offsetUs);
      expect(counter.copy().allows(takenUs + 366 * day + lateUs - 1)).toBe(false);
      expect(counter.copy().allows(takenUs + 366 * day + lateUs)).toBe(true);
    }
  });

  test("works on across a multiple of 2^32", () => {
    const wrapUs = Math.ceil(startUs / 2 ** 32) * 2 ** 32;
    const counter = fivePerMinute();
    for (const us of [-30, -1, 0, 1, 30]) counter.ask(wrapUs + us * second);
    const left = [30, 31, 58, 59, 60, 61, 90].map((us) => counter.peek(wrapUs + us * second).remaining);
    expect(left).toEqual([1, 1, 1, 2, 3, 4, 5]);
  });
});

describe("a sliding log with more entries than it keeps", () => {
  const beyond = 1_000;

  function crowded(): Counter {
    const counter = new Counter(slidingLog(maxUnits, second));
    for (let i = 0; i <= mostEntries + beyond; i++) counter.ask(startUs + i);
    return counter;
  }

  test("has 131,072 entries, and adds later units to the newest", () => {
    expect(mostEntries).toBe(131_072);
    expect(crowded().state).toMatchObject({ length: 131_072, capacity: 131_072, count: 132_073 });
  });

  test("frees early units in time, and late ones together: late, and never too early", () => {
    const counter = crowded();
    const left = (us: number) => maxUnits - counter.peek(startUs + second + us).remaining;
    expect([0, 1, 2].map((us) => left(us - 1))).toEqual([132_073, 132_072, 132_071]);
    expect(left(mostEntries - 1)).toBe(beyond + 1);
    // What was taken in the last 1001 µs counts until the window of the last of them is over.
    expect(left(mostEntries + beyond - 1)).toBe(beyond + 1);
    expect(left(mostEntries + beyond)).toBe(0);
  });

  test("reports the wait that it keeps", () => {
    const limited = crowded();
    limited.rate = slidingLog(132_073, second);
    const nowUs = startUs + mostEntries + beyond;
    expect(limited.ask(nowUs).retryAfterUs).toBe(startUs + second - nowUs);
    expect(limited.ask(nowUs, 131_072).retryAfterUs).toBe(startUs + 131_071 + second - nowUs);
    expect(limited.ask(nowUs, 131_073).retryAfterUs).toBe(second);
    expect(limited.copy().allows(nowUs + second - 1, 131_073)).toBe(false);
    expect(limited.copy().allows(nowUs + second, 131_073)).toBe(true);
  });

  test("keeps new entries again once some have expired", () => {
    const counter = crowded();
    counter.ask(startUs + second + 10);
    // 11 are over. The newest is an entry now, with all that it took in.
    expect(counter.state).toMatchObject({ length: 131_062, capacity: 131_072 });
    counter.ask(startUs + second + 11);
    expect(counter.state.length).toBe(131_062);
  });
});

describe("a sliding log that is edited while its counter lives", () => {
  test("has more units by as much as its quota grows, and none under a smaller quota until less counts", () => {
    const counter = fivePerMinute();
    for (let i = 0; i < 5; i++) counter.ask(startUs + i);
    counter.rate = slidingLog(7, minute);
    expect(counter.copy().allowedOf(3, startUs + 5)).toBe(2);
    counter.rate = slidingLog(2, minute);
    expect(counter.ask(startUs + 5)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: minute - 2 });
    expect(counter.allowedOf(2, startUs + minute + 2)).toBe(0);
    expect(counter.allowedOf(2, startUs + minute + 3)).toBe(1);
  });
});

describe("a clock that steps", () => {
  test("back by 1 ms continues in the µs that was reached", () => {
    const counter = fivePerMinute();
    counter.ask(startUs, 4);
    expect(counter.ask(startUs - ms)).toMatchObject({ allowed: true, remaining: 0, resetAfterUs: minute + ms });
    expect(counter.state.atUs).toBe(startUs);
    expect(counter.ask(startUs - ms).retryAfterUs).toBe(minute + ms);
  });

  test("back by an hour moves everything along, as old as it was", () => {
    const counter = fivePerMinute();
    counter.ask(startUs, 2);
    counter.ask(startUs + 30 * second, 3);
    const back = startUs + 30 * second - hour;
    expect(counter.ask(back)).toMatchObject({ allowed: false, retryAfterUs: 30 * second, resetAfterUs: minute });
    expect(counter.allowedOf(3, back + 30 * second)).toBe(2);
    expect(counter.allowedOf(4, back + minute)).toBe(3);
  });

  test("forward by a year and back keeps what was charged meanwhile", () => {
    const counter = fivePerMinute();
    counter.ask(startUs, 5);
    expect(counter.allowedOf(4, startUs + 365 * day)).toBe(4);
    expect(counter.allowedOf(2, startUs)).toBe(1);
    expect(counter.ask(startUs).retryAfterUs).toBe(minute);
  });
});

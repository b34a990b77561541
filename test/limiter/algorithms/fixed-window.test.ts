import { describe, expect, test } from "vitest";
import { endless, never } from "../../../limiter/src/algorithms/decision.ts";
import { fixedWindow, lifetimeWindowUs } from "../../../limiter/src/algorithms/fixed-window.ts";
import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { Counter, day, hour, maxUnits, minute, ms, second } from "./counter.ts";

/** 2023-11-14T22:13:00Z, where a minute begins. */
const borderUs = 1_699_999_980_000_000;

const fivePerMinute = () => new Counter(fixedWindow(5, minute));

describe("a fixed window", () => {
  test("admits its quota and refuses the next until the border", () => {
    const counter = fivePerMinute();
    expect(counter.ask(borderUs + 20 * second)).toEqual({
      allowed: true,
      limit: 5,
      remaining: 4,
      retryAfterUs: 0,
      resetAfterUs: 40 * second,
      delayUs: 0,
    });
    expect(counter.allowedOf(5, borderUs + 20 * second)).toBe(4);
    expect(counter.ask(borderUs + 20 * second)).toEqual({
      allowed: false,
      limit: 5,
      remaining: 0,
      retryAfterUs: 40 * second,
      resetAfterUs: 40 * second,
      delayUs: 0,
    });
  });

  test("ends exactly at its border: 1 µs before is the old window, the border is the new one", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    expect(counter.ask(borderUs + minute - 1)).toMatchObject({ allowed: false, retryAfterUs: 1 });
    expect(counter.ask(borderUs + minute)).toMatchObject({ allowed: true, remaining: 4, resetAfterUs: minute });
  });

  test("of a day begins at midnight UTC", () => {
    const midnightUs = Date.UTC(2024, 1, 29) * 1_000;
    const counter = new Counter(fixedWindow(1, day));
    expect(counter.ask(midnightUs - 1)).toMatchObject({ allowed: true, resetAfterUs: 1 });
    expect(counter.ask(midnightUs)).toMatchObject({ allowed: true, resetAfterUs: day });
    expect(counter.head).toEqual({ atUs: midnightUs, count: 1 });
  });

  test("may be used up twice within its length at a border: twice the quota, and no more", () => {
    const counter = fivePerMinute();
    expect(counter.allowedOf(10, borderUs - 1)).toBe(5);
    expect(counter.allowedOf(10, borderUs)).toBe(5);
    expect(counter.allows(borderUs + minute - 2)).toBe(false);
  });

  test("refuses a cost beyond what remains, at no charge, until the border", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 3);
    expect(counter.ask(borderUs + 1, 3)).toMatchObject({
      allowed: false,
      remaining: 2,
      retryAfterUs: minute - 1,
    });
    expect(counter.ask(borderUs + 1, 2)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("refuses a cost of its whole quota until the border if any was used", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 1);
    expect(counter.ask(borderUs + second, 5)).toMatchObject({
      allowed: false,
      remaining: 4,
      retryAfterUs: 59 * second,
    });
  });

  test("never admits a cost beyond its quota", () => {
    const counter = fivePerMinute();
    expect(counter.ask(borderUs, 6)).toMatchObject({ allowed: false, remaining: 5, retryAfterUs: never });
    expect(counter.head).toEqual({ atUs: 0, count: 0 });
    expect(counter.ask(borderUs, 5)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("refunds units, down to nothing used", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    counter.refund(2, borderUs);
    expect(counter.allowedOf(3, borderUs)).toBe(2);
    counter.refund(100, borderUs);
    expect(counter.allowedOf(6, borderUs)).toBe(5);
    counter.refund(5, borderUs);
    expect(counter.head).toEqual({ atUs: borderUs, count: 0 });
  });

  test("refunds nothing of a window that is over", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    counter.ask(borderUs + minute, 4);
    counter.refund(5, borderUs + minute, borderUs);
    expect(counter.allowedOf(3, borderUs + minute)).toBe(1);
  });

  test("keeps its count when the quota is edited", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    counter.rate = fixedWindow(3, minute);
    expect(counter.ask(borderUs)).toMatchObject({ allowed: false, limit: 3, remaining: 0 });
    counter.rate = fixedWindow(7, minute);
    expect(counter.allowedOf(3, borderUs)).toBe(2);
  });

  test("is kept through the window after it", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs + 1);
    expect(lifetimeUs(counter.rate, counter.state, borderUs + 1)).toBe(2 * minute);
  });

  test("counts 2^31 at once, and in a window of 1 ms", () => {
    const counter = new Counter(fixedWindow(maxUnits, ms));
    expect(counter.ask(borderUs, maxUnits)).toMatchObject({ allowed: true, remaining: 0 });
    expect(counter.ask(borderUs)).toMatchObject({ allowed: false, retryAfterUs: ms });
    expect(counter.allows(borderUs + ms, maxUnits)).toBe(true);
  });
});

describe("a clock that steps", () => {
  test("back within the window changes nothing", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs + 30 * second, 5);
    expect(counter.ask(borderUs)).toMatchObject({ allowed: false, retryAfterUs: minute });
  });

  test("back over a border goes on in the window it had reached, and admits nothing extra", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 4);
    expect(counter.ask(borderUs - 1)).toEqual({
      allowed: true,
      limit: 5,
      remaining: 0,
      retryAfterUs: 0,
      resetAfterUs: minute + 1,
      delayUs: 0,
    });
    expect(counter.ask(borderUs - 1)).toMatchObject({ allowed: false, retryAfterUs: minute + 1 });
    expect(counter.allows(borderUs + minute - 1)).toBe(false);
    expect(counter.allows(borderUs + minute)).toBe(true);
  });

  test("back over a border by a second waits for the window it had reached, and by 1 µs more moves it along", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 4);
    expect(counter.copy().ask(borderUs - second)).toMatchObject({ remaining: 0, resetAfterUs: minute + second });
    expect(counter.copy().ask(borderUs - second - 1)).toMatchObject({ remaining: 0, resetAfterUs: second + 1 });
  });

  test("back over a border is tolerated by a window's length if that is shorter than a second, and by at least 50 ms", () => {
    for (const [windowMs, waitedMs] of [
      [100, 100],
      [50, 50],
      [10, 50],
    ] as const) {
      const counter = new Counter(fixedWindow(5, windowMs * ms));
      counter.ask(borderUs, 4);
      expect(counter.copy().ask(borderUs - waitedMs * ms)).toMatchObject({
        remaining: 0,
        resetAfterUs: (waitedMs + windowMs) * ms,
      });
      expect(counter.copy().ask(borderUs - waitedMs * ms - 1)).toMatchObject({ remaining: 0, resetAfterUs: 1 });
    }
  });

  test("back by an hour carries what was used into the window that the clock shows, admits nothing extra and locks nobody out", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs + 30 * second, 3);
    expect(counter.allowedOf(5, borderUs + 30 * second - hour)).toBe(2);
    expect(counter.head).toEqual({ atUs: borderUs - hour, count: 5 });
    expect(counter.ask(borderUs + 30 * second - hour)).toMatchObject({ allowed: false, retryAfterUs: 30 * second });
    expect(counter.allowedOf(6, borderUs + minute - hour)).toBe(5);
  });

  test("back by an hour moves the window even if it then refuses, and marks it to be stored", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    expect(counter.state.stepped).toBe(false);
    expect(counter.ask(borderUs - hour)).toMatchObject({ allowed: false, retryAfterUs: minute });
    expect(counter.state.stepped).toBe(true);
    expect(counter.head).toEqual({ atUs: borderUs - hour, count: 5 });
  });

  test("forward by a year opens a new window, and back again carries what was used in it", () => {
    const counter = fivePerMinute();
    counter.ask(borderUs, 5);
    expect(counter.allowedOf(4, borderUs + 365 * day)).toBe(4);
    expect(counter.allowedOf(6, borderUs)).toBe(1);
    expect(counter.allowedOf(6, borderUs + minute)).toBe(5);
  });
});

describe("a lifetime", () => {
  test("admits its quota once, whatever time passes or steps back, and no wait helps", () => {
    const counter = new Counter(fixedWindow(3, lifetimeWindowUs));
    expect(counter.ask(borderUs)).toMatchObject({
      allowed: true,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: endless,
    });
    expect(counter.allowedOf(3, borderUs + 30 * 366 * day)).toBe(2);
    const refused = { allowed: false, remaining: 0, retryAfterUs: never, resetAfterUs: endless };
    for (const atUs of [borderUs, borderUs + 50 * 366 * day, 0]) expect(counter.ask(atUs)).toMatchObject(refused);
    expect(counter.head).toEqual({ atUs: 0, count: 3 });
  });

  test("refuses at once what costs more than is left, and charges nothing for it", () => {
    const counter = new Counter(fixedWindow(3, lifetimeWindowUs));
    counter.ask(borderUs, 2);
    expect(counter.ask(borderUs, 2)).toMatchObject({ allowed: false, remaining: 1, retryAfterUs: never });
    expect(counter.ask(borderUs, 1)).toMatchObject({ allowed: true, remaining: 0 });
  });
});

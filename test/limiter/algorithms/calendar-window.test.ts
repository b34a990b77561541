import { describe, expect, test } from "vitest";
import {
  type CalendarWindow,
  calendarWindow,
  endAfterUs,
  followWindow,
} from "../../../limiter/src/algorithms/calendar-window.ts";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { chargeDeferred } from "../../../limiter/src/algorithms/deferred-charge.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { capacity, lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { shareOf } from "../../../limiter/src/algorithms/share.ts";
import { tokenBucket } from "../../../limiter/src/algorithms/token-bucket.ts";
import { topUp } from "../../../limiter/src/algorithms/top-up.ts";
import { leaseParameters } from "../../../limiter/src/lease/holder.ts";
import { isLeasable } from "../../../limiter/src/lease/ledger.ts";
import { Counter, day, hour, second } from "./counter.ts";

const utcUs = (year: number, month: number, dayOfMonth = 1) => Date.UTC(year, month - 1, dayOfMonth) * 1000;

/** January to April 2024: the window of a store that is told where windows lie, as Redis is, at a time in February. */
function toldInFebruary(quota = 3): CalendarWindow {
  return {
    algorithm: "calendar-window",
    quota,
    windowUs: 31 * day,
    toleranceUs: second,
    previousUs: utcUs(2024, 1),
    startUs: utcUs(2024, 2),
    endUs: utcUs(2024, 3),
    nextEndUs: utcUs(2024, 4),
  };
}

const monthly = (quota = 3) => new Counter(toldInFebruary(quota));

describe("a window of the calendar", () => {
  test("admits its quota, and tells the real time that is left", () => {
    const counter = monthly();
    const nowUs = utcUs(2024, 2, 29) + 23 * hour;
    expect(counter.ask(nowUs)).toEqual({
      allowed: true,
      limit: 3,
      remaining: 2,
      retryAfterUs: 0,
      resetAfterUs: hour,
      delayUs: 0,
    });
    expect(counter.allowedOf(3, nowUs)).toBe(2);
    expect(counter.ask(nowUs)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: hour });
    expect(counter.ask(nowUs, 4)).toMatchObject({ allowed: false, retryAfterUs: never });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 2), count: 3 });
  });

  test("begins anew with the next one, to the µs, and tells how long that one lasts", () => {
    const counter = monthly();
    counter.ask(utcUs(2024, 2, 10), 3);
    expect(counter.ask(utcUs(2024, 3) - 1)).toMatchObject({ allowed: false, retryAfterUs: 1 });
    expect(counter.ask(utcUs(2024, 3))).toMatchObject({ allowed: true, remaining: 2, resetAfterUs: 31 * day });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 3), count: 1 });
  });

  test("is still the one before if the clock is behind the one that told where windows lie", () => {
    const counter = monthly();
    expect(counter.ask(utcUs(2024, 1, 31))).toMatchObject({ allowed: true, resetAfterUs: day });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 1), count: 1 });
  });

  test("gets no more than its quota from one whose clock is wrong by months", () => {
    for (const wrong of [utcUs(2023, 6, 10), utcUs(2024, 9, 10)]) {
      const counter = monthly();
      counter.ask(wrong, 2);
      expect(counter.ask(wrong + hour, 2)).toMatchObject({ allowed: false, retryAfterUs: expect.any(Number) });
      expect(counter.ask(wrong + hour)).toMatchObject({ allowed: true, remaining: 0 });
      // Somebody who knows the calendar asks about the same time.
      counter.rate = {
        ...toldInFebruary(),
        previousUs: 0,
        startUs: wrong - 5 * day,
        endUs: wrong + 5 * day,
        nextEndUs: wrong + 36 * day,
      };
      expect(counter.ask(wrong + 2 * hour)).toMatchObject({ allowed: false, resetAfterUs: 5 * day - 2 * hour });
      expect(counter.ask(wrong + 5 * day)).toMatchObject({ allowed: true, remaining: 2 });
    }
  });

  test("tells one minute if its end is not known", () => {
    const late = utcUs(2024, 9, 10);
    expect(monthly().ask(late)).toMatchObject({ resetAfterUs: 60 * second });
    expect(monthly().ask(utcUs(2023, 6))).toMatchObject({ resetAfterUs: utcUs(2024, 1) - utcUs(2023, 6) });
  });

  test("waits for a clock that stepped back a little over a border, and moves with one that stepped back further", () => {
    const counter = monthly();
    counter.ask(utcUs(2024, 3), 2);
    expect(counter.ask(utcUs(2024, 3) - second)).toMatchObject({ allowed: true, remaining: 0 });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 3), count: 3 });
    expect(counter.ask(utcUs(2024, 3) - hour)).toMatchObject({ allowed: false, retryAfterUs: hour });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 2), count: 3 });
  });

  test("refunds units of the window that counts, and none of one that is over", () => {
    const counter = monthly();
    counter.ask(utcUs(2024, 2, 10), 3);
    const chargedAtUs = counter.head.atUs;
    counter.refund(2, utcUs(2024, 2, 20));
    expect(counter.head.count).toBe(1);
    counter.ask(utcUs(2024, 3, 2), 3);
    counter.refund(1, utcUs(2024, 3, 3), chargedAtUs);
    expect(counter.head).toEqual({ atUs: utcUs(2024, 3), count: 3 });
  });

  test("is topped up by an operator, up to what was used", () => {
    const counter = monthly(10);
    counter.ask(utcUs(2024, 2, 10), 7);
    topUp(counter.rate, counter.state, memoryRing, utcUs(2024, 2, 11), 5);
    expect(counter.head.count).toBe(2);
    topUp(counter.rate, counter.state, memoryRing, utcUs(2024, 2, 12), 5);
    expect(counter.head.count).toBe(0);
  });

  test("is kept for two of the longest windows", () => {
    expect(lifetimeUs(toldInFebruary(), memoryCounter(), utcUs(2024, 2))).toBe(62 * day);
  });

  test("holds its quota", () => {
    expect(capacity(toldInFebruary(7))).toBe(7);
  });

  test("is shared as a bucket that refills within the longest window", () => {
    expect(shareOf(toldInFebruary(100), 4, 1)).toEqual(tokenBucket(25, 31 * day, 25));
  });

  test("may be leased", () => {
    expect(isLeasable(toldInFebruary(), leaseParameters)).toBe(true);
  });

  test("charges what a response took beyond it in the next window", () => {
    const state = memoryCounter();
    const rate = toldInFebruary(10);
    const paidAtUs = chargeDeferred(rate, state, memoryRing, utcUs(2024, 2, 10), 14);
    expect(paidAtUs).toBe(utcUs(2024, 3));
    expect([state.atUs, state.count]).toEqual([utcUs(2024, 3), 4]);
  });
});

describe("where a window of the calendar ends", () => {
  test.each([
    [utcUs(2023, 12, 31), utcUs(2024, 1)],
    [utcUs(2024, 1), utcUs(2024, 2)],
    [utcUs(2024, 2) - 1, utcUs(2024, 2)],
    [utcUs(2024, 2), utcUs(2024, 3)],
    [utcUs(2024, 3), utcUs(2024, 4)],
    [utcUs(2024, 4), utcUs(2024, 4) + 60 * second],
  ])("for %i it is %i", (atUs, endUs) => {
    expect(endAfterUs(toldInFebruary(), atUs)).toBe(endUs);
  });
});

describe("a window that follows the calendar", () => {
  const followed: number[] = [];
  const following = () =>
    calendarWindow(5, day, (window, nowUs) => {
      followed.push(nowUs);
      window.startUs = nowUs - (nowUs % day);
      window.endUs = window.startUs + day;
    });

  test("is asked where it is before the first decision, and when the time leaves it", () => {
    const window = following();
    const noon = utcUs(2024, 2, 10) + 12 * hour;
    for (const nowUs of [noon, noon + 1, noon + 12 * hour - 1, noon + 12 * hour, noon]) followWindow(window, nowUs);
    expect(followed).toEqual([noon, noon + 12 * hour, noon]);
  });

  test("stays where it is told to be, if nobody knows the calendar", () => {
    const window = toldInFebruary();
    followWindow(window, utcUs(2030, 1));
    expect(window).toEqual(toldInFebruary());
  });

  test("has the tolerance of its length for clocks that step back", () => {
    expect(following()).toMatchObject({ algorithm: "calendar-window", quota: 5, windowUs: day, toleranceUs: second });
  });
});

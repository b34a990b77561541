import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { knownZone } from "../../../control-plane/src/zones/zone-transitions.ts";
import {
  type CalendarWindow,
  calendarWindow,
  endAfterUs,
  followWindow,
} from "../../../limiter/src/algorithms/calendar-window.ts";
import { never } from "../../../limiter/src/algorithms/decision.ts";
import { memoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { capacity, lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { shareOf } from "../../../limiter/src/algorithms/share.ts";
import { tokenBucket } from "../../../limiter/src/algorithms/token-bucket.ts";
import { topUp } from "../../../limiter/src/algorithms/top-up.ts";
import { followCalendar, longestWindowUs } from "../../../limiter/src/document/calendar.ts";
import type { ZoneTransition } from "../../../limiter/src/document/schedule.ts";
import { leaseParameters } from "../../../limiter/src/lease/holder.ts";
import { isLeasable } from "../../../limiter/src/lease/ledger.ts";
import { Counter, day, hour, second } from "./counter.ts";
import { DeferredCounter } from "./deferred-counter.ts";

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

  test("has nothing left, and not less, when its quota was lowered; what the whole quota admits is told when to come back", () => {
    const counter = monthly(3);
    counter.ask(utcUs(2024, 2, 10), 3);
    counter.rate = toldInFebruary(2);
    expect(counter.ask(utcUs(2024, 2, 11), 2)).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 19 * day });
  });

  test("is the one that begins at this µs, also if it is the first or behind the last that is known", () => {
    const first = monthly();
    expect(first.ask(utcUs(2024, 1))).toMatchObject({ allowed: true, resetAfterUs: 31 * day });
    first.ask(utcUs(2024, 3, 31), 2);
    expect(first.ask(utcUs(2024, 4))).toMatchObject({ allowed: true, remaining: 0 });
    expect(first.head).toEqual({ atUs: utcUs(2024, 3), count: 3 });
  });

  test("begins anew with the next one, to the µs, and tells how long that one lasts", () => {
    const counter = monthly();
    counter.ask(utcUs(2024, 2, 10), 3);
    expect(counter.ask(utcUs(2024, 3) - 1)).toMatchObject({ allowed: false, retryAfterUs: 1 });
    expect(counter.ask(utcUs(2024, 3))).toMatchObject({ allowed: true, remaining: 2, resetAfterUs: 31 * day });
    expect(counter.head).toEqual({ atUs: utcUs(2024, 3), count: 1 });
  });

  test("holds what was counted, and gives nothing, if its quota was made smaller", () => {
    const counter = monthly(5);
    counter.ask(utcUs(2024, 2, 10), 4);
    counter.rate = toldInFebruary(3);
    expect(counter.ask(utcUs(2024, 2, 11))).toMatchObject({ allowed: false, remaining: 0, retryAfterUs: 19 * day });
    expect(counter.ask(utcUs(2024, 2, 11), 3)).toMatchObject({ allowed: false, retryAfterUs: 19 * day });
  });

  test.each([
    [utcUs(2024, 1), utcUs(2024, 1)],
    [utcUs(2024, 2) - 1, utcUs(2024, 1)],
    [utcUs(2024, 2), utcUs(2024, 2)],
    [utcUs(2024, 4) - 1, utcUs(2024, 3)],
    // Before and after these months, its beginning is not known.
    [utcUs(2024, 4), utcUs(2024, 4)],
    [utcUs(2024, 4) + 7, utcUs(2024, 4) + 7],
    [utcUs(2024, 1) - 7, utcUs(2024, 1) - 7],
  ])("at %i began at %i", (nowUs, startUs) => {
    const counter = monthly();
    counter.ask(nowUs);
    expect(counter.head).toEqual({ atUs: startUs, count: 1 });
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
    // The time until the window ends that is counted, not the one that the clock shows.
    expect(counter.ask(utcUs(2024, 3) - second)).toMatchObject({ allowed: false, retryAfterUs: 31 * day + second });
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
    expect(shareOf(toldInFebruary(100), 4, 1)).toEqual({
      ...tokenBucket(25, 31 * day, 25),
      toleranceUs: expect.any(Number),
    });
  });

  test("may be leased", () => {
    expect(isLeasable(toldInFebruary(), leaseParameters)).toBe(true);
  });
});

describe("what a response took beyond a window of the calendar", () => {
  const quota = 10;
  const begun = utcUs(2024, 2, 10);

  function owing(units: number): DeferredCounter {
    const counter = new DeferredCounter(toldInFebruary(quota));
    counter.chargeDeferred(begun, units);
    return counter;
  }

  test("is charged to the windows after it, from their beginning on", () => {
    const counter = owing(21);
    expect([counter.state.atUs, counter.state.count]).toEqual([utcUs(2024, 4), 1]);
    expect(counter.debt).toEqual({ paidAtUs: utcUs(2024, 4), sinceUs: begun, quota });
    expect(counter.ask(begun)).toMatchObject({ allowed: false, retryAfterUs: utcUs(2024, 4) - begun });
  });

  test.each([
    [1, 2, 9],
    [10, 2, 0],
    [11, 3, 9],
    [20, 3, 0],
    [21, 4, 9],
    [30, 4, 0],
  ])("%i units are paid in month %i, which has %i left", (units, month, left) => {
    const counter = owing(units);
    const paidAtUs = Math.max(utcUs(2024, month), begun);
    expect(counter.ask(paidAtUs)).toMatchObject({ allowed: left > 0, remaining: left });
    if (month > 2) expect(counter.ask(paidAtUs - 1)).toMatchObject({ allowed: false, remaining: 0 });
  });

  test("is charged after the windows that are known as if all were as long as the longest, and clocks put back", () => {
    const { atUs, count } = owing(35).state;
    expect([atUs, count]).toEqual([utcUs(2024, 4) + 31 * day + 2 * hour, 5]);
    const { atUs: laterUs, count: laterCount } = owing(40).state;
    expect([laterUs, laterCount]).toEqual([utcUs(2024, 4) + 31 * day + 2 * hour, 10]);
  });

  test("is charged half a window late after the windows that are known, if that is less than clocks are put back by", () => {
    const hours = { previousUs: begun - hour, startUs: begun, endUs: begun + hour, nextEndUs: begun + 2 * hour };
    const counter = new DeferredCounter({ ...toldInFebruary(quota), windowUs: hour, ...hours });
    counter.chargeDeferred(begun, 35);
    expect([counter.state.atUs, counter.state.count]).toEqual([begun + 3 * hour + hour / 2, 5]);
  });

  test("counts beside nothing of the windows before", () => {
    const counter = new DeferredCounter(toldInFebruary(quota));
    counter.chargeDeferred(utcUs(2024, 1, 20), 9);
    counter.chargeDeferred(begun, 12);
    expect([counter.state.atUs, counter.state.count]).toEqual([utcUs(2024, 3), 2]);
  });

  test("fills a window with its whole quota, and the next one begins with nothing", () => {
    const { state, debt } = owing(20);
    expect([state.atUs, state.count]).toEqual([utcUs(2024, 3), 10]);
    expect(debt.paidAtUs).toBe(utcUs(2024, 3));
  });

  test("is charged to the window that is counted by a clock that is a little behind, and to the one after it", () => {
    const counter = new DeferredCounter(toldInFebruary(quota));
    counter.chargeDeferred(utcUs(2024, 3), 2);
    counter.chargeDeferred(utcUs(2024, 3) - second / 2, 15);
    expect([counter.state.atUs, counter.state.count]).toEqual([utcUs(2024, 4), 7]);
  });

  test("is charged after earlier debts, also where no window is known", () => {
    const counter = owing(35);
    const paidAtUs = counter.debt.paidAtUs;
    counter.chargeDeferred(begun + hour, 3);
    expect([counter.state.atUs, counter.state.count]).toEqual([paidAtUs, 8]);
    counter.chargeDeferred(begun + 2 * hour, 3);
    expect([counter.state.atUs, counter.state.count]).toEqual([paidAtUs + 31 * day, 1]);
  });

  test("is forgiven where it would be paid in the year 2128 or later", () => {
    const counter = owing(2 ** 31);
    expect(counter.state.atUs).toBeLessThanOrEqual(5_000_000_000_000_000 + 2 * hour);
    expect(counter.debt.paidAtUs).toBeGreaterThan(5_000_000_000_000_000 - 31 * day);
    expect(counter.debt.paidAtUs).toBeLessThanOrEqual(5_000_000_000_000_000);
    expect(counter.state.count).toBe(quota);
  });

  const units = ["hour", "day", "week", "month", "year"] as const;
  const zones = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana"] as const;
  const begins = fc.integer({ min: utcUs(2024, 1) / second, max: utcUs(2028, 1) / second });

  test("never leaves a window more than a debtor does who pays at each border, and the next two windows just that", () => {
    const property = fc.property(
      fc.constantFrom(...units),
      fc.constantFrom(...zones),
      begins,
      fc.array(fc.integer({ min: 1, max: 25 }), { minLength: 1, maxLength: 3 }),
      (unit, timezone, fromSeconds, responses) => {
        const calendar = { unit, timezone, anchor: unit === "year" ? 101 : 1 };
        const transitions = knownZone(timezone, utcUs(2024, 1) / second)?.transitions as readonly ZoneTransition[];
        const window = calendarWindow(quota, longestWindowUs(calendar), (one, nowUs) =>
          followCalendar(calendar, transitions, one, nowUs),
        );
        const counter = new DeferredCounter(window);
        followWindow(window, fromSeconds * second);
        for (const cost of responses) counter.chargeDeferred(fromSeconds * second, cost);
        let owed = responses.reduce((sum, cost) => sum + cost, 0);
        let nowUs = fromSeconds * second;
        for (let i = 0; i < 12; i++) {
          followWindow(window, nowUs);
          const left = Math.max(quota - owed, 0);
          const { remaining } = counter.ask(nowUs);
          const atEnd = counter.ask(window.endUs - 1).remaining;
          if (i < 3) expect([remaining, atEnd]).toEqual([left, left]);
          else expect(Math.max(remaining, atEnd)).toBeLessThanOrEqual(left);
          owed = Math.max(owed - quota, 0);
          nowUs = window.endUs;
        }
        expect(counter.ask(nowUs).remaining).toBe(quota);
      },
    );
    fc.assert(property, { numRuns: 2000 });
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
    const midnight = noon + 12 * hour;
    for (const nowUs of [noon, noon + 1, midnight - 1, midnight, midnight, noon]) followWindow(window, nowUs);
    expect(followed).toEqual([noon, midnight, noon]);
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

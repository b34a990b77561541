import { describe, expect, it } from "vitest";
import { type CalendarWindow, calendarWindow, followWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import type { Calendar } from "../../../limiter/src/algorithms/limit.ts";
import { followCalendar, longestWindowUs, parseMonthAndDay } from "../../../limiter/src/document/calendar.ts";
import type { ZoneTransition } from "../../../limiter/src/document/schedule.ts";
import { day, hour, second } from "../algorithms/counter.ts";

const utcUs = (...date: [year: number, month: number, day?: number, hour?: number]) => {
  const [year, month, dayOfMonth = 1, hours = 0] = date;
  return Date.UTC(year, month - 1, dayOfMonth, hours) * 1000;
};

function windowAt(calendar: Calendar, transitions: readonly ZoneTransition[], nowUs: number): CalendarWindow {
  const window = calendarWindow(1, longestWindowUs(calendar), (one, atUs) =>
    followCalendar(calendar, transitions, one, atUs),
  );
  followWindow(window, nowUs);
  return window;
}

const berlin = (unit: Calendar["unit"], anchor: number): Calendar => ({ unit, timezone: "Europe/Berlin", anchor });

it.each([
  ["hour", hour],
  ["day", day],
  ["week", 7 * day],
  ["month", 31 * day],
  ["year", 366 * day],
] as const)("the longest %s lasts %i µs", (unit, us) => {
  expect(longestWindowUs({ unit })).toBe(us);
});

describe("a window of the calendar", () => {
  it("goes on with the last offset when the transitions end", () => {
    const transitions: ZoneTransition[] = [
      [0, 60],
      [1_000_000, 120],
    ];
    const window = windowAt(berlin("day", 1), transitions, 4_000_000_000 * second);
    expect((window.startUs / second + 120 * 60) % 86_400).toBe(0);
    expect(window.endUs - window.startUs).toBe(86_400 * second);
  });

  it("is found before the first transition, and before 1970", () => {
    const window = windowAt(berlin("month", 31), [[2_000_000_000, 60]], utcUs(1969, 3));
    expect([window.startUs, window.endUs]).toEqual([utcUs(1969, 2, 27, 23), utcUs(1969, 3, 30, 23)]);
  });
});

describe("an anchor of a year", () => {
  it.each([
    ["01-01", 101],
    ["02-29", 229],
    ["12-31", 1231],
  ])("is a month and a day: %s", (text, anchor) => {
    expect(parseMonthAndDay(text)).toBe(anchor);
  });

  it.each(["", "1-1", "00-10", "13-01", "02-30", "04-31", "01-00", "01/01", "0a-01", "01-0a", "2024-01-01", "01-011"])(
    "is refused if there is no such day: %j",
    (text) => {
      expect(parseMonthAndDay(text)).toBeUndefined();
    },
  );
});

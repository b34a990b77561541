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

/** @returns when the windows before, around and after a moment begin, and when the last of them ends */
function momentsAt(calendar: Calendar, transitions: readonly ZoneTransition[], at: string): string[] {
  const { previousUs, startUs, endUs, nextEndUs } = windowAt(calendar, transitions, Date.parse(at) * 1000);
  return [previousUs, startUs, endUs, nextEndUs].map((us) => new Date(us / 1000).toISOString().slice(0, 16));
}

const seconds = (at: string) => Date.parse(at) / 1000;

describe("where the clocks change, an hour", () => {
  const hourly: Calendar = { unit: "hour", timezone: "any", anchor: 1 };

  it("that is half repeated ends when the clocks show the next full hour the second time", () => {
    // Lord Howe Island, at 02:00: back to 01:30.
    const lordHowe: ZoneTransition[] = [
      [seconds("2004-10-30T15:30Z"), 660],
      [seconds("2005-03-26T15:00Z"), 630],
    ];
    for (const at of ["2005-03-26T14:00Z", "2005-03-26T14:30Z", "2005-03-26T15:29:59Z"]) {
      const moments = ["2005-03-26T13:00", "2005-03-26T14:00", "2005-03-26T15:30", "2005-03-26T16:30"];
      expect([at, ...momentsAt(hourly, lordHowe, at)]).toEqual([at, ...moments]);
    }
    expect(momentsAt(hourly, lordHowe, "2005-03-26T15:30Z").slice(1, 3)).toEqual([
      "2005-03-26T15:30",
      "2005-03-26T16:30",
    ]);
  });

  it("ends early if the clocks are put forward to a full hour", () => {
    const forward: ZoneTransition[] = [
      [0, 0],
      [seconds("2024-05-01T00:30Z"), 30],
    ];
    expect(momentsAt(hourly, forward, "2024-05-01T00:10Z")).toEqual([
      "2024-04-30T23:00",
      "2024-05-01T00:00",
      "2024-05-01T00:30",
      "2024-05-01T01:30",
    ]);
  });

  it("is found before the first change that is known", () => {
    const later: ZoneTransition[] = [
      [seconds("2033-05-18T03:33:20Z"), 330],
      [seconds("2034-05-18T03:33:20Z"), 345],
    ];
    expect(momentsAt(hourly, later, "2024-05-01T00:10Z")).toEqual([
      "2024-04-30T22:30",
      "2024-04-30T23:30",
      "2024-05-01T00:30",
      "2024-05-01T01:30",
    ]);
  });
});

describe("where the clocks change, a day", () => {
  const daily: Calendar = { unit: "day", timezone: "any", anchor: 1 };

  it("begins at 01:00 if the clocks skip its midnight, and ends at the next one", () => {
    // São Paulo, at 00:00: forward to 01:00.
    const spring: ZoneTransition[] = [
      [seconds("2006-02-26T02:00Z"), -180],
      [seconds("2006-11-05T03:00Z"), -120],
    ];
    expect(momentsAt(daily, spring, "2006-11-05T02:59:59Z").slice(1, 3)).toEqual([
      "2006-11-04T03:00",
      "2006-11-05T03:00",
    ]);
    expect(momentsAt(daily, spring, "2006-11-05T03:00Z").slice(1, 3)).toEqual(["2006-11-05T03:00", "2006-11-06T02:00"]);
  });

  it("has 25 hours if the clocks are put back at its end, before they show midnight", () => {
    // São Paulo, at 00:00: back to 23:00.
    const autumn: ZoneTransition[] = [
      [seconds("2006-11-05T03:00Z"), -120],
      [seconds("2007-02-25T02:00Z"), -180],
    ];
    for (const at of ["2007-02-24T02:00Z", "2007-02-25T02:00Z", "2007-02-25T02:59:59Z"]) {
      const moments = ["2007-02-23T02:00", "2007-02-24T02:00", "2007-02-25T03:00", "2007-02-26T03:00"];
      expect([at, ...momentsAt(daily, autumn, at)]).toEqual([at, ...moments]);
    }
  });
});

describe("a month", () => {
  it.each([
    [1900, 28],
    [2000, 29],
    [2023, 28],
    [2024, 29],
    [2100, 28],
    [2400, 29],
  ])("of February %i has %i days", (year, days) => {
    const calendar: Calendar = { unit: "month", timezone: "UTC", anchor: 1 };
    const window = windowAt(calendar, [[0, 0]], utcUs(year, 2, 15));
    expect([window.startUs, window.endUs]).toEqual([utcUs(year, 2), utcUs(year, 2) + days * day]);
    expect([window.previousUs, window.nextEndUs]).toEqual([utcUs(year, 1), utcUs(year, 4)]);
  });
});

describe("an anchor of a year", () => {
  it.each([
    ["01-01", 101],
    ["09-09", 909],
    ["10-10", 1010],
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

  // Right before 0 and right behind 9 in the order of characters: "1/" would be 9, and "0:" 10.
  it.each(["1/-01", "0:-01", "01-1/", "01-0:", "/0-01", ":0-01", "01-/9", "01-:0", "x1-01", "01-x1"])(
    "is refused if a character is no digit: %j",
    (text) => {
      expect(parseMonthAndDay(text)).toBeUndefined();
    },
  );
});

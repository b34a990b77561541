// Every boundary of forty years in eight time zones, against luxon. The transitions are those that a control plane sends.
import { DateTime, IANAZone } from "luxon";
import { describe, expect, it } from "vitest";
import { knownZone } from "../../../control-plane/src/zones/zone-transitions.ts";
import { type CalendarWindow, calendarWindow, followWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import type { Calendar, CalendarUnit } from "../../../limiter/src/algorithms/limit.ts";
import { followCalendar, longestWindowUs, parseMonthAndDay } from "../../../limiter/src/document/calendar.ts";
import type { ZoneTransition } from "../../../limiter/src/document/schedule.ts";

const zones = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  // Skipped midnights, while it had summer time.
  "America/Sao_Paulo",
  // Summer time is half an hour.
  "Australia/Lord_Howe",
  // Repeats its midnights.
  "America/Havana",
  // Skipped 30 December 2011.
  "Pacific/Apia",
  "Asia/Kathmandu",
];
const firstYear = 2000;
const years = 40;
/** A control plane sends the changes of so many years and more. */
const yearsPerList = 5;
const second = 1_000_000;

interface Stretch {
  readonly transitions: readonly ZoneTransition[];
  readonly fromSeconds: number;
  readonly toSeconds: number;
}

/** The changes as they are sent at the beginning of each stretch of years. */
function stretchesOf(zone: string): Stretch[] {
  const stretches: Stretch[] = [];
  for (let year = firstYear; year < firstYear + years; year += yearsPerList) {
    const fromSeconds = DateTime.utc(year).toSeconds();
    const transitions = knownZone(zone, fromSeconds)?.transitions as readonly ZoneTransition[];
    stretches.push({ transitions, fromSeconds, toSeconds: DateTime.utc(year + yearsPerList).toSeconds() });
  }
  return stretches;
}

function windowOf(calendar: Calendar, transitions: readonly ZoneTransition[]): CalendarWindow {
  return calendarWindow(1, longestWindowUs(calendar), (window, nowUs) =>
    followCalendar(calendar, transitions, window, nowUs),
  );
}

/** The first moment at which the clocks of the zone show this date, or a later one: looked for where clocks change nearby. */
function beginOf(clock: IANAZone, year: number, month: number, day: number): number {
  const midnight = Date.UTC(year, month - 1, day) / 1000;
  const offset = (at: number) => clock.offset(at * 1000) * 60;
  const usual = offset(midnight - 2 * 86_400);
  if (offset(midnight + 2 * 86_400) === usual) return midnight - usual;
  let at = midnight - 86_400;
  while (at + offset(at) < midnight) at += 900;
  return at;
}

type Dates = Iterable<readonly [year: number, month: number, day: number]>;

function* eachDay(isFirst: (date: DateTime) => boolean): Dates {
  const last = DateTime.utc(firstYear + years + 2);
  for (let date = DateTime.utc(firstYear - 3); date < last; date = date.plus({ days: 1 })) {
    if (isFirst(date)) yield [date.year, date.month, date.day];
  }
}

function* eachMonth(anchor: number): Dates {
  for (let year = firstYear - 3; year < firstYear + years + 2; year++) {
    for (let month = 1; month <= 12; month++) {
      yield [year, month, Math.min(anchor, DateTime.utc(year, month).daysInMonth as number)];
    }
  }
}

function* eachYear(month: number, day: number): Dates {
  for (let year = firstYear - 3; year < firstYear + years + 2; year++) {
    yield [year, month, Math.min(day, DateTime.utc(year, month).daysInMonth as number)];
  }
}

/** Follows the window from boundary to boundary, and looks at both sides of each. @returns how many boundaries there were */
function expectBoundaries(zone: string, calendar: Calendar, dates: Dates): number {
  const clock = IANAZone.create(zone);
  const begins = [...new Set([...dates].map(([year, month, day]) => beginOf(clock, year, month, day)))];
  let seen = 0;
  for (const { transitions, fromSeconds, toSeconds } of stretchesOf(zone)) {
    const window = windowOf(calendar, transitions);
    for (let i = 2; i < begins.length - 2; i++) {
      const start = begins[i] as number;
      if (start < fromSeconds || start >= toSeconds) continue;
      for (const [nowUs, first] of [
        [start * second - 1, i - 2],
        [start * second, i - 1],
      ] as const) {
        followWindow(window, nowUs);
        const { previousUs, startUs, endUs, nextEndUs } = window;
        const found = [previousUs, startUs, endUs, nextEndUs].map((us) => us / second).join();
        const expected = begins.slice(first, first + 4).join();
        if (found !== expected) expect.fail(`${zone} at ${nowUs / second}: expected ${expected}, got ${found}`);
      }
      seen += 1;
    }
  }
  return seen;
}

function calendarOf(unit: CalendarUnit, timezone: string, anchor: number): Calendar {
  return { unit, timezone, anchor };
}

describe.each(zones)("windows of the calendar in %s", (zone) => {
  it("begin at the first moment of each day", () => {
    const seen = expectBoundaries(
      zone,
      calendarOf("day", zone, 1),
      eachDay(() => true),
    );
    expect(seen).toBe(14_610);
  });

  it.each([1, 3, 7])("begin on day %i of each week", (anchor) => {
    const dates = eachDay(({ weekday }) => weekday === anchor);
    expect(expectBoundaries(zone, calendarOf("week", zone, anchor), dates)).toBeGreaterThan(2_080);
  });

  it.each([1, 15, 28, 29, 30, 31])("begin on day %i of each month, or on its last", (anchor) => {
    expect(expectBoundaries(zone, calendarOf("month", zone, anchor), eachMonth(anchor))).toBeGreaterThanOrEqual(480);
  });

  it.each(["01-01", "02-29", "04-06", "12-31"])("begin on %s of each year", (date) => {
    const anchor = parseMonthAndDay(date) as number;
    const [month = 0, day = 0] = date.split("-").map(Number);
    expect(expectBoundaries(zone, calendarOf("year", zone, anchor), eachYear(month, day))).toBeGreaterThanOrEqual(39);
  });

  it("begin whenever the clocks show a full hour", () => {
    const clock = IANAZone.create(zone);
    for (const { transitions, fromSeconds, toSeconds } of stretchesOf(zone)) {
      const window = windowOf(calendarOf("hour", zone, 1), transitions);
      followWindow(window, fromSeconds * second);
      let next = window.endUs / second;
      let dayEnds = fromSeconds;
      let offset: number | undefined;
      while (next < toSeconds) {
        if (next >= dayEnds) {
          dayEnds = next + 86_400;
          const before = clock.offset(next * 1000);
          offset = before === clock.offset(dayEnds * 1000) ? before : undefined;
        }
        const minutes = (at: number) => at / 60 + (offset ?? clock.offset(at * 1000));
        followWindow(window, next * second);
        if (minutes(next) % 60 !== 0 || window.startUs !== next * second)
          expect.fail(`${zone}: ${next} is no full hour`);
        const end = window.endUs / second;
        // On most days, the next full hour can only be this one.
        if (offset !== undefined && end !== next + 3600) expect.fail(`${zone}: the hour from ${next} ends at ${end}`);
        for (let at = next + 900; offset === undefined && at < end; at += 900) {
          if (minutes(at) % 60 === 0) expect.fail(`${zone}: ${at} is a full hour within a window`);
        }
        next = end;
      }
    }
  });
});

// Determines when a calendar window begins and ends: an hour, a day, a week, a month or a year by the clocks of a time zone. Like a
// schedule, it knows of a zone only when its offset changes (schedule.ts), which the control plane sends years ahead. After the last
// change that was sent, the last offset goes on.
//
// A day, a week, a month or a year begins at the first moment at which the zone's clocks show its first midnight, or a later time: where
// clocks are put forward over midnight, it begins at the change. An hour begins whenever the clocks show a full hour: an hour that is
// repeated is a window of its own, and one that is skipped is none.

import type { CalendarWindow } from "../algorithms/calendar-window.ts";
import type { Calendar, CalendarUnit } from "../algorithms/limit.ts";
import type { ZoneTransition } from "./schedule.ts";

export const calendarUnits: readonly string[] = ["hour", "day", "week", "month", "year"];

/** The longest that a window lasts, but for changes of the clocks, in µs. */
export function longestWindowUs({ unit }: Pick<Calendar, "unit">): number {
  return longestDays[unit] * daySeconds * 1_000_000;
}

const longestDays: Readonly<Record<CalendarUnit, number>> = { hour: 1 / 24, day: 1, week: 7, month: 31, year: 366 };

const daySeconds = 86_400;
const hourSeconds = 3_600;

/** @returns month × 100 + day for "01-01" to "12-31", or undefined if there is no such day in any year */
export function parseMonthAndDay(text: string): number | undefined {
  if (text.length !== 5 || text.charAt(2) !== "-") return undefined;
  const month = twoDigits(text, 0);
  const day = twoDigits(text, 3);
  if (month === undefined || day === undefined || day < 1) return undefined;
  const most = month === 2 ? 29 : daysOfMonth[month - 1];
  return most !== undefined && day <= most ? month * 100 + day : undefined;
}

/** Moves a window to where `nowUs` is. @param transitions of the calendar's zone, at least one */
export function followCalendar(
  calendar: Calendar,
  transitions: readonly ZoneTransition[],
  window: CalendarWindow,
  nowUs: number,
): void {
  const now = Math.floor(nowUs / 1_000_000);
  const bounds = calendar.unit === "hour" ? hoursAround(transitions, now) : datesAround(calendar, transitions, now);
  window.previousUs = bounds.previous * 1_000_000;
  window.startUs = bounds.start * 1_000_000;
  window.endUs = bounds.end * 1_000_000;
  window.nextEndUs = bounds.nextEnd * 1_000_000;
}

/** When the window before the present one began, when the present one begins and ends, and when the next one ends: seconds since the epoch. */
interface Bounds {
  previous: number;
  start: number;
  end: number;
  nextEnd: number;
}

function hoursAround(transitions: readonly ZoneTransition[], now: number): Bounds {
  const start = fullHourUntil(transitions, now);
  const end = fullHourAfter(transitions, now);
  return {
    previous: fullHourUntil(transitions, start - 1),
    start,
    end,
    nextEnd: fullHourAfter(transitions, end),
  };
}

/** Returns the last moment up to `at` at which the clocks showed a full hour. */
function fullHourUntil(transitions: readonly ZoneTransition[], at: number): number {
  let until = at;
  for (let place = placeOf(transitions, at); place > 0; place--) {
    const [from, offset] = transitions[place] as ZoneTransition;
    const hour = until - remainder(until + offset * 60, hourSeconds);
    if (hour >= from) return hour;
    until = from - 1;
  }
  return until - remainder(until + offsetAt(transitions, 0) * 60, hourSeconds);
}

/** Returns the first moment after `at` at which the clocks show a full hour. */
function fullHourAfter(transitions: readonly ZoneTransition[], at: number): number {
  let after = at;
  let place = placeOf(transitions, at);
  while (true) {
    const hour = after - remainder(after + offsetAt(transitions, place) * 60, hourSeconds) + hourSeconds;
    const next = transitions[place + 1];
    if (next === undefined || hour < next[0]) return hour;
    // The clocks change before. They may show a full hour right after that.
    if (remainder(next[0] + next[1] * 60, hourSeconds) === 0) return next[0];
    after = next[0];
    place += 1;
  }
}

function datesAround(calendar: Calendar, transitions: readonly ZoneTransition[], now: number): Bounds {
  const begin = (index: number) => momentOf(transitions, firstDay(calendar, index) * daySeconds);
  const shown = now + offsetAt(transitions, placeOf(transitions, now)) * 60;
  let index = indexOf(calendar, Math.floor(shown / daySeconds));
  // Clocks that were put back over midnight show a date that is over. The first day of a year may be taken for one of the year before.
  while (begin(index + 1) <= now) index += 1;
  const start = begin(index);
  // Where clocks skip whole days, windows begin together: those in between are none.
  let before = index - 1;
  while (begin(before) === start) before -= 1;
  const end = begin(index + 1);
  let after = index + 2;
  while (begin(after) === end) after += 1;
  return { previous: begin(before), start, end, nextEnd: begin(after) };
}

/** Returns the first moment at which the clocks show this time or a later one. @param shown seconds since 1970 by the zone's clocks */
function momentOf(transitions: readonly ZoneTransition[], shown: number): number {
  const last = transitions.length - 1;
  for (let place = 0; place < last; place++) {
    const moment = momentIn(transitions, place, shown);
    if (moment < (transitions[place + 1] as ZoneTransition)[0]) return moment;
  }
  return momentIn(transitions, last, shown);
}

function momentIn(transitions: readonly ZoneTransition[], place: number, shown: number): number {
  const moment = shown - offsetAt(transitions, place) * 60;
  return place === 0 ? moment : Math.max(moment, (transitions[place] as ZoneTransition)[0]);
}

function offsetAt(transitions: readonly ZoneTransition[], place: number): number {
  return (transitions[place] as ZoneTransition)[1];
}

/** Returns which of the transitions is in force. Before the first one, its offset is used. */
function placeOf(transitions: readonly ZoneTransition[], at: number): number {
  let place = transitions.length - 1;
  while (place > 0 && (transitions[place] as ZoneTransition)[0] > at) place -= 1;
  return place;
}

/** Numbers the windows. @param day since 1970 @returns the number of the window that this day is in, or of the one before */
function indexOf({ unit, anchor }: Calendar, day: number): number {
  if (unit === "day") return day;
  // 1970 began on a Thursday.
  if (unit === "week") return Math.floor((day + 3 - (anchor - 1)) / 7);
  const { year, month, day: dayOfMonth } = dateOf(day);
  if (unit === "month") {
    const begins = Math.min(anchor, daysIn(year, month));
    return year * 12 + month - 1 - (dayOfMonth < begins ? 1 : 0);
  }
  return day < firstDay({ unit, anchor }, year) ? year - 1 : year;
}

/** Returns the day since 1970 on which a window begins. */
function firstDay({ unit, anchor }: Pick<Calendar, "unit" | "anchor">, index: number): number {
  if (unit === "day") return index;
  if (unit === "week") return index * 7 - 3 + (anchor - 1);
  if (unit === "month") {
    const year = Math.floor(index / 12);
    const month = index - year * 12 + 1;
    return dayNumber(year, month, Math.min(anchor, daysIn(year, month)));
  }
  const month = Math.floor(anchor / 100);
  return dayNumber(index, month, Math.min(anchor - month * 100, daysIn(index, month)));
}

const daysBeforeMonth = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const daysOfMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function daysIn(year: number, month: number): number {
  return (daysOfMonth[month - 1] as number) + (month === 2 && isLeap(year) ? 1 : 0);
}

function isLeap(year: number): boolean {
  return remainder(year, 4) === 0 && (remainder(year, 100) !== 0 || remainder(year, 400) === 0);
}

/** Returns the number of days from 1970 to a date of the Gregorian calendar. */
function dayNumber(year: number, month: number, day: number): number {
  const leapDay = month > 2 && isLeap(year) ? 1 : 0;
  return daysBeforeYear(year) + (daysBeforeMonth[month - 1] as number) + leapDay + day - 1;
}

function daysBeforeYear(year: number): number {
  const before = year - 1;
  const leapDays = Math.floor(before / 4) - Math.floor(before / 100) + Math.floor(before / 400);
  // 477 leap days before 1970.
  return (year - 1970) * 365 + leapDays - 477;
}

/** The first day of a year may be the 32nd of December, and the last one the 0th of January: the window is the same, or the one before. */
function dateOf(day: number): { year: number; month: number; day: number } {
  const year = 1970 + Math.floor(day / 365.2425);
  let month = 12;
  while (month > 1 && dayNumber(year, month, 1) > day) month -= 1;
  return { year, month, day: day - dayNumber(year, month, 1) + 1 };
}

/** `%` of negative numbers differs between Lua and JavaScript. */
function remainder(number: number, divisor: number): number {
  return number - Math.floor(number / divisor) * divisor;
}

function twoDigits(text: string, at: number): number | undefined {
  const tens = text.charCodeAt(at) - 48;
  const ones = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : undefined;
}

// Determines when a policy is on: in windows of the week by the wall clock of a time zone. Neither nginx nor this module knows
// time zones: the control plane sends when the offset of each zone changes (zone-transitions.ts there).

import { emptyTable } from "../basics/table.ts";

export interface Schedule {
  readonly timezone: string;
  readonly windows: readonly ScheduleWindow[];
}

export interface ScheduleWindow {
  readonly days: readonly string[];
  /** For example "09:00". */
  readonly from: string;
  /** Up to "24:00". A time that is not after `from` is on the next day. */
  readonly to: string;
}

/**
 * From this moment on, in seconds since the epoch, the zone's clocks are so many minutes ahead of UTC. Listed in ascending order.
 */
export type ZoneTransition = readonly [fromSeconds: number, offsetMinutes: number];

/** Keyed by the name of the time zone. */
export type Zones = Readonly<Record<string, readonly ZoneTransition[]>>;

/** The name of the zone without changes, which need not be told. */
export const utc = "UTC";
const noChanges: readonly ZoneTransition[] = [[0, 0]];

export function transitionsOf(zones: Zones, timezone: string): readonly ZoneTransition[] {
  return zones[timezone] ?? noChanges;
}

export interface CompiledSchedule {
  readonly transitions: readonly ZoneTransition[];
  /** In seconds of the week, which begins on Monday. No span passes the end of the week. */
  readonly spans: readonly Span[];
}

interface Span {
  readonly from: number;
  readonly to: number;
}

export const days: readonly string[] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const daySeconds = 86_400;
const weekSeconds = 7 * daySeconds;
/** 1970 began on a Thursday. */
const firstMondaySeconds = 4 * daySeconds;

/** @returns minutes since midnight for "00:00" … "24:00", or undefined if the text is not such a time */
export function parseTimeOfDay(text: string): number | undefined {
  if (text.length !== 5 || text.charAt(2) !== ":") return undefined;
  const hours = twoDigits(text.slice(0, 2));
  const minutes = twoDigits(text.slice(3));
  if (hours === undefined || minutes === undefined || minutes > 59) return undefined;
  const whole = hours * 60 + minutes;
  return whole <= 1440 ? whole : undefined;
}

/** @param transitions of the schedule's zone, at least one */
export function compileSchedule(schedule: Schedule, transitions: readonly ZoneTransition[]): CompiledSchedule {
  const dayOf = emptyTable<number>();
  for (let i = 0; i < days.length; i++) dayOf[days[i] as string] = i;
  const spans: Span[] = [];
  for (const window of schedule.windows) {
    const opens = (parseTimeOfDay(window.from) as number) * 60;
    const closes = (parseTimeOfDay(window.to) as number) * 60;
    for (const day of window.days) {
      const from = (dayOf[day] as number) * daySeconds + opens;
      const to = from - opens + closes + (closes <= opens ? daySeconds : 0);
      spans.push({ from, to: Math.min(to, weekSeconds) });
      if (to > weekSeconds) spans.push({ from: 0, to: to - weekSeconds });
    }
  }
  return { transitions, spans };
}

/**
 * Returns whether the zone's clocks show a time within a window. When clocks are put back, the repeated hour is open or closed
 * twice. When they are put forward, the skipped time is in no window.
 */
export function isOpen({ transitions, spans }: CompiledSchedule, nowSeconds: number): boolean {
  const second = secondOfWeek(transitions, nowSeconds);
  for (const { from, to } of spans) {
    if (second >= from && second < to) return true;
  }
  return false;
}

/** Returns the first moment after `nowSeconds` at which `isOpen` may return another result. */
export function nextChangeSeconds({ transitions, spans }: CompiledSchedule, nowSeconds: number): number {
  const second = secondOfWeek(transitions, nowSeconds);
  let wait = weekSeconds - second;
  for (const { from, to } of spans) {
    if (from > second) wait = Math.min(wait, from - second);
    if (to > second) wait = Math.min(wait, to - second);
  }
  let next = nowSeconds + wait;
  for (const [fromSeconds] of transitions) {
    if (fromSeconds > nowSeconds) next = Math.min(next, fromSeconds);
  }
  return next;
}

function secondOfWeek(transitions: readonly ZoneTransition[], nowSeconds: number): number {
  // Before the first transition, the first offset is used.
  let offsetMinutes = (transitions[0] as ZoneTransition)[1];
  for (const [fromSeconds, minutes] of transitions) {
    if (fromSeconds <= nowSeconds) offsetMinutes = minutes;
  }
  const sinceMonday = nowSeconds + offsetMinutes * 60 - firstMondaySeconds;
  return sinceMonday - Math.floor(sinceMonday / weekSeconds) * weekSeconds;
}

function twoDigits(text: string): number | undefined {
  const tens = text.charCodeAt(0) - 48;
  const ones = text.charCodeAt(1) - 48;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : undefined;
}

// calendar-window: a fixed-window of `hour`, `day`, `week`, `month` or `year`: at most `quota` units in each window of the calendar. People
// write it as fixed-window.
//
// The algorithm knows no calendar. A window has the four moments around now at which windows begin, and its store moves them along before
// it decides (`followWindow`). A Redis script gets them from a gateway and decides by its own clock, which may be in the window before or
// after the gateway's.
//
// The head is as in fixed-window: the start of the window that was last charged, and the number of units used in it.

import { type CounterState, clockToleranceUs } from "./counter-state.ts";
import { type Decision, never } from "./decision.ts";
import { admitsInWindow } from "./fixed-window.ts";

export interface CalendarWindow {
  readonly algorithm: "calendar-window";
  readonly quota: number;
  /** The longest that a window lasts, but for changes of the clocks. */
  readonly windowUs: number;
  readonly toleranceUs: number;
  /** When the window before the present one began, when the present one begins and ends, and when the next one ends. */
  previousUs: number;
  startUs: number;
  endUs: number;
  nextEndUs: number;
  /** Moves these four to where `nowUs` is (document/calendar.ts). Absent: they are given. */
  readonly follow?: Follow;
}

export type Follow = (this: void, window: CalendarWindow, nowUs: number) => void;

/** What a decision tells if the end of the window is not known: in Redis, if the clock of a gateway is wrong by more than a window. */
const unknownEndUs = 60_000_000;

export function calendarWindow(quota: number, windowUs: number, follow: Follow): CalendarWindow {
  const toleranceUs = clockToleranceUs(windowUs);
  const nowhere = { previousUs: 0, startUs: 0, endUs: 0, nextEndUs: 0 };
  return { algorithm: "calendar-window", quota, windowUs, toleranceUs, ...nowhere, follow };
}

export function admitsCalendarWindow(limit: CalendarWindow, state: CounterState, nowUs: number, cost: number): boolean {
  return admitsInWindow(limit, state, startOf(limit, state, nowUs), nowUs, cost);
}

export function describeCalendarWindow(
  limit: CalendarWindow,
  state: CounterState,
  nowUs: number,
  cost: number,
  decision: Decision,
): void {
  const openUs = state.nextAtUs;
  const used = state.atUs === openUs ? state.count : 0;
  decision.limit = limit.quota;
  decision.remaining = used < limit.quota ? limit.quota - used : 0;
  decision.resetAfterUs = endAfterUs(limit, Math.max(openUs, nowUs)) - nowUs;
  if (decision.allowed) decision.retryAfterUs = 0;
  else decision.retryAfterUs = cost <= limit.quota ? decision.resetAfterUs : never;
}

/** Makes the window's moments those around `nowUs`. Stores call it before each decision. */
export function followWindow(limit: CalendarWindow, nowUs: number): void {
  if (limit.follow !== undefined && (nowUs < limit.startUs || nowUs >= limit.endUs)) limit.follow(limit, nowUs);
}

/** Returns when the window ends that `atUs` is in. */
export function endAfterUs(limit: CalendarWindow, atUs: number): number {
  if (atUs < limit.previousUs) return limit.previousUs;
  if (atUs < limit.startUs) return limit.startUs;
  if (atUs < limit.endUs) return limit.endUs;
  return atUs < limit.nextEndUs ? limit.nextEndUs : atUs + unknownEndUs;
}

/**
 * Returns when the present window began. If that is not known, what is counted goes on to count, whatever the window, until somebody asks
 * who knows. So the window that is open then gets its quota and, at most, what an earlier one had left.
 */
function startOf(limit: CalendarWindow, state: CounterState, nowUs: number): number {
  if (nowUs >= limit.startUs) {
    if (nowUs < limit.endUs) return limit.startUs;
    if (nowUs < limit.nextEndUs) return limit.endUs;
  } else if (nowUs >= limit.previousUs) {
    return limit.previousUs;
  }
  return state.atUs > 0 && state.atUs <= nowUs ? state.atUs : nowUs;
}

// Charges units that were used already, whether or not the counter has them: the bytes of a response, and what callers report.
//
// The units that the counter has are charged at once. The rest is a debt, which is charged as units come back: the counter moves
// at once to the state that it will have when the last unit is paid, and that state is not in force until then. Until that moment
// every request is refused, and a refusal writes nothing. So no window ever gives more than its quota, and time pays the debt
// whether or not requests come.
//
// A counter that owes is ahead of the clock, and without a debt only a clock that stepped back leaves it there. So whoever decides an ordinary
// request looks for a debt only beside a counter that is ahead: all others cost nothing more.
//
// This works for every algorithm but concurrency. Each limit of a policy has a debt of its own.

import { admitsCalendarWindow, type CalendarWindow, endAfterUs } from "./calendar-window.ts";
import { type CounterState, type Ring, wrap } from "./counter-state.ts";
import { type Decision, emptyDecision, never } from "./decision.ts";
import { admits, charge, describe, type Rate } from "./rate.ts";
import { enterClock, type ShapedBucket, timeAt } from "./shaped-bucket.ts";
import type { SlidingWindow } from "./sliding-window.ts";
import { admitsTokenBucket, type Bucket, overdrawTokenBucket } from "./token-bucket.ts";

/** What a store keeps beside a counter that has a debt. */
export interface Debt {
  /** When the last unit is paid, in µs since the epoch. 0: nothing is owed. */
  paidAtUs: number;
  /** When the debt was made, and under which quota. Edits of the quota and steps of the clock are measured against these. */
  sinceUs: number;
  quota: number;
}

/** In the year 2128. Units that would be paid later are forgiven, so that every time stays below 2^53 µs. */
const latestUs = 5_000_000_000_000_000;
/** Two turns are enough. More are needed only where a store has lost entries of the counter. */
const mostTurns = 4;
/** No zone puts its clocks back by more: a window of the calendar begins at most so much later than its predecessors' lengths say. */
const latestBeginUs = 7_200_000_000;

/**
 * Returns whether the clock stepped back so far that the debt moves with it. Then it is to be saved as a debt that was made now, until
 * `standsFromUs`: otherwise it would begin anew with each request.
 */
export function movesWithClock(rate: Rate, debt: Debt, nowUs: number): boolean {
  return debt.sinceUs - nowUs > rate.toleranceUs;
}

/**
 * Returns the moment from which the counter's state is in force: now, or when the debt will be paid. If the quota was edited, the
 * debt is paid faster or slower. If the clock stepped back, the debt moves with it.
 */
export function standsFromUs(rate: Rate, debt: Debt, nowUs: number): number {
  let owedUs = debt.paidAtUs - debt.sinceUs;
  if (debt.quota !== rate.quota) owedUs = Math.ceil((owedUs / rate.quota) * debt.quota);
  const sinceUs = movesWithClock(rate, debt, nowUs) ? nowUs : debt.sinceUs;
  return Math.max(nowUs, Math.min(sinceUs + owedUs, latestUs));
}

/** Returns whether a debt may lie beside the counter: its state may be one that is not in force yet. */
export function isAhead(rate: Rate, state: CounterState, nowUs: number): boolean {
  const aheadUs = state.atUs - nowUs;
  if (aheadUs <= 0 || rate.algorithm === "concurrency") return false;
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") return aheadUs >= rate.fullUs;
  // The clock of a counter that warms is ahead of time, and never behind it.
  if (rate.algorithm === "shaped-bucket") return aheadUs >= rate.fullUs;
  return true;
}

/**
 * Makes a decision, which was described as of the moment when the debt is paid, the one of now.
 *
 * @param unpaidUs how long that takes
 */
export function refuseUnpaid(decision: Decision, unpaidUs: number): void {
  decision.allowed = false;
  decision.remaining = 0;
  decision.delayUs = 0;
  if (decision.retryAfterUs !== never) decision.retryAfterUs += unpaidUs;
  decision.resetAfterUs += unpaidUs;
}

/**
 * Returns whether a request whose charge is deferred may go on: nothing is owed and at least one unit is available. Charges
 * nothing; if the clock `stepped`, the state must be saved.
 *
 * @param fromUs the result of `standsFromUs`
 * @param decision is filled
 */
export function admitsWithDebt(
  rate: Rate,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  fromUs: number,
  decision: Decision,
): boolean {
  const allowed = admits(rate, state, ring, fromUs, 1);
  describe(rate, state, ring, fromUs, 1, allowed, decision);
  if (fromUs > nowUs) refuseUnpaid(decision, fromUs - nowUs);
  return decision.allowed;
}

/**
 * Charges `units`, whether or not they are available.
 *
 * @param fromUs the result of `standsFromUs`
 * @param units 1 or more
 * @returns the moment from which the counter's state is in force now: later than `fromUs` if something is owed
 */
export function chargeDeferred(rate: Rate, state: CounterState, ring: Ring, fromUs: number, units: number): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return chargeBucketDeferred(rate, state, fromUs, units);
  }
  if (rate.algorithm === "shaped-bucket") return chargeShapedDeferred(rate, state, ring, fromUs, units);
  if (rate.algorithm === "calendar-window") return chargeCalendarDeferred(rate, state, fromUs, units);
  const periodUs = rate.algorithm === "fixed-window" ? rate.windowUs : (rate.ticks + 1) * rate.tickUs;
  const decision = emptyDecision();
  let atUs = fromUs;
  let owed = units;
  for (let turn = 0; turn < mostTurns && owed > 0; turn++) {
    describe(rate, state, ring, atUs, 1, admits(rate, state, ring, atUs, 1), decision);
    const taken = Math.min(owed, decision.remaining);
    if (taken > 0 && admits(rate, state, ring, atUs, taken)) {
      charge(rate, state, ring);
      owed -= taken;
    }
    if (owed > 0) {
      // The counter is full. One period later all its units have come back, each in its turn, and have been charged again for the
      // debt.
      const periods = wholeTurns(owed, rate.quota, latestUs - atUs, periodUs);
      state.atUs += periods * periodUs;
      if (rate.algorithm !== "fixed-window") moveEntries(rate, state, periods);
      atUs += periods * periodUs;
      owed = Math.min(owed - periods * rate.quota, rate.quota);
      describe(rate, state, ring, atUs, owed, admits(rate, state, ring, atUs, owed), decision);
      atUs += decision.retryAfterUs;
    }
  }
  return Math.min(atUs, latestUs);
}

/**
 * Charges units that requests took without asking the counter: as many as are available. A bucket also charges what refills
 * within its clock tolerance.
 *
 * @param units 1 or more
 * @returns how many were charged
 */
export function chargeUpTo(rate: Rate, state: CounterState, ring: Ring, nowUs: number, units: number): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return overdrawTokenBucket(rate, state, nowUs, units);
  }
  if (rate.algorithm === "shaped-bucket") {
    return overdrawTokenBucket(rate, state, enterClock(rate, state, ring, nowUs), units);
  }
  const decision = emptyDecision();
  describe(rate, state, ring, nowUs, 1, admits(rate, state, ring, nowUs, 1), decision);
  const taken = Math.min(units, decision.remaining);
  if (taken < 1 || !admits(rate, state, ring, nowUs, taken)) return 0;
  charge(rate, state, ring);
  return taken;
}

/** A bucket may owe more than it holds. It pays as it refills, exact to the fraction of a unit. */
function chargeBucketDeferred(rate: Bucket, state: CounterState, fromUs: number, units: number): number {
  const { quota, windowUs, fullUs, fullRest } = rate;
  const windows = wholeTurns(units, quota, latestUs - fromUs, windowUs);
  admitsTokenBucket(rate, state, fromUs, Math.min(units - windows * quota, quota));
  state.atUs = state.nextAtUs + windows * windowUs;
  state.count = state.nextCount;
  // A started µs counts as a whole one.
  const waitUs = state.atUs - fromUs - fullUs + Math.ceil((state.count - fullRest) / quota);
  return Math.min(fromUs + Math.max(waitUs, 0), latestUs);
}

function chargeShapedDeferred(
  rate: ShapedBucket,
  state: CounterState,
  ring: Ring,
  fromUs: number,
  units: number,
): number {
  const paidAtUs = chargeBucketDeferred(rate, state, enterClock(rate, state, ring, fromUs), units);
  return Math.min(timeAt(state, ring, paidAtUs), latestUs);
}

/**
 * Windows of the calendar differ in length, and only those around now are known. A debt that reaches further is paid as if all further
 * windows were as long as the longest: in the right window, some days after it began, or in a later one.
 */
function chargeCalendarDeferred(rate: CalendarWindow, state: CounterState, fromUs: number, units: number): number {
  const { quota, windowUs, nextEndUs } = rate;
  admitsCalendarWindow(rate, state, fromUs, 1);
  const openUs = state.nextAtUs;
  const used = state.atUs === openUs ? state.count : 0;
  const taken = Math.min(units, Math.max(quota - used, 0));
  let owed = units - taken;
  state.atUs = openUs;
  state.count = used + taken;
  if (owed === 0) return fromUs;
  // A debt that is not paid in the windows that are known goes on from where it ends.
  const isKnown = fromUs < nextEndUs;
  let beginsUs = isKnown ? endAfterUs(rate, Math.max(openUs, fromUs)) : openUs;
  while (owed > quota && beginsUs < nextEndUs) {
    owed -= quota;
    beginsUs = endAfterUs(rate, beginsUs);
  }
  const whole = wholeTurns(owed, quota, latestUs - beginsUs, windowUs);
  const windows = isKnown ? whole : whole + 1;
  // What goes on from an unknown window is late already.
  const lateUs = windows > 0 && beginsUs === nextEndUs ? Math.min(latestBeginUs, windowUs / 2) : 0;
  state.atUs = Math.max(beginsUs + windows * windowUs + lateUs, fromUs);
  state.count = Math.min(owed - whole * quota, quota);
  return Math.min(state.atUs, latestUs);
}

/**
 * Returns how often a whole `quota` is paid before the last 1 to `quota` of these units, but no more often than fits into
 * `mostUs`.
 */
function wholeTurns(units: number, quota: number, mostUs: number, turnUs: number): number {
  return Math.max(Math.min(Math.floor((units - 1) / quota), Math.floor(mostUs / turnUs)), 0);
}

/** Keeps the age of the entries when the newest tick moves ahead by so many periods. */
function moveEntries(rate: SlidingWindow, state: CounterState, periods: number): void {
  const offset = state.offset - ((periods * (rate.ticks + 1)) % wrap);
  state.offset = offset < 0 ? offset + wrap : offset;
}

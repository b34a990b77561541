// Settles what a request took when that is known only after it went on: the bytes of its response.
//
// What the counter has is charged at once. What it does not have is a debt: it is charged as it comes, so the counter is
// brought at once to the state that it has when the last unit is paid, and stands for nobody until then. Until that moment
// every request is refused, and writes nothing. No window ever gives more than its quota, and time pays whether anyone
// asks or not.
//
// Of token-bucket, fixed-window, sliding-window and sliding-log. Of a policy's limits each has a debt of its own.

import { type CounterState, type Ring, wrap } from "./counter-state.ts";
import { type Decision, emptyDecision } from "./decision.ts";
import { admits, charge, describe, type Rate } from "./rate.ts";
import type { SlidingWindow } from "./sliding-window.ts";
import { admitsTokenBucket, type Bucket, overdrawTokenBucket } from "./token-bucket.ts";

/** What a store keeps beside a counter that owes. */
export interface Debt {
  /** The moment in which the last unit is paid, in µs since the epoch; 0: nothing is owed. */
  paidAtUs: number;
  /** When it was made, and under which quota: what edits and clocks that step are measured by. */
  sinceUs: number;
  quota: number;
}

/** In the year 2128. What would be paid later is forgiven, so that every moment stays below 2^53 µs. */
const latestUs = 5_000_000_000_000_000;
/** Two are enough; more only where a store has lost entries of the counter. */
const mostTurns = 4;

/**
 * The moment from which the counter stands for itself: now, or when it will have paid. A quota that was edited pays what is
 * left faster or slower; a clock that stepped back takes the debt with it.
 */
export function standsFromUs(rate: Rate, debt: Debt, nowUs: number): number {
  let owedUs = debt.paidAtUs - debt.sinceUs;
  if (debt.quota !== rate.quota) owedUs = Math.ceil((owedUs / rate.quota) * debt.quota);
  const sinceUs = debt.sinceUs - nowUs > rate.toleranceUs ? nowUs : debt.sinceUs;
  return Math.max(nowUs, Math.min(sinceUs + owedUs, latestUs));
}

/**
 * Whether a request may go on whose units are settled later: nothing is owed and one unit at least is there. Charges nothing;
 * where the clock `stepped`, the state is to be saved.
 *
 * @param fromUs what `standsFromUs` says
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
  if (fromUs > nowUs) {
    decision.allowed = false;
    decision.remaining = 0;
    decision.retryAfterUs += fromUs - nowUs;
    decision.resetAfterUs += fromUs - nowUs;
  }
  return decision.allowed;
}

/**
 * Charges `units`, whether they are there or not.
 *
 * @param fromUs what `standsFromUs` says
 * @param units 1 or more
 * @returns the moment from which the counter stands for itself now: later than `fromUs` where something is owed
 */
export function chargeDeferred(rate: Rate, state: CounterState, ring: Ring, fromUs: number, units: number): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return chargeBucketDeferred(rate, state, fromUs, units);
  }
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
      // The counter is full. A period later all of it has come back, each unit in its turn, and was paid anew.
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
 * Charges units that requests took while the counter was not asked: as many of them as there are, and of a bucket what refills
 * within its clock's tolerance as well.
 *
 * @param units 1 or more
 * @returns how many were charged
 */
export function chargeUpTo(rate: Rate, state: CounterState, ring: Ring, nowUs: number, units: number): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return overdrawTokenBucket(rate, state, nowUs, units);
  }
  const decision = emptyDecision();
  describe(rate, state, ring, nowUs, 1, admits(rate, state, ring, nowUs, 1), decision);
  const taken = Math.min(units, decision.remaining);
  if (taken < 1 || !admits(rate, state, ring, nowUs, taken)) return 0;
  charge(rate, state, ring);
  return taken;
}

/** A bucket may owe more than it holds: it pays as it refills, to the fraction of a unit. */
function chargeBucketDeferred(rate: Bucket, state: CounterState, fromUs: number, units: number): number {
  const { quota, windowUs, fullUs, fullRest } = rate;
  const windows = wholeTurns(units, quota, latestUs - fromUs, windowUs);
  admitsTokenBucket(rate, state, fromUs, Math.min(units - windows * quota, quota));
  state.atUs = state.nextAtUs + windows * windowUs;
  state.count = state.nextCount;
  // A started µs counts whole.
  const waitUs = state.atUs - fromUs - fullUs + Math.ceil((state.count - fullRest) / quota);
  return Math.min(fromUs + Math.max(waitUs, 0), latestUs);
}

/** How many times `quota` is paid before the last 1 to `quota` of these units, as far as `mostUs` goes. */
function wholeTurns(units: number, quota: number, mostUs: number, turnUs: number): number {
  return Math.max(Math.min(Math.floor((units - 1) / quota), Math.floor(mostUs / turnUs)), 0);
}

/** The entries stay as old as they are where the newest tick moves ahead by so many periods. */
function moveEntries(rate: SlidingWindow, state: CounterState, periods: number): void {
  const offset = state.offset - ((periods * (rate.ticks + 1)) % wrap);
  state.offset = offset < 0 ? offset + wrap : offset;
}

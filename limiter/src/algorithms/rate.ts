// The single entry to all algorithms: it applies a limit of a policy to a counter's state.

import { admitsCalendarWindow, type CalendarWindow, describeCalendarWindow } from "./calendar-window.ts";
import { concurrency } from "./concurrency.ts";
import type { CounterState, Ring } from "./counter-state.ts";
import type { Decision } from "./decision.ts";
import {
  admitsFixedWindow,
  describeFixedWindow,
  type FixedWindow,
  fixedWindow,
  refundFixedWindow,
} from "./fixed-window.ts";
import { type LeakyBucket, leakyBucket, leakyBucketDelayUs } from "./leaky-bucket.ts";
import type { Limit } from "./limit.ts";
import {
  admitsShapedBucket,
  describeShapedBucket,
  needsBeginning,
  refundShapedBucket,
  type ShapedBucket,
  shapedBucket,
} from "./shaped-bucket.ts";
import { slidingLog } from "./sliding-log.ts";
import {
  admitsSliding,
  chargeSliding,
  describeSliding,
  needsRing,
  refundSliding,
  type SlidingWindow,
  slidingLifetimeUs,
  slidingWindow,
} from "./sliding-window.ts";
import {
  admitsTokenBucket,
  describeTokenBucket,
  refundTokenBucket,
  type TokenBucket,
  tokenBucket,
} from "./token-bucket.ts";

/** A limit that is prepared for deciding. */
export type Rate = TokenBucket | LeakyBucket | FixedWindow | SlidingWindow | CalendarWindow | ShapedBucket;

export function rateOf(limit: Omit<Limit, "name">): Rate {
  const { algorithm, quota, windowUs, burst, initial, warmUpUs } = limit;
  if (algorithm === "token-bucket" && (initial !== undefined || warmUpUs !== undefined)) {
    return shapedBucket(quota, windowUs, burst, initial ?? burst, warmUpUs ?? 0);
  }
  return unshapedRateOf(limit);
}

/** Does the same for a limit with neither `initial` nor `warmUp`. */
export function unshapedRateOf({
  algorithm,
  quota,
  windowUs,
  burst,
  precisionUs,
}: Omit<Limit, "name" | "initial" | "warmUpUs">): Rate {
  if (algorithm === "token-bucket") return tokenBucket(quota, windowUs, burst);
  if (algorithm === "fixed-window") return fixedWindow(quota, windowUs);
  if (algorithm === "leaky-bucket") return leakyBucket(quota, windowUs, burst);
  if (algorithm === "sliding-window") return slidingWindow(quota, windowUs, precisionUs);
  if (algorithm === "sliding-log") return slidingLog(quota, windowUs);
  return concurrency(quota, windowUs);
}

/** Returns whether a request of `cost` may go on. Charges nothing. @param nowUs µs since the epoch */
export function admits(rate: Rate, state: CounterState, ring: Ring, nowUs: number, cost: number): boolean {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return admitsTokenBucket(rate, state, nowUs, cost);
  }
  if (rate.algorithm === "fixed-window") return admitsFixedWindow(rate, state, nowUs, cost);
  if (rate.algorithm === "calendar-window") return admitsCalendarWindow(rate, state, nowUs, cost);
  if (rate.algorithm === "shaped-bucket") return admitsShapedBucket(rate, state, ring, nowUs, cost);
  return admitsSliding(rate, state, ring, nowUs, cost);
}

/** Charges the request that `admits` has just admitted. */
export function charge(rate: Rate, state: CounterState, ring: Ring): void {
  if (slides(rate)) {
    chargeSliding(rate, state, ring);
  } else {
    state.atUs = state.nextAtUs;
    state.count = state.nextCount;
  }
}

/**
 * Refunds what a charge of `cost` took.
 *
 * @param chargedAtUs the state's `atUs` right after that charge
 */
export function refund(
  rate: Rate,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  chargedAtUs: number,
  cost: number,
): void {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    refundTokenBucket(rate, state, nowUs, chargedAtUs, cost);
  } else if (rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window") {
    refundFixedWindow(state, chargedAtUs, cost);
  } else if (rate.algorithm === "shaped-bucket") {
    refundShapedBucket(rate, state, ring, nowUs, chargedAtUs, cost);
  } else {
    refundSliding(rate, state, ring, chargedAtUs, cost);
  }
}

/** Fills `decision` for the request that `admits` has just decided, before or after it is charged. */
export function describe(
  rate: Rate,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  cost: number,
  allowed: boolean,
  decision: Decision,
): void {
  decision.allowed = allowed;
  decision.delayUs = 0;
  if (rate.algorithm === "token-bucket") {
    describeTokenBucket(rate, state, nowUs, cost, decision);
  } else if (rate.algorithm === "fixed-window") {
    describeFixedWindow(rate, state, nowUs, cost, decision);
  } else if (rate.algorithm === "leaky-bucket") {
    describeTokenBucket(rate, state, nowUs, cost, decision);
    if (allowed) decision.delayUs = leakyBucketDelayUs(rate, state, nowUs, cost);
  } else if (rate.algorithm === "calendar-window") {
    describeCalendarWindow(rate, state, nowUs, cost, decision);
  } else if (rate.algorithm === "shaped-bucket") {
    describeShapedBucket(rate, state, ring, nowUs, cost, decision);
  } else {
    describeSliding(rate, state, ring, nowUs, cost, decision);
  }
}

/** Returns whether counters of this rate have a ring of entries beside the head. */
export function keepsEntries(rate: Rate): rate is SlidingWindow | ShapedBucket {
  // The comparisons come in the order of `admits`, so that LuaJIT does not repeat those that it has made there.
  return !(
    rate.algorithm === "token-bucket" ||
    rate.algorithm === "leaky-bucket" ||
    rate.algorithm === "fixed-window" ||
    rate.algorithm === "calendar-window"
  );
}

/** Returns whether the entries are those of a sliding algorithm. */
export function slides(rate: Rate): rate is SlidingWindow {
  return keepsEntries(rate) && rate.algorithm !== "shaped-bucket";
}

/** Returns whether deciding needs entries. A store that keeps them apart from the head need not fetch them otherwise. */
export function needsEntries(rate: Rate, state: CounterState, nowUs: number, cost: number): boolean {
  if (!keepsEntries(rate)) return false;
  return rate.algorithm === "shaped-bucket" ? needsBeginning(rate) : needsRing(rate, state, nowUs, cost);
}

/** Returns the most units that can be had at once. */
export function capacity(rate: Rate): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") return rate.burst;
  return rate.algorithm === "shaped-bucket" ? rate.burst : rate.quota;
}

/** Returns the burst or the precision that the rate was made with, whichever its algorithm has; else 0. */
export function sizeOf(rate: Rate): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "shaped-bucket") return rate.burst;
  if (rate.algorithm === "leaky-bucket") return rate.burst - 1;
  return rate.algorithm === "sliding-window" ? rate.tickUs : 0;
}

/** Returns after how many µs an untouched counter is like one that was never used. A store must keep it for so long. */
export function lifetimeUs(rate: Rate, state: CounterState, nowUs: number): number {
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    return Math.max(state.atUs - nowUs, 0) + 1;
  }
  // A window is kept for the length of a second one, so that it is still there when the clock steps back over a border. One that is ahead owes.
  if (rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window") {
    return Math.max(state.atUs - nowUs, 0) + rate.windowUs * 2;
  }
  // A full one is not like one that was never used. Its own clock is never behind time, so it is full by then.
  if (rate.algorithm === "shaped-bucket") return Math.max(state.atUs - nowUs, 0) + 1 + rate.idleUs;
  return slidingLifetimeUs(rate, state, nowUs);
}

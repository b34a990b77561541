// Computes a node's share of a limit, and the state in which it begins when Redis no longer decides. Where the node knows that Redis has just
// been counting, the share does not begin full, but as if the node had used it evenly until then. So a bucket begins empty and
// refills at the share's rate, and the units of a sliding window come back as a full one's would.
//
// The bound: once Redis is known to have nothing left, a share with quota q in a window w admits at most q × t ÷ w in any time t
// from then on. The rule looks only at the share's counter and at the last reply of Redis, so it may be applied before every
// decision. When one outage ends and another begins, the share begins again where Redis left off.

import type { CounterState, Ring } from "./counter-state.ts";
import { leakyBucket } from "./leaky-bucket.ts";
import { admits, capacity, charge, keepsEntries, type Rate } from "./rate.ts";
import { beginShapedBucket, clockOf, type ShapedBucket, shapedBucket } from "./shaped-bucket.ts";
import { type SlidingWindow, slidingOf } from "./sliding-window.ts";
import { type Bucket, owesAtLeast, tokenBucket } from "./token-bucket.ts";

/** What a node knows of a counter in Redis, by the node's own clock, in µs since the epoch. */
export interface LastKnown {
  /** When Redis last counted. */
  readonly atUs: number;
  /** Redis has nothing to give before this time; 0 if it did not say so. */
  readonly nothingUntilUs: number;
  /** Names of the policy's limits that this applies to. Undefined: all of them. */
  readonly limits: readonly string[] | undefined;
}

/**
 * Returns one of `shares` equal shares of a rate: what a node may admit alone while Redis does not decide. The share of a fixed
 * window is a bucket that holds and refills as much, because a short outage that touches two windows would give one share for
 * each.
 *
 * @param cost what one request takes; a share has room for at least one request, or it would refuse them all
 */
export function shareOf(rate: Rate, shares: number, cost: number): Rate {
  const share = Math.floor(rate.quota / shares);
  const quota = Math.max(1, share);
  const burst = Math.max(cost, Math.floor(capacity(rate) / shares));
  switch (rate.algorithm) {
    case "token-bucket":
      return remembering(tokenBucket(quota, rate.windowUs, burst), rate.fullUs, shares);
    case "fixed-window":
    case "calendar-window":
      return remembering(tokenBucket(quota, rate.windowUs, burst), rate.windowUs, shares);
    case "shaped-bucket": {
      const initial = Math.floor(rate.initial / shares);
      return remembering(shapedBucket(quota, rate.windowUs, burst, initial, rate.warmUpUs), rate.fullUs, shares);
    }
    case "leaky-bucket":
      return remembering(leakyBucket(quota, rate.windowUs, burst - 1), rate.fullUs, shares);
    default:
      return slidingOf(rate.algorithm, Math.max(cost, share), rate.windowUs, rate.tickUs, rate.ticks);
  }
}

/**
 * Makes a bucket take no debt for that of a clock which stepped back if another share of the same counter may owe it: a share has as much burst
 * as the request costs, and plans have shares that are rounded otherwise. No share of a limit that fills in `fullUs` owes more than
 * twice as much for each gateway, because its quota is rounded down to half at most.
 */
function remembering<Share extends Bucket>(share: Share, fullUs: number, shares: number): Share {
  const mutable = share as { -readonly [Name in keyof Bucket]: Bucket[Name] };
  if (shares > 1) mutable.toleranceUs += Math.max(2 * shares * (fullUs + 1) - share.fullUs, 0);
  return share;
}

/** A window that is used evenly is represented by this many charges. */
const moments = 10;

/**
 * Brings a share that has not begun into its first state.
 *
 * @param rate a share of the limit, as `shareOf` makes it
 * @param state the share's counter, completely loaded
 * @returns whether the state has changed and must be saved
 */
export function beginShare(rate: Rate, state: CounterState, ring: Ring, known: LastKnown, nowUs: number): boolean {
  // Redis has nothing until `nothingUntilUs`. So its state is known until then, although it was not asked again.
  const untilUs = Math.min(Math.max(known.atUs, known.nothingUntilUs), nowUs);
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    const { atUs, count } = state;
    owesAtLeast(rate, state, untilUs, rate.burst);
    return state.atUs !== atUs || state.count !== count;
  }
  if (rate.algorithm === "shaped-bucket") return beginShapedShare(rate, state, ring, untilUs);
  // Slots come back with the requests that hold them. The share of a window that is fixed is a bucket.
  if (rate.algorithm === "concurrency" || !keepsEntries(rate)) return false;
  if (isBegun(rate, state, untilUs)) return false;
  useEvenly(rate, state, ring, untilUs);
  return true;
}

/** A share that has not begun is cold: how warm the counter in Redis was is not known here. */
function beginShapedShare(rate: ShapedBucket, state: CounterState, ring: Ring, untilUs: number): boolean {
  const { atUs, count } = state;
  if (atUs === 0 && count === 0) beginShapedBucket(rate, state, ring, untilUs, 0);
  else owesAtLeast(rate, state, clockOf(state, ring, untilUs), rate.burst);
  return state.atUs !== atUs || state.count !== count;
}

/**
 * Returns whether the share has begun, or was used later. In the tick of `untilUs` a share that has begun has nothing left; fewer
 * units used in that tick are from before.
 */
function isBegun({ tickUs, quota }: SlidingWindow, { atUs, count }: CounterState, untilUs: number): boolean {
  const tickAtUs = untilUs - (untilUs % tickUs);
  return atUs > tickAtUs ? count > 0 : atUs === tickAtUs && count >= quota;
}

function useEvenly(rate: SlidingWindow, state: CounterState, ring: Ring, untilUs: number): void {
  state.atUs = 0;
  state.count = 0;
  state.first = 0;
  state.length = 0;
  state.start = 0;
  state.offset = 0;
  for (let moment = 1; moment <= moments; moment++) {
    const used = Math.floor((rate.quota * moment) / moments) - Math.floor((rate.quota * (moment - 1)) / moments);
    const atUs = untilUs - Math.floor((rate.windowUs * (moments - moment)) / moments);
    if (used > 0 && admits(rate, state, ring, atUs, used)) charge(rate, state, ring);
  }
}

// Where a node's share of a limit begins, when Redis does not decide any more: not full, where the node knows that Redis has
// just been counting, but as if the node had used it evenly until then. So a bucket is empty and refills at the share's rate,
// and what a sliding window has comes back as a full one's would.
//
// The bound: once Redis was heard to have nothing, a share with quota q in a window w admits at most q × t ÷ w in any time t
// from then on. The rule looks at the share's counter and at what was heard last, so it may be applied before every decision:
// an outage that ends and begins again begins where Redis left off again.

import type { CounterState, Ring } from "./counter-state.ts";
import { admits, charge, type Rate } from "./rate.ts";
import type { SlidingWindow } from "./sliding-window.ts";
import { owesAtLeast } from "./token-bucket.ts";

/** What a node knows of a counter in Redis, by its own clock, in µs since the epoch. */
export interface LastKnown {
  /** Redis counted then. */
  readonly atUs: number;
  /** It has nothing to give before; 0 where it did not say so. */
  readonly nothingUntilUs: number;
  /** By name, the limits of the policy of which this is known; undefined: all of them. */
  readonly limits: readonly string[] | undefined;
}

/** A window that was used evenly was used in so many moments. */
const moments = 10;

/**
 * @param rate a share of the limit's, as `shareOf` makes it
 * @param state of the share's counter, there whole
 * @returns whether it has changed, and is to be saved
 */
export function beginShare(rate: Rate, state: CounterState, ring: Ring, known: LastKnown, nowUs: number): boolean {
  // What Redis did not have is known of the time until then as well, though it was not asked.
  const untilUs = Math.min(Math.max(known.atUs, known.nothingUntilUs), nowUs);
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    const { atUs, count } = state;
    owesAtLeast(rate, state, untilUs, rate.burst);
    return state.atUs !== atUs || state.count !== count;
  }
  // Slots that requests hold come back with them. Of a fixed window the share is a bucket.
  if (rate.algorithm === "concurrency" || rate.algorithm === "fixed-window") return false;
  if (isBegun(rate, state, untilUs)) return false;
  useEvenly(rate, state, ring, untilUs);
  return true;
}

/** Whether the share has been used since. In the tick that it begins in it has nothing: what was used there is from before. */
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

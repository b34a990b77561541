// Where a node's share of a limit begins, when Redis does not decide any more: not full, where the node knows that Redis has
// just been counting, but as if the node had used it evenly until then. So a bucket is empty and refills at the share's rate,
// what a sliding window has comes back as a full one's would, and of a fixed window there is what the rest of it is worth.
//
// The rule looks at the share's counter and at what was heard last, so it may be applied before every decision: it takes
// units away and never gives any. An outage that ends and begins again begins where Redis left off again.

import type { CounterState, Ring } from "./algorithms/counter-state.ts";
import { admits, charge, type Rate } from "./algorithms/rate.ts";
import type { SlidingWindow } from "./algorithms/sliding-window.ts";
import { owesAtLeast } from "./algorithms/token-bucket.ts";
import { multiplyDivide } from "./algorithms/wide-multiply.ts";

/** What a node knows of a counter in Redis, by its own clock, in µs since the epoch. */
export interface LastHeard {
  /** Redis counted then. */
  readonly atUs: number;
  /** It has nothing to give before; 0 where it did not say so. */
  readonly nothingUntilUs: number;
}

/** A window that was used evenly was used in so many moments. */
const moments = 10;

/**
 * @param rate a share of the limit's
 * @param state of the share's counter, there whole
 * @returns whether it has changed, and is to be saved
 */
export function beginShare(rate: Rate, state: CounterState, ring: Ring, heard: LastHeard, nowUs: number): boolean {
  const heardAtUs = Math.min(heard.atUs, nowUs);
  if (rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket") {
    const { atUs, count } = state;
    owesAtLeast(rate, state, heardAtUs, rate.burst);
    return state.atUs !== atUs || state.count !== count;
  }
  if (rate.algorithm === "fixed-window") {
    const startUs = nowUs - (nowUs % rate.windowUs);
    const endUs = startUs + rate.windowUs;
    if (heardAtUs < startUs || state.atUs > startUs) return false;
    // The node's clock and Redis' are not the same.
    const isUsedUp = heard.nothingUntilUs >= endUs - rate.toleranceUs;
    const left = isUsedUp ? 0 : multiplyDivide(rate.quota, endUs - heardAtUs, rate.windowUs).quotient;
    const used = rate.quota - left;
    if (state.atUs === startUs && state.count >= used) return false;
    state.atUs = startUs;
    state.count = used;
    return true;
  }
  // Slots that requests hold come back with them.
  if (rate.algorithm === "concurrency" || isBegun(rate, state, heardAtUs)) return false;
  useEvenly(rate, state, ring, heardAtUs);
  return true;
}

/** Whether the share has been used since. */
function isBegun({ tickUs }: SlidingWindow, { atUs, count }: CounterState, heardAtUs: number): boolean {
  return count > 0 && atUs >= heardAtUs - (heardAtUs % tickUs);
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

// An operator's gift: units that were taken and still count are given back, whoever took them, and never more than that. The
// newest are first, since the oldest come back soonest by themselves.
//
// Not for concurrency, whose slots are held by requests, nor for what is owed: see settlement.ts.

import type { CounterState, Ring } from "./counter-state.ts";
import { refundFixedWindow } from "./fixed-window.ts";
import { admits, keepsEntries, type Rate } from "./rate.ts";
import { takeNewest } from "./sliding-window.ts";
import { refundTokenBucket } from "./token-bucket.ts";

/** @param state is there whole, and is to be saved @param units 1 or more */
export function topUp(rate: Rate, state: CounterState, ring: Ring, nowUs: number, units: number): void {
  // Drops what counts no longer, and follows a clock that stepped back.
  admits(rate, state, ring, nowUs, 1);
  if (keepsEntries(rate)) {
    takeNewest(state, ring, units);
  } else if (rate.algorithm === "fixed-window") {
    if (state.atUs === state.nextAtUs) refundFixedWindow(state, state.atUs, units);
  } else {
    refundTokenBucket(rate, state, nowUs, state.atUs, Math.min(units, rate.burst));
  }
}

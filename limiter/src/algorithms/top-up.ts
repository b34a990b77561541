// An operator returns units to a counter: units that were taken and still count are refunded, whoever took them, and never more
// than that. The newest come first, since the oldest come back soonest by themselves.
//
// This is not for concurrency, whose slots are held by requests, nor for debts: see deferred-charge.ts.

import type { CounterState, Ring } from "./counter-state.ts";
import { refundFixedWindow } from "./fixed-window.ts";
import { admits, type Rate, slides } from "./rate.ts";
import { refundShapedBucket } from "./shaped-bucket.ts";
import { takeNewest } from "./sliding-window.ts";
import { refundTokenBucket } from "./token-bucket.ts";

/** @param state completely loaded, and to be saved @param units 1 or more */
export function topUp(rate: Rate, state: CounterState, ring: Ring, nowUs: number, units: number): void {
  // Drops what no longer counts, and follows a clock that stepped back.
  admits(rate, state, ring, nowUs, 1);
  if (slides(rate)) {
    takeNewest(state, ring, units);
  } else if (rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window") {
    if (state.atUs === state.nextAtUs) refundFixedWindow(state, state.atUs, units);
  } else if (rate.algorithm === "shaped-bucket") {
    refundShapedBucket(rate, state, ring, nowUs, state.atUs, Math.min(units, rate.burst));
  } else {
    refundTokenBucket(rate, state, nowUs, state.atUs, Math.min(units, rate.burst));
  }
}

// All-or-nothing charging: either every counter of a request is charged, or none is.

import { type CounterState, emptyState, type Ring } from "./counter-state.ts";
import type { Decision } from "./decision.ts";
import { refuseUnpaid } from "./deferred-charge.ts";
import { admits, charge, describe, type Rate } from "./rate.ts";

/** A counter while a request is decided: its stored state, its rate, and the cost of the request. */
export interface Counter extends CounterState {
  rate: Rate;
  cost: number;
  /** For how long the counter owes units, in µs: it admits nothing until then (deferred-charge.ts). */
  unpaidUs: number;
  /** True if this counter alone admits the request. */
  allowed: boolean;
}

/** Returns a counter with nothing stored yet. */
export function newCounter(rate: Rate, cost: number): Counter {
  const counter = emptyState() as Counter;
  counter.rate = rate;
  counter.cost = cost;
  counter.unpaidUs = 0;
  counter.allowed = true;
  return counter;
}

/**
 * Returns whether all of the first `count` counters admit the request, and sets `allowed` of each. It charges nothing, so calling
 * it alone is a peek.
 *
 * @param nowUs µs since the epoch
 */
export function admitsAll(counters: readonly Counter[], count: number, ring: Ring, nowUs: number): boolean {
  let all = true;
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    counter.stepped = false;
    counter.allowed = admits(counter.rate, counter, ring, nowUs + counter.unpaidUs, counter.cost);
    if (counter.unpaidUs > 0) counter.allowed = false;
    if (!counter.allowed) all = false;
  }
  return all;
}

/** Fills `decision` for a counter that `admitsAll` has decided. */
export function describeCounter(counter: Counter, ring: Ring, nowUs: number, cost: number, decision: Decision): void {
  const { rate, unpaidUs } = counter;
  if (unpaidUs === 0) {
    describe(rate, counter, ring, nowUs, cost, counter.allowed, decision);
  } else {
    // The decision of that moment says how long the request has to wait.
    const atUs = nowUs + unpaidUs;
    const admitted = admits(rate, counter, ring, atUs, cost);
    describe(rate, counter, ring, atUs, cost, admitted, decision);
    refuseUnpaid(decision, unpaidUs);
  }
}

/** Charges the first `count` counters and returns true; or charges none and returns false. */
export function chargeAll(counters: readonly Counter[], count: number, ring: Ring, nowUs: number): boolean {
  if (!admitsAll(counters, count, ring, nowUs)) return false;
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    charge(counter.rate, counter, ring);
  }
  return true;
}

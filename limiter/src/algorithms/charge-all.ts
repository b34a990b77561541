// All-or-nothing charging: either every counter of a request is charged, or none is.

import { type CounterState, emptyState, type Ring } from "./counter-state.ts";
import { admits, charge, type Rate } from "./rate.ts";

/** A counter while a request is decided: its stored state, its rate, and the cost of the request. */
export interface Counter extends CounterState {
  rate: Rate;
  cost: number;
  /** True if this counter alone admits the request. */
  allowed: boolean;
}

/** Returns a counter with nothing stored yet. */
export function newCounter(rate: Rate, cost: number): Counter {
  const counter = emptyState() as Counter;
  counter.rate = rate;
  counter.cost = cost;
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
    counter.allowed = admits(counter.rate, counter, ring, nowUs, counter.cost);
    if (!counter.allowed) all = false;
  }
  return all;
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

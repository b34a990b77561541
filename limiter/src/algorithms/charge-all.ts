// All-or-nothing: of the counters that one request is held to, every one is charged or none is.

import { type CounterState, emptyState, type Ring } from "./counter-state.ts";
import { admits, charge, type Rate } from "./rate.ts";

/** A counter at the moment of deciding: its stored state, and what the request asks of it. */
export interface Counter extends CounterState {
  rate: Rate;
  cost: number;
  /** What this counter alone said. */
  allowed: boolean;
}

/** A counter of which nothing is stored yet. */
export function newCounter(rate: Rate, cost: number): Counter {
  const counter = emptyState() as Counter;
  counter.rate = rate;
  counter.cost = cost;
  counter.allowed = true;
  return counter;
}

/**
 * Whether the first `count` counters all let the request go on; `allowed` tells which do. Charges nothing: asked alone,
 * a peek.
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

// All-or-nothing: of the counters that one request is held to, every one is charged or none is.

import type { CounterState } from "./algorithms/counter-state.ts";
import { charge, type Rate } from "./algorithms/rate.ts";

/** A counter at the moment of deciding: its stored state, and what the request asks of it. */
export interface Counter extends CounterState {
  rate: Rate;
  cost: number;
  /** What this counter alone said. */
  allowed: boolean;
  /** The state before. Where it differs from the state after, a store has something to write, after a refusal too. */
  beforeAtUs: number;
  beforeCount: number;
}

/** A counter of which nothing is stored yet. */
export function newCounter(rate: Rate, cost: number): Counter {
  return { rate, cost, atUs: 0, count: 0, allowed: true, beforeAtUs: 0, beforeCount: 0 };
}

/**
 * Charges the first `count` counters and returns true; or returns false with nothing charged, and `allowed` telling
 * which counters refused.
 *
 * @param nowUs µs since the epoch
 */
export function chargeAll(counters: readonly Counter[], count: number, nowUs: number): boolean {
  let all = true;
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    counter.beforeAtUs = counter.atUs;
    counter.beforeCount = counter.count;
    counter.allowed = charge(counter.rate, counter, nowUs, counter.cost);
    if (!counter.allowed) all = false;
  }
  if (!all) {
    for (let i = 0; i < count; i++) {
      const counter = counters[i] as Counter;
      // One that refused is as its algorithm left it.
      if (!counter.allowed) continue;
      counter.atUs = counter.beforeAtUs;
      counter.count = counter.beforeCount;
    }
  }
  return all;
}

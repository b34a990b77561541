// One door to all algorithms: what a limit of a policy does to a counter's state.

import type { Decision } from "../decision.ts";
import type { Limit } from "../policy/policy.ts";
import type { CounterState } from "./counter-state.ts";
import {
  chargeFixedWindow,
  describeFixedWindow,
  type FixedWindow,
  fixedWindow,
  refundFixedWindow,
} from "./fixed-window.ts";
import {
  chargeTokenBucket,
  describeTokenBucket,
  refundTokenBucket,
  type TokenBucket,
  tokenBucket,
} from "./token-bucket.ts";

/** A limit made ready for deciding. */
export type Rate = TokenBucket | FixedWindow;

export function rateOf(limit: Limit): Rate {
  return limit.algorithm === "token-bucket"
    ? tokenBucket(limit.quota, limit.windowUs, limit.burst)
    : fixedWindow(limit.quota, limit.windowUs);
}

/** Charges `cost` and returns true, or charges nothing and returns false. @param nowUs µs since the epoch */
export function charge(rate: Rate, state: CounterState, nowUs: number, cost: number): boolean {
  return rate.algorithm === "token-bucket"
    ? chargeTokenBucket(rate, state, nowUs, cost)
    : chargeFixedWindow(rate, state, nowUs, cost);
}

/** Gives back what an earlier charge of `cost` took. */
export function refund(rate: Rate, state: CounterState, cost: number): void {
  if (rate.algorithm === "token-bucket") refundTokenBucket(rate, state, cost);
  else refundFixedWindow(state, cost);
}

/** Fills `decision` for a request that was just charged to `state`, or refused by it. */
export function describe(
  rate: Rate,
  state: CounterState,
  nowUs: number,
  cost: number,
  allowed: boolean,
  decision: Decision,
): void {
  if (rate.algorithm === "token-bucket") describeTokenBucket(rate, state, nowUs, cost, allowed, decision);
  else describeFixedWindow(rate, state, nowUs, cost, allowed, decision);
}

/** The most units that can be had at once. */
export function capacity(rate: Rate): number {
  return rate.algorithm === "token-bucket" ? rate.burst : rate.quota;
}

/** After how long an untouched counter is as if never used, in µs: how long a store need keep it. */
export function lifetimeUs(rate: Rate, state: CounterState, nowUs: number): number {
  if (rate.algorithm === "token-bucket") return Math.max(state.atUs - nowUs, 0) + 1;
  // A window is kept for a second one, so that a clock that stepped back over a border finds it.
  return rate.windowUs * 2;
}

/**
 * One share of `shares` of a rate: what a node may admit alone when it cannot ask the others.
 *
 * @param cost what one request takes; a share has room for one, or it would refuse them all
 */
export function shareOf(rate: Rate, shares: number, cost: number): Rate {
  const quota = Math.max(rate.algorithm === "token-bucket" ? 1 : cost, Math.floor(rate.quota / shares));
  return rate.algorithm === "token-bucket"
    ? tokenBucket(quota, rate.windowUs, Math.max(cost, Math.floor(rate.burst / shares)))
    : fixedWindow(quota, rate.windowUs);
}

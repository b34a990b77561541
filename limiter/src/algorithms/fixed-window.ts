// fixed-window: at most `quota` units in each window, windows being multiples of the window's length since the epoch
// (so a window of 1d is a UTC day). Two full windows may meet at their border: any interval of one window's length
// holds at most twice the quota.

import { type Decision, never } from "../decision.ts";
import type { CounterState } from "./counter-state.ts";

export interface FixedWindow {
  readonly algorithm: "fixed-window";
  readonly quota: number;
  readonly windowUs: number;
}

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days */
export function fixedWindow(quota: number, windowUs: number): FixedWindow {
  return { algorithm: "fixed-window", quota, windowUs };
}

/** The start of the window that counts at `nowUs`, given the window that the state was last charged in. */
export function windowStart(limit: FixedWindow, stateAtUs: number, nowUs: number): number {
  const startUs = nowUs - (nowUs % limit.windowUs);
  // A clock that stepped back over a border goes on in the window it had reached: a fresh count would mint units.
  // Further back than one window, waiting for the old one would lock the key out: it starts anew.
  return stateAtUs === startUs + limit.windowUs ? stateAtUs : startUs;
}

/** Charges `cost` to the state and returns true, or leaves the state as it is and returns false. */
export function chargeFixedWindow(limit: FixedWindow, state: CounterState, nowUs: number, cost: number): boolean {
  const startUs = windowStart(limit, state.atUs, nowUs);
  const used = (state.atUs === startUs ? state.count : 0) + cost;
  if (used > limit.quota) return false;
  state.atUs = startUs;
  state.count = used;
  return true;
}

/** Gives back what an earlier charge of `cost` took, in whatever window is open now. */
export function refundFixedWindow(state: CounterState, cost: number): void {
  state.count = state.count > cost ? state.count - cost : 0;
}

/** Fills `decision` for a request of `cost` that was just charged to `state`, or refused by it. */
export function describeFixedWindow(
  limit: FixedWindow,
  state: CounterState,
  nowUs: number,
  cost: number,
  allowed: boolean,
  decision: Decision,
): void {
  const startUs = windowStart(limit, state.atUs, nowUs);
  const used = state.atUs === startUs ? state.count : 0;
  const endsAfterUs = startUs + limit.windowUs - nowUs;
  decision.allowed = allowed;
  decision.limit = limit.quota;
  decision.remaining = used < limit.quota ? limit.quota - used : 0;
  decision.resetAfterUs = endsAfterUs;
  if (allowed) decision.retryAfterUs = 0;
  else decision.retryAfterUs = cost > limit.quota ? never : endsAfterUs;
}

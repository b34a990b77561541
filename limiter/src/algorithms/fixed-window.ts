// fixed-window: at most `quota` units in each window. Windows begin at multiples of their length since the epoch, so a window of
// 1d is a UTC day. Two full windows may meet at their border: any interval of one window's length holds at most twice the quota.
//
// A window of `lifetime` is one that never ends: what it counts comes back by an operator's reset or top-up alone.
//
// The head is the start of the window that was last charged, and the number of units used in it.

import { type CounterState, clockToleranceUs } from "./counter-state.ts";
import { type Decision, endless, never } from "./decision.ts";

export interface FixedWindow {
  readonly algorithm: "fixed-window";
  readonly quota: number;
  readonly windowUs: number;
  readonly toleranceUs: number;
}

/**
 * The length of `window: lifetime`, in µs: from the epoch to the year 2112. A power of two, so that twice as much is still exact. It is also
 * what decisions say instead of the time that is left of it.
 */
export const lifetimeWindowUs = endless;

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days, or `lifetimeWindowUs` */
export function fixedWindow(quota: number, windowUs: number): FixedWindow {
  return { algorithm: "fixed-window", quota, windowUs, toleranceUs: clockToleranceUs(windowUs) };
}

export function admitsFixedWindow(limit: FixedWindow, state: CounterState, nowUs: number, cost: number): boolean {
  return admitsInWindow(limit, state, nowUs - (nowUs % limit.windowUs), nowUs, cost);
}

/** The same for a window of any kind. @param startUs when the present window began */
export function admitsInWindow(
  limit: Pick<FixedWindow, "quota" | "toleranceUs">,
  state: CounterState,
  startUs: number,
  nowUs: number,
  cost: number,
): boolean {
  let used = state.count;
  state.nextAtUs = startUs;
  if (state.atUs < startUs) {
    used = 0;
  } else if (state.atUs > startUs && used > 0) {
    if (state.atUs - nowUs <= limit.toleranceUs) {
      state.nextAtUs = state.atUs;
    } else {
      // The clock stepped back over a border. Counting anew would mint units. Waiting until the clock reaches the counted window
      // again would lock the key out. So the used units count in the window that the clock shows.
      state.atUs = startUs;
      state.stepped = true;
    }
  }
  state.nextCount = used + cost;
  return state.nextCount <= limit.quota;
}

export function describeFixedWindow(
  limit: FixedWindow,
  state: CounterState,
  nowUs: number,
  cost: number,
  decision: Decision,
): void {
  const openUs = state.nextAtUs;
  const used = state.atUs === openUs ? state.count : 0;
  decision.limit = limit.quota;
  decision.remaining = used < limit.quota ? limit.quota - used : 0;
  const ends = limit.windowUs !== lifetimeWindowUs;
  decision.resetAfterUs = ends ? openUs + limit.windowUs - nowUs : endless;
  if (decision.allowed) decision.retryAfterUs = 0;
  else decision.retryAfterUs = ends && cost <= limit.quota ? decision.resetAfterUs : never;
}

/** Refunds units of the window that is still counted. Units of an earlier window are gone with it. */
export function refundFixedWindow(state: CounterState, chargedAtUs: number, cost: number): void {
  if (state.atUs !== chargedAtUs) return;
  state.count = state.count > cost ? state.count - cost : 0;
}

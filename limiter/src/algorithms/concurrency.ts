// concurrency: at most `quota` slots held at once. A slot is given back when its request ends (a refund), and by itself when
// nobody renews it: a slot not renewed for its time to live is free again, whoever held it, and is held for nine tenths
// of that at least.

import type { CounterState, Ring } from "./counter-state.ts";
import { admitsSliding, chargeSliding, refundSliding, type SlidingWindow, slidingOf } from "./sliding-window.ts";

const ticksPerLife = 10;

/** @param quota slots, 1…2^31 @param ttlUs how long an unrenewed slot is held at most, 1,000…366 days */
export function concurrency(quota: number, ttlUs: number): SlidingWindow {
  // Taken anywhere in its tick, a slot is gone when the tenth tick begins.
  return slidingOf("concurrency", quota, ttlUs, Math.floor(ttlUs / ticksPerLife), ticksPerLife - 1);
}

/**
 * Holds for another life slots that were taken, or last renewed, in the tick that began at `heldAtUs`.
 *
 * @returns the tick that they are held in now; undefined when they were lost meanwhile and are not to be had again yet
 */
export function renewSlots(
  limit: SlidingWindow,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  heldAtUs: number,
  slots: number,
): number | undefined {
  // What has expired must be gone first, or it could be renewed.
  admitsSliding(limit, state, ring, nowUs, 0);
  const held = refundSliding(limit, state, ring, heldAtUs, slots);
  const fits = admitsSliding(limit, state, ring, nowUs, slots);
  // What is held goes on being held, also where the quota is smaller by now.
  if (held < slots && !fits) {
    if (held > 0) {
      admitsSliding(limit, state, ring, nowUs, held);
      chargeSliding(limit, state, ring);
    }
    return undefined;
  }
  chargeSliding(limit, state, ring);
  return state.atUs;
}

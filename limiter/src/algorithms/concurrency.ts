// concurrency: at most `quota` slots are held at once. A refund frees a slot when its request ends. A slot that nobody renews
// expires after its time to live, whoever held it; it is held for at least nine tenths of that time.

import type { CounterState, Ring } from "./counter-state.ts";
import { admitsSliding, chargeSliding, refundSliding, type SlidingWindow, slidingOf } from "./sliding-window.ts";

const ticksPerLife = 10;

/** @param quota slots, 1…2^31 @param ttlUs how long an unrenewed slot is held at most, 1,000…366 days */
export function concurrency(quota: number, ttlUs: number): SlidingWindow {
  // A slot that is taken anywhere in its tick expires when the tenth tick after that begins.
  return slidingOf("concurrency", quota, ttlUs, Math.floor(ttlUs / ticksPerLife), ticksPerLife - 1);
}

/**
 * Renews slots for another time to live. They were taken, or last renewed, in the tick that began at `heldAtUs`.
 *
 * @returns the start of the tick that they are held in now; undefined when some were lost meanwhile and cannot be taken again yet
 */
export function renewSlots(
  limit: SlidingWindow,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  heldAtUs: number,
  slots: number,
): number | undefined {
  // Expired slots must be dropped first; otherwise they could be renewed.
  admitsSliding(limit, state, ring, nowUs, 0);
  const held = refundSliding(limit, state, ring, heldAtUs, slots);
  const fits = admitsSliding(limit, state, ring, nowUs, slots);
  // Slots that are still held stay held, even where the quota has become smaller since.
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

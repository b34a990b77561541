// sliding-log: a sliding window that remembers each admission at its own time. It is exact: a unit comes back one window after it
// was taken. This holds to the µs for windows of up to 17 minutes, and to four billionths of the window for longer ones (so that
// an entry fits into 8 bytes).

import { type SlidingWindow, slidingOf, ticksOver } from "./sliding-window.ts";

/** A window has at most this many ticks, so that two windows do not wrap around 2^32. */
const mostTicks = 1_073_741_824;

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days */
export function slidingLog(quota: number, windowUs: number): SlidingWindow {
  let tickUs = 1;
  while (windowUs > tickUs * mostTicks) tickUs *= 2;
  return slidingOf("sliding-log", quota, windowUs, tickUs, ticksOver(windowUs, tickUs));
}

// sliding-log: a sliding window that remembers each admission at its own time. Exact: a unit comes back one window after it
// was taken, to the µs while the window is up to 17 minutes, to four billionths of the window beyond that (so that an entry
// fits into 8 bytes).

import { type SlidingWindow, slidingOf, ticksOver } from "./sliding-window.ts";

/** A window is at most so many ticks, so that two windows do not wrap around 2^32. */
const mostTicks = 1_073_741_824;

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days */
export function slidingLog(quota: number, windowUs: number): SlidingWindow {
  let tickUs = 1;
  while (windowUs > tickUs * mostTicks) tickUs *= 2;
  return slidingOf("sliding-log", quota, windowUs, tickUs, ticksOver(windowUs, tickUs));
}

// The node's clock: nginx's cached time, which moves in steps of a millisecond.

import { stopwatchUs } from "./stopwatch.ts";

const now = ngx.now;

/** µs since the epoch. */
export function nowUs(): number {
  return math.floor(now() * 1000 + 0.5) * 1000;
}

/** ms since the epoch. */
export function nowMs(): number {
  return math.floor(now() * 1000 + 0.5);
}

/** Yields for this many whole ms, at least one: with less, time would stand still meanwhile. */
export function sleepMs(ms: number): void {
  // nginx cuts off what is not a whole ms, and 1.001 × 1000 is a little less than 1001.
  ngx.sleep((math.max(ms, 1) + 0.5) / 1000);
}

/** Yields for so long at least: nginx' timers go by whole ms of its cached time, or by a clock of the kernel's that steps by 4, and end too early by as much. */
export function sleepAtLeastUs(us: number): void {
  const endUs = stopwatchUs() + us;
  let leftUs = us;
  do {
    // Of a cached time that is late, the timer would end as much too early.
    ngx.update_time();
    sleepMs(math.ceil(leftUs / 1000));
    leftUs = endUs - stopwatchUs();
  } while (leftUs > 0);
}

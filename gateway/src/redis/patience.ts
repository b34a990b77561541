// How long a request waits for Redis, whatever it asks there: one deadline in all. What it waits for because a policy would
// have it so does not count.

import { stopwatchUs } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";

export interface Patience {
  leftUs: number;
}

/** Less than nginx' timers can tell. */
const leastUs = 1000;

/** That of a request which has asked nothing so far. */
export function newPatience({ deadlineMs }: RedisSettings): Patience {
  return { leftUs: deadlineMs * 1000 };
}

/** Whether there is not enough left to ask anything. */
export function isOver({ leftUs }: Patience): boolean {
  return leftUs < leastUs;
}

/** @param sinceUs by the stopwatch, when what has ended now was asked */
export function waitedSince(patience: Patience, sinceUs: number): void {
  patience.leftUs -= stopwatchUs() - sinceUs;
}

// The node's clock: nginx's cached time, which moves in steps of a millisecond.

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

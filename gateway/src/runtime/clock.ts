// The node's clock: nginx's cached time, which advances in steps of a millisecond. It says which moment it is, as counters need it. It may step
// back or forward, so what lasts some time is measured by stopwatch.ts (test/architecture/clocks.ts).

const now = ngx.now;

/** Microseconds since the epoch. */
export function nowUs(): number {
  return math.floor(now() * 1000 + 0.5) * 1000;
}

/** Milliseconds since the epoch. */
export function nowMs(): number {
  return math.floor(now() * 1000 + 0.5);
}

/** Yields for this many whole milliseconds, at least one: during a shorter sleep the cached time would not advance. */
export function sleepMs(ms: number): void {
  // nginx truncates to whole milliseconds, and 1.001 × 1000 is a little less than 1001.
  ngx.sleep((math.max(ms, 1) + 0.5) / 1000);
}

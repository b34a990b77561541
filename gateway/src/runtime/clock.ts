// The node's clock: nginx's cached time, which moves in steps of a millisecond.

const now = ngx.now;

/** µs since the epoch. */
export function nowUs(): number {
  return math.floor(now() * 1000 + 0.5) * 1000;
}

// The node's clock: nginx's cached time, which moves in steps of a millisecond.

/** µs since the epoch. */
export function nowUs(): number {
  return math.floor(ngx.now() * 1000 + 0.5) * 1000;
}

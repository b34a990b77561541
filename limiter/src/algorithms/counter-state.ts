// What a store keeps of one counter: two whole numbers, so that a shared-dict cell (value and flags) and a short Redis
// string can both hold it. The algorithm alone says what they mean.

export interface CounterState {
  /** A moment, in µs since the epoch. A counter that was never seen has 0. */
  atUs: number;
  /** A count below 2^32. A counter that was never seen has 0. */
  count: number;
}

export function emptyState(): CounterState {
  return { atUs: 0, count: 0 };
}

// The interface between an algorithm and the store that keeps its counters.
//
// A counter is a few whole numbers. The head, `atUs` and `count`, is all that most algorithms need; it fits into one cell of a
// shared dict or a short text in Redis. The sliding algorithms also remember when units were taken, in entries of a ring that
// only grows with use. The store decides where the entries are kept; an algorithm reaches them through `Ring`.
//
// A store loads the numbers and calls `admits`. If every counter of the request admits it, the store calls `charge` and saves. A
// refusal saves nothing, unless `stepped` is set.

export interface CounterState {
  /** A moment, in µs since the epoch. A counter that was never seen has 0. */
  atUs: number;
  /** A count below 2^32. A counter that was never seen has 0. */
  count: number;
  /** What `atUs` and `count` become when the request is charged; `admits` leaves them for `charge`. */
  nextAtUs: number;
  nextCount: number;
  /**
   * True when the clock had stepped back and `admits` moved the counter with it. The state must then be saved after a refusal
   * too.
   */
  stepped: boolean;
  /** What `admits` has forgiven a bucket that owed more than it can owe, in µs. Redis keeps it for gateways that hold a larger bucket. */
  forgivenUs?: number;
  /** The ring: the slot of its oldest entry, the number of entries, and the number of entries that it has room for. */
  first: number;
  length: number;
  capacity: number;
  /** The running sum of units, modulo 2^32, before the units of the newest tick. */
  start: number;
  /**
   * By how many ticks the ring is ahead of the clock, modulo 2^32. It becomes other than 0 when the counter moves with a clock
   * that stepped back, or ahead by a deferred charge.
   */
  offset: number;
}

/** An entry holds whole numbers below this, and its arithmetic wraps around here. */
export const wrap = 4294967296;

/**
 * The entries of a counter. Each slot holds the tick in which units were taken and the running sum before them, both modulo 2^32.
 * The record's functions are constants, so that they can be compiled into the algorithm.
 */
export interface Ring {
  tickAt(this: void, state: CounterState, slot: number): number;
  startAt(this: void, state: CounterState, slot: number): number;
  put(this: void, state: CounterState, slot: number, tick: number, start: number): void;
  /**
   * Makes room for at least one more entry, and for at most `most` in all. The entries from `state.first` on, around the ring's
   * end, move to slots 0 and up.
   *
   * @returns how many entries there is room for
   */
  grow(this: void, state: CounterState, most: number): number;
}

/** Returns the capacity that a ring grows to, for a store that has no better rule. */
export function nextCapacity(capacity: number, most: number): number {
  return Math.min(capacity + Math.max(8, Math.floor(capacity / 16)), most);
}

export function emptyState(): CounterState {
  return {
    atUs: 0,
    count: 0,
    nextAtUs: 0,
    nextCount: 0,
    stepped: false,
    first: 0,
    length: 0,
    capacity: 0,
    start: 0,
    offset: 0,
  };
}

const second = 1_000_000;
/** Clocks of one machine's workers may differ by this much. Such a difference is never taken for a clock that stepped back. */
const clockSkewUs = 50_000;

/**
 * Returns how far a clock may step back before the counter moves with it; up to there the counter merely waits. Workers of one
 * machine read clocks some ms apart, and moving a counter back and forth with them would mint units. A larger difference means
 * that the clock did step.
 */
export function clockToleranceUs(windowUs: number): number {
  return Math.max(Math.min(windowUs, second), clockSkewUs);
}

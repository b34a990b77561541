// How an algorithm meets its store.
//
// A counter is a few whole numbers: the head, `atUs` and `count`, is all that most algorithms need and fits into one cell of
// a shared dict or a short text in Redis. The sliding ones remember when units were taken as well: entries in a ring, which
// only grows with use. Where the entries lie is the store's business; an algorithm reaches them through `Ring`.
//
// A store loads the numbers, asks `admits`, and where every counter of the request does, calls `charge` and saves.
// A refusal saves nothing, but where `stepped` is set: see there.

export interface CounterState {
  /** A moment, in µs since the epoch. A counter that was never seen has 0. */
  atUs: number;
  /** A count below 2^32. A counter that was never seen has 0. */
  count: number;
  /** What `atUs` and `count` become when the request is charged; `admits` leaves them for `charge`. */
  nextAtUs: number;
  nextCount: number;
  /** The clock had stepped back, and `admits` moved the counter with it: to be saved after a refusal too. */
  stepped: boolean;
  /** The ring: the slot of the oldest entry, how many there are, and for how many there is room. */
  first: number;
  length: number;
  capacity: number;
  /** The running sum of units, modulo 2^32, when the newest units began. */
  start: number;
  /** What the ring's ticks are ahead of the clock's, modulo 2^32: not 0 where the clock stepped back. */
  offset: number;
}

/** Whole numbers below this are what an entry holds, and what its arithmetic wraps at. */
export const wrap = 4294967296;

/**
 * The entries of a counter: in each slot the tick in which units were taken, and the running sum before them, both modulo
 * 2^32. A record of constant functions, so that they can be compiled into the algorithm.
 */
export interface Ring {
  tickAt(this: void, state: CounterState, slot: number): number;
  startAt(this: void, state: CounterState, slot: number): number;
  put(this: void, state: CounterState, slot: number, tick: number, start: number): void;
  /**
   * Makes room for at least one entry more, and for at most `most`. Those from `state.first` on, round the ring's end, move
   * to slot 0 and on.
   *
   * @returns for how many there is room
   */
  grow(this: void, state: CounterState, most: number): number;
}

/** The room that a ring grows to, where its store has nothing better to go by. */
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
/** How far clocks of one machine's workers may be apart, and are never taken for one that stepped back. */
const clockSkewUs = 50_000;

/**
 * How far a clock may step back and merely be waited for: workers of one machine read clocks some ms apart, and to move a
 * counter back and forth with them would mint units. Beyond that it did step, and the counter moves with it.
 */
export function clockToleranceUs(windowUs: number): number {
  return Math.max(Math.min(windowUs, second), clockSkewUs);
}

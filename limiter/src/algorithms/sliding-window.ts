// sliding-window: never more than `quota` units in any interval of one window's length.
//
// Time is cut into ticks. A tick that overlaps the last window counts as a whole, so a unit comes back at most one tick late. The
// length of a tick makes three algorithms of this one: by default a tenth of the window for a sliding-window, next to nothing for
// a sliding-log, and for concurrency a tenth of a slot's time to live.
//
// The head is the newest tick in which units were taken, and the sum of all units that count. While that tick lasts, nothing else
// is touched. When units are taken in a later tick, the previous one becomes an entry of the ring. Entries hold running sums, not
// units: one subtraction gives what all expired entries took, and bisection finds the first entry that has not expired.

import { type CounterState, clockToleranceUs, type Ring, wrap } from "./counter-state.ts";
import { type Decision, never } from "./decision.ts";

export interface SlidingWindow {
  readonly algorithm: "sliding-window" | "sliding-log" | "concurrency";
  readonly quota: number;
  readonly windowUs: number;
  readonly tickUs: number;
  /** A tick counts until the clock is more than this many ticks later. */
  readonly ticks: number;
  readonly toleranceUs: number;
}

/**
 * The most entries that one counter may have. Units that would need a further entry count as the newest ones: they come back
 * late, never too early.
 */
export const mostEntries = 131_072;
/** Up to this many expired entries are passed one by one; beyond that the first live entry is searched for. */
const fewExpire = 8;
/** A refund reaches units of this many newest entries. Older units come back when they expire. */
const refundReach = 128;

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days @param precisionUs divides windowUs */
export function slidingWindow(quota: number, windowUs: number, precisionUs: number): SlidingWindow {
  return slidingOf("sliding-window", quota, windowUs, precisionUs, ticksOver(windowUs, precisionUs));
}

export function slidingOf(
  algorithm: SlidingWindow["algorithm"],
  quota: number,
  windowUs: number,
  tickUs: number,
  ticks: number,
): SlidingWindow {
  return { algorithm, quota, windowUs, tickUs, ticks, toleranceUs: clockToleranceUs(windowUs) };
}

/** Returns how many ticks later the last µs of a tick is still within the window: (now − window, now] in whole µs. */
export function ticksOver(windowUs: number, tickUs: number): number {
  return Math.floor((windowUs + tickUs - 2) / tickUs);
}

export function admitsSliding(
  limit: SlidingWindow,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  cost: number,
): boolean {
  let tickAtUs = nowUs - (nowUs % limit.tickUs);
  if (tickAtUs > state.atUs) {
    expire(limit, state, ring, tickAtUs);
  } else if (tickAtUs < state.atUs) {
    // The clock stepped back: everything that counts moves with it and keeps its age. What is left of a tick that has begun may
    // be shorter than what was left of the tick in which units were taken. So the units count as taken in the next tick, and
    // nothing comes back early.
    const reachedUs = nowUs === tickAtUs ? tickAtUs : tickAtUs + limit.tickUs;
    if (state.atUs - nowUs > limit.toleranceUs && state.atUs > reachedUs) {
      state.offset = (state.offset + (state.atUs - reachedUs) / limit.tickUs) % wrap;
      state.atUs = reachedUs;
      state.stepped = true;
    }
    tickAtUs = state.atUs;
  }
  state.nextAtUs = tickAtUs;
  state.nextCount = state.count + cost;
  return state.nextCount <= limit.quota;
}

export function chargeSliding(limit: SlidingWindow, state: CounterState, ring: Ring): void {
  if (state.nextAtUs !== state.atUs) {
    // The newest tick becomes an entry, if units taken in it still count.
    const sum = runningSum(state, ring);
    if (state.length < mostEntries && sum !== state.start) {
      if (state.length === state.capacity) {
        state.capacity = ring.grow(state, Math.min(limit.ticks + 1, mostEntries));
        state.first = 0;
      }
      ring.put(state, slotOf(state, state.length), ringTick(limit, state, state.atUs), state.start);
      state.length += 1;
      state.start = sum;
    }
    state.atUs = state.nextAtUs;
  }
  state.count = state.nextCount;
}

export function describeSliding(
  limit: SlidingWindow,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  cost: number,
  decision: Decision,
): void {
  decision.limit = limit.quota;
  decision.remaining = state.count < limit.quota ? limit.quota - state.count : 0;
  const lastUs = state.atUs + (limit.ticks + 1) * limit.tickUs - nowUs;
  decision.resetAfterUs = state.count > 0 ? lastUs : 0;
  if (decision.allowed) {
    decision.retryAfterUs = 0;
  } else if (cost > limit.quota) {
    decision.retryAfterUs = never;
  } else if (limit.algorithm === "concurrency") {
    // The holder of a slot may release it at any moment.
    decision.retryAfterUs = 0;
  } else {
    decision.retryAfterUs = lastUs - untilLastUs(limit, state, ring, state.count + cost - limit.quota);
  }
}

/**
 * Refunds units that were charged in the tick that began at `chargedAtUs`, as far as they still count.
 *
 * @returns how many were refunded
 */
export function refundSliding(
  limit: SlidingWindow,
  state: CounterState,
  ring: Ring,
  chargedAtUs: number,
  cost: number,
): number {
  const sum = runningSum(state, ring);
  if (chargedAtUs === state.atUs) {
    const newest = distance(sum, state.start);
    const returned = Math.min(cost, newest);
    state.count -= returned;
    return returned;
  }
  const tick = ringTick(limit, state, chargedAtUs);
  const oldest = state.length > refundReach ? state.length - refundReach : 0;
  let at = state.length - 1;
  if (at < 0) return 0;
  if (ring.tickAt(state, slotOf(state, at)) !== tick) at = entryOf(state, ring, tick, oldest);
  if (at < oldest) return 0;
  const units = distance(startOf(state, ring, at + 1), startOf(state, ring, at));
  const returned = Math.min(cost, units);
  // Every later running sum shrinks by as many units.
  if (at + 1 < state.length) lower(state, ring, at + 1, returned);
  state.start = distance(state.start, returned);
  state.count -= returned;
  return returned;
}

/** Takes back up to `units` of the units that count, the newest first, whatever their tick. */
export function takeNewest(state: CounterState, ring: Ring, units: number): void {
  const newest = distance(runningSum(state, ring), state.start);
  let left = Math.min(units, state.count);
  state.count -= left;
  left -= Math.min(left, newest);
  // An entry is removed when all its units have been taken back.
  while (left > 0 && state.length > 0) {
    const start = startOf(state, ring, state.length - 1);
    const taken = Math.min(left, distance(state.start, start));
    state.start = distance(state.start, taken);
    left -= taken;
    if (state.start === start) state.length -= 1;
  }
}

/**
 * Returns the entry of this tick, searched for before the newest entry and not before `oldest`. A result below `oldest` means
 * that there is none.
 */
function entryOf(state: CounterState, ring: Ring, tick: number, oldest: number): number {
  let at = state.length - 2;
  while (at >= oldest) {
    if (ring.tickAt(state, slotOf(state, at)) === tick) break;
    at -= 1;
  }
  return at;
}

/** Subtracts `units` from the running sums of the entries from `from` on. */
function lower(state: CounterState, ring: Ring, from: number, units: number): void {
  for (let entry = from; entry < state.length; entry++) {
    const slot = slotOf(state, entry);
    const start = distance(ring.startAt(state, slot), units);
    ring.put(state, slot, ring.tickAt(state, slot), start);
  }
}

/** Returns for how long the units of a counter count at most, in µs from `nowUs` on. Never 0: stores need a lifetime above 0. */
export function slidingLifetimeUs(limit: SlidingWindow, state: CounterState, nowUs: number): number {
  return Math.max(state.atUs + (limit.ticks + 2) * limit.tickUs - nowUs, 1);
}

/**
 * Returns whether deciding needs more than the head. If it does not, a store that keeps the ring separately need not fetch it. If
 * a store lacks an entry that it once had, the units of that entry count as the newest ones: they come back late, never too
 * early.
 */
export function needsRing(limit: SlidingWindow, state: CounterState, nowUs: number, cost: number): boolean {
  if (state.count === 0) return false;
  const behindUs = nowUs - (nowUs % limit.tickUs) - state.atUs;
  if (behindUs > limit.ticks * limit.tickUs) return false;
  return behindUs !== 0 || state.count + cost > limit.quota;
}

/** Drops what no longer counts in the tick that begins at `tickAtUs`, which is later than the newest tick. */
function expire(limit: SlidingWindow, state: CounterState, ring: Ring, tickAtUs: number): void {
  if (tickAtUs - state.atUs > limit.ticks * limit.tickUs) {
    state.count = 0;
    state.first = 0;
    state.length = 0;
    state.start = 0;
    state.offset = 0;
    return;
  }
  if (state.length === 0) return;
  const tick = ringTick(limit, state, tickAtUs);
  if (age(state, ring, 0, tick) <= limit.ticks) return;
  const before = startOf(state, ring, 0);
  // Between two requests usually only a few entries expire.
  let live = 1;
  while (live < state.length && age(state, ring, live, tick) > limit.ticks) {
    live += 1;
    if (live > fewExpire) {
      live = firstLive(limit, state, ring, tick, live - 1);
      break;
    }
  }
  state.count -= distance(startOf(state, ring, live), before);
  state.first = slotOf(state, live);
  state.length -= live;
}

/**
 * Returns the oldest live entry; `from` is an expired one before it. After a pause there are many expired entries to pass, so the
 * search doubles its strides and then bisects.
 */
function firstLive(limit: SlidingWindow, state: CounterState, ring: Ring, tick: number, from: number): number {
  let expired = from;
  let stride = 1;
  let live = state.length;
  while (expired + stride < live) {
    if (age(state, ring, expired + stride, tick) > limit.ticks) {
      expired += stride;
      stride *= 2;
    } else {
      live = expired + stride;
    }
  }
  while (live - expired > 1) {
    const middle = Math.floor((expired + live) / 2);
    if (age(state, ring, middle, tick) > limit.ticks) expired = middle;
    else live = middle;
  }
  return live;
}

/** Returns by how many µs the oldest `units` come back earlier than the units of the newest tick. */
function untilLastUs(limit: SlidingWindow, state: CounterState, ring: Ring, units: number): number {
  if (state.length === 0) return 0;
  const oldestStart = startOf(state, ring, 0);
  if (distance(state.start, oldestStart) < units) return 0;
  let entry = 0;
  if (state.length > 1 && distance(startOf(state, ring, 1), oldestStart) < units) {
    entry = lastBefore(state, ring, oldestStart, units);
  }
  return age(state, ring, entry, ringTick(limit, state, state.atUs)) * limit.tickUs;
}

/** Returns the last entry before which fewer than `units` were taken. The search doubles its strides and then bisects. */
function lastBefore(state: CounterState, ring: Ring, oldestStart: number, units: number): number {
  let low = 1;
  let stride = 1;
  let high = state.length;
  while (low + stride < high) {
    if (distance(startOf(state, ring, low + stride), oldestStart) < units) {
      low += stride;
      stride *= 2;
    } else {
      high = low + stride;
    }
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (distance(startOf(state, ring, middle), oldestStart) < units) low = middle;
    else high = middle;
  }
  return low;
}

/** Returns the sum of all units ever taken, modulo 2^32. */
function runningSum(state: CounterState, ring: Ring): number {
  const sum = startOf(state, ring, 0) + state.count;
  return sum < wrap ? sum : sum - wrap;
}

/** Returns the running sum before an entry; where `entry` is one past the last, the running sum before the newest units. */
function startOf(state: CounterState, ring: Ring, entry: number): number {
  if (entry >= state.length) return state.start;
  return ring.startAt(state, slotOf(state, entry));
}

/** Returns by how many ticks the entry is older than `tick`. */
function age(state: CounterState, ring: Ring, entry: number, tick: number): number {
  return distance(tick, ring.tickAt(state, slotOf(state, entry)));
}

/** Returns `later` − `earlier` of numbers that wrap around. */
function distance(later: number, earlier: number): number {
  const difference = later - earlier;
  return difference < 0 ? difference + wrap : difference;
}

function ringTick(limit: SlidingWindow, state: CounterState, tickAtUs: number): number {
  return (tickAtUs / limit.tickUs + state.offset) % wrap;
}

function slotOf(state: CounterState, entry: number): number {
  const slot = state.first + entry;
  return slot < state.capacity ? slot : slot - state.capacity;
}

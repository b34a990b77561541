// shaped-bucket: a token-bucket with `initial` or `warmUp`. People write token-bucket; the plain one has neither, and its code is its own.
//
// A counter that was never seen begins with `initial` units at its first request, even if that is refused. With `warmUp`, the rate then grows
// linearly from a third of quota ÷ window to all of it, as that of Guava's SmoothWarmingUp does.
//
// It is an ordinary bucket on a clock of its own. While the counter warms, this clock runs at a third of the speed of time at first and ever
// faster, and it is ahead of time by as much as it will lose. When the counter is warm, the clock shows the time, and how the counter
// began does not matter any more. The clock never goes back by itself, so everything that is true of a token-bucket is true of this one by its clock.
//
// The head is that of a token-bucket, so a limit that gets these fields, or loses them, keeps its counters. While a counter warms, one
// entry of its ring holds the moment of its beginning, and `offset` holds the warm-up with which it began, in ms.

import { type CounterState, type Ring, wrap } from "./counter-state.ts";
import type { Decision } from "./decision.ts";
import { admitsTokenBucket, type Bucket, bucketOf, describeTokenBucket, refundTokenBucket } from "./token-bucket.ts";
import { maxExact, multiplyDivide } from "./wide-multiply.ts";

export interface ShapedBucket extends Bucket {
  readonly algorithm: "shaped-bucket";
  /** Units with which a counter begins. */
  readonly initial: number;
  /** How long the rate grows. 0: it does not. */
  readonly warmUpUs: number;
  /** How long a full counter is kept. Then it is forgotten, and begins again. */
  readonly idleUs: number;
}

const hourUs = 3_600_000_000;
const usPerMs = 1000;

/**
 * @param quota units per window, 1…2^31 @param windowUs 1,000…366 days @param burst capacity in units, 1…2^31
 * @param initial units, 0…burst @param warmUpUs whole ms, up to a day
 */
export function shapedBucket(
  quota: number,
  windowUs: number,
  burst: number,
  initial: number,
  warmUpUs: number,
): ShapedBucket {
  const bucket = bucketOf("shaped-bucket", quota, windowUs, burst) as {
    -readonly [Name in keyof ShapedBucket]: ShapedBucket[Name];
  };
  bucket.initial = initial;
  bucket.warmUpUs = warmUpUs;
  bucket.idleUs = Math.max(hourUs, windowUs, warmUpUs);
  return bucket;
}

export function admitsShapedBucket(
  bucket: ShapedBucket,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  cost: number,
): boolean {
  return admitsTokenBucket(bucket, state, enterClock(bucket, state, ring, nowUs), cost);
}

/** The state is as `admits` has left it. */
export function describeShapedBucket(
  bucket: ShapedBucket,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  cost: number,
  decision: Decision,
): void {
  const clockUs = clockOf(state, ring, nowUs);
  describeTokenBucket(bucket, state, clockUs, cost, decision);
  const { retryAfterUs, resetAfterUs } = decision;
  // The clock shows each µs for up to three: it may have shown this one before.
  decision.resetAfterUs = Math.max(Math.min(timeAt(state, ring, clockUs + resetAfterUs) - nowUs, maxExact), 0);
  // Not of an allowed request, nor of one that costs more than the bucket ever holds.
  if (retryAfterUs > 0) {
    decision.retryAfterUs = Math.min(timeAt(state, ring, clockUs + retryAfterUs) - nowUs, maxExact);
  }
}

/** @param chargedAtUs by the counter's clock, as its head is */
export function refundShapedBucket(
  bucket: ShapedBucket,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  chargedAtUs: number,
  cost: number,
): void {
  refundTokenBucket(bucket, state, clockOf(state, ring, nowUs), chargedAtUs, cost);
}

/** Returns whether deciding needs more than the head. */
export function needsBeginning({ warmUpUs }: ShapedBucket): boolean {
  return warmUpUs > 0;
}

/** Begins a counter that was never seen. It has `units` then. The state is to be saved, even if the request is refused. */
export function beginShapedBucket(
  bucket: ShapedBucket,
  state: CounterState,
  ring: Ring,
  nowUs: number,
  units: number,
): void {
  const { burst, windowUs, quota, warmUpUs } = bucket;
  const owed = multiplyDivide(burst - units, windowUs, quota);
  state.atUs = nowUs + aheadUs(warmUpUs) + owed.quotient;
  state.count = owed.remainder;
  state.stepped = true;
  if (warmUpUs > 0) {
    state.capacity = ring.grow(state, 1);
    state.offset = warmUpUs / usPerMs;
    keepBeginning(state, ring, nowUs);
  }
}

/**
 * Prepares the state for the functions of a token-bucket, and returns the time by the counter's clock: begins a counter that was never seen,
 * follows a clock that stepped back behind the beginning, and forgets the beginning of a counter that is warm.
 *
 * A counter that is warm stays warm when the clock steps back. So does one that existed before its limit had a warm-up, or whose
 * beginning its store has lost. Where the warm-up was made shorter and is over by now, the counter is warm at once.
 */
export function enterClock(bucket: ShapedBucket, state: CounterState, ring: Ring, nowUs: number): number {
  if (state.atUs === 0) {
    beginShapedBucket(bucket, state, ring, nowUs, bucket.initial);
  } else if (state.length > 0) {
    const ageUs = nowUs - beganUs(state, ring);
    if (ageUs < -bucket.toleranceUs) {
      keepBeginning(state, ring, nowUs);
      state.stepped = true;
    } else if (ageUs >= Math.min(bucket.warmUpUs, state.offset * usPerMs)) {
      // If the warm-up was made shorter, the clock is still ahead of time. What the counter owes stays the same time.
      const aheadUs = clockOf(state, ring, nowUs) - nowUs;
      if (aheadUs > 0) {
        state.atUs -= aheadUs;
        state.stepped = true;
      }
      forgetBeginning(state);
    }
  }
  return clockOf(state, ring, nowUs);
}

/** Returns the time by the counter's clock. Changes nothing. */
export function clockOf(state: CounterState, ring: Ring, nowUs: number): number {
  if (state.length === 0) return nowUs;
  const warmUpUs = state.offset * usPerMs;
  const startUs = beganUs(state, ring);
  // The clocks of two workers may differ by a little.
  const ageUs = Math.max(nowUs - startUs, 0);
  return ageUs < warmUpUs ? startUs + aheadUs(warmUpUs) + runUs(ageUs, warmUpUs) : nowUs;
}

/** Returns the first moment at which the counter's clock shows at least `clockUs`, in µs since the epoch. */
export function timeAt(state: CounterState, ring: Ring, clockUs: number): number {
  if (state.length === 0) return clockUs;
  const warmUpUs = state.offset * usPerMs;
  const startUs = beganUs(state, ring);
  if (clockUs >= startUs + warmUpUs) return clockUs;
  const targetUs = Math.max(clockUs - startUs - aheadUs(warmUpUs), 0);
  // The root is right to a thousandth of a µs, so its whole part is the age that is looked for, or one less or two.
  let ageUs = Math.floor((Math.sqrt(warmUpUs * (warmUpUs + 12 * targetUs)) - warmUpUs) / 2);
  while (runUs(ageUs, warmUpUs) < targetUs) ageUs += 1;
  return startUs + ageUs;
}

/** Returns how far the clock has run when the counter is this old: floor(age ÷ 3 + age² ÷ (3 × warmUp)). */
function runUs(ageUs: number, warmUpUs: number): number {
  return multiplyDivide(ageUs, warmUpUs + ageUs, 3 * warmUpUs).quotient;
}

/** Returns by how much the clock is ahead of time at the beginning: a third of the warm-up, which it loses in that time. */
function aheadUs(warmUpUs: number): number {
  return Math.ceil(warmUpUs / 3);
}

function beganUs(state: CounterState, ring: Ring): number {
  return ring.tickAt(state, 0) * wrap + ring.startAt(state, 0);
}

function keepBeginning(state: CounterState, ring: Ring, nowUs: number): void {
  const low = nowUs % wrap;
  ring.put(state, 0, (nowUs - low) / wrap, low);
  state.length = 1;
  // No units were taken after this entry.
  state.start = low;
}

function forgetBeginning(state: CounterState): void {
  state.length = 0;
  state.start = 0;
  state.offset = 0;
}

// Gateways hold two sizes of one bucket in Redis while an edit is on its way, if one of them is cut off from the control plane, or if one
// has no room for a consumer. What the smaller bucket cannot owe, it forgives. If that were forgotten for both, the larger one could be spent
// again and again. So Redis keeps it beside the smaller bucket's state, and a larger bucket owes it still.
//
// The end of a stored bucket, in numbers of 64 bits:
//
//   8 bytes          the time (µs) in which the bucket fills that can owe all of the counter's debt
//   + 16 bytes       if a smaller bucket has forgiven some of it: until when that is owed (µs), and the time in which the smaller one fills
//
// A debt beyond what the bucket that wrote it can owe means that the clock stepped back. It is forgiven for all sizes.

import type { CounterState } from "../../../limiter/src/algorithms/counter-state.ts";
import type { LeakyBucket } from "../../../limiter/src/algorithms/leaky-bucket.ts";
import type { Rate } from "../../../limiter/src/algorithms/rate.ts";
import type { ShapedBucket } from "../../../limiter/src/algorithms/shaped-bucket.ts";
import type { TokenBucket } from "../../../limiter/src/algorithms/token-bucket.ts";

/** Redis' own library for packed numbers. */
declare const struct: {
  pack(this: void, format: string, ...numbers: number[]): string;
  unpack(this: void, format: "<d", text: string): LuaMultiReturn<[number]>;
  unpack(this: void, format: "<ddd", text: string): LuaMultiReturn<[number, number, number]>;
};

export interface BucketSizes extends CounterState {
  /** The end of the stored bucket, as `areSizes` has it. */
  sizes: string;
  forgivenUs: number;
  /** In which time the bucket fills that can owe all of the debt, in µs. */
  fillsInUs: number;
  /** What the loaded state may owe at most, in µs. */
  mostOwedUs: number;
  /** How much more than this state a bucket owes that fills more slowly than in `smallerFillsInUs`, in µs. */
  owedBesideUs: number;
  /** The time by the counter's clock when it was loaded, in µs. */
  loadedAtUs: number;
  smallerFillsInUs: number;
}

const sizeBytes = 8;
const twoSizesBytes = 24;

type Bucket = TokenBucket | LeakyBucket | ShapedBucket;

export function isBucket(rate: Rate): rate is Bucket {
  return rate.algorithm === "token-bucket" || rate.algorithm === "leaky-bucket" || rate.algorithm === "shaped-bucket";
}

export function areSizes(bytes: number): boolean {
  return bytes === sizeBytes || bytes === twoSizesBytes;
}

/**
 * Makes the loaded state what a bucket of this size owes.
 *
 * @param clockUs the time by the counter's clock
 */
export function readSizes(rate: Bucket, state: BucketSizes, clockUs: number): void {
  const { sizes } = state;
  state.loadedAtUs = clockUs;
  if (sizes.length === sizeBytes) {
    const [fillsInUs] = struct.unpack("<d", sizes);
    state.fillsInUs = fillsInUs;
    state.mostOwedUs = fillsInUs;
    return;
  }
  const [fillsInUs, untilUs, smallerFillsInUs] = struct.unpack("<ddd", sizes);
  // This also excludes NaN.
  if (!(untilUs >= 0 && smallerFillsInUs >= 0)) return;
  state.fillsInUs = fillsInUs;
  if (rate.fullUs > smallerFillsInUs) {
    // The smaller bucket may have charged as much again since then.
    state.mostOwedUs = fillsInUs + smallerFillsInUs;
    state.atUs = math.max(untilUs, state.atUs);
    return;
  }
  state.mostOwedUs = smallerFillsInUs;
  state.owedBesideUs = math.max(untilUs - math.max(state.atUs, clockUs), 0);
  state.smallerFillsInUs = smallerFillsInUs;
}

/** Returns the end of a bucket that is about to be stored. */
export function sizesOf(rate: Bucket, state: BucketSizes): string {
  const { fullUs, toleranceUs } = rate;
  if (state.forgivenUs > 0) {
    const isEdit = fullUs + state.forgivenUs <= state.mostOwedUs + toleranceUs;
    state.owedBesideUs = isEdit ? state.owedBesideUs + state.forgivenUs : 0;
    state.smallerFillsInUs = fullUs;
    state.forgivenUs = 0;
  }
  if (state.owedBesideUs > 0) {
    state.mostOwedUs = state.smallerFillsInUs;
    return struct.pack(
      "<ddd",
      state.fillsInUs,
      math.max(state.atUs, state.loadedAtUs) + state.owedBesideUs,
      state.smallerFillsInUs,
    );
  }
  // A refund does not ask first, so the debt may still be that of a larger bucket.
  const isLarger = state.atUs - state.loadedAtUs > fullUs && state.fillsInUs > fullUs;
  if (!isLarger) state.fillsInUs = fullUs;
  state.mostOwedUs = state.fillsInUs;
  return struct.pack("<d", state.fillsInUs);
}

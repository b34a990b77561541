// leaky-bucket: shapes. An admitted request is told to wait, so that departures are window ÷ quota apart; at most `burst`
// wait, more are refused. Seen from the counter it is a token bucket with room for one that departs and `burst` that wait:
// what the bucket owed before the request is what the request waits.

import type { CounterState } from "./counter-state.ts";
import { type Bucket, bucketOf } from "./token-bucket.ts";
import { multiplyDivide } from "./wide-multiply.ts";

export interface LeakyBucket extends Bucket {
  readonly algorithm: "leaky-bucket";
}

/** @param quota departures per window, 1…2^31 @param windowUs 1,000…366 days @param burst units that may wait, 1…2^31 */
export function leakyBucket(quota: number, windowUs: number, burst: number): LeakyBucket {
  return bucketOf("leaky-bucket", quota, windowUs, burst + 1);
}

/** How long the request that `admits` has just judged waits, in µs; a started µs counts whole. */
export function leakyBucketDelayUs(bucket: Bucket, state: CounterState, nowUs: number, cost: number): number {
  const own = multiplyDivide(cost, bucket.unitRest, bucket.quota);
  const owedUs = state.nextAtUs - nowUs - cost * bucket.unitUs - own.quotient;
  return Math.max(0, owedUs + Math.ceil((state.nextCount - own.remainder) / bucket.quota));
}

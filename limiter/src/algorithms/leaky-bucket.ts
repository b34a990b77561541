// leaky-bucket: shapes traffic. An admitted request waits, so that departures are window ÷ quota apart. At most `burst` units
// wait; further ones are refused. The counter is a token bucket with room for one unit that departs and `burst` that wait: a
// request waits for what the bucket owed before it.

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

/** Returns how long the request that `admits` has just decided waits, in µs; a started µs counts as a whole one. */
export function leakyBucketDelayUs(bucket: Bucket, state: CounterState, nowUs: number, cost: number): number {
  const own = multiplyDivide(cost, bucket.unitRest, bucket.quota);
  const owedUs = state.nextAtUs - nowUs - cost * bucket.unitUs - own.quotient;
  return Math.max(0, owedUs + Math.ceil((state.nextCount - own.remainder) / bucket.quota));
}

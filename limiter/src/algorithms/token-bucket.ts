// token-bucket: holds `burst` units, starts full, and refills `quota` units per window continuously.
//
// The state is one moment: when the bucket will be full again (GCRA calls it the theoretical arrival time). A request moves it
// ahead by cost × window ÷ quota, and is allowed while the moment stays within burst × window ÷ quota of now. That quotient is
// rarely whole, so a moment consists of whole µs and a count of quota-ths of a µs. No fraction is lost, however long the bucket
// lives.

import { type CounterState, clockToleranceUs } from "./counter-state.ts";
import { type Decision, never } from "./decision.ts";
import { maxExact, multiplyDivide } from "./wide-multiply.ts";

export interface Bucket {
  readonly quota: number;
  readonly windowUs: number;
  readonly burst: number;
  /** How long one unit takes to refill: whole µs, and quota-ths of a µs. */
  readonly unitUs: number;
  readonly unitRest: number;
  /** How long the whole bucket takes to refill: whole µs, and quota-ths of a µs. */
  readonly fullUs: number;
  readonly fullRest: number;
  readonly toleranceUs: number;
}

export interface TokenBucket extends Bucket {
  readonly algorithm: "token-bucket";
}

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days @param burst capacity in units, 1…2^31 */
export function tokenBucket(quota: number, windowUs: number, burst: number): TokenBucket {
  return bucketOf("token-bucket", quota, windowUs, burst);
}

export function bucketOf<Name extends string>(
  algorithm: Name,
  quota: number,
  windowUs: number,
  burst: number,
): Bucket & { readonly algorithm: Name } {
  const full = multiplyDivide(burst, windowUs, quota);
  const unitRest = windowUs % quota;
  return {
    algorithm,
    quota,
    windowUs,
    burst,
    unitUs: (windowUs - unitRest) / quota,
    unitRest,
    fullUs: full.quotient,
    fullRest: full.remainder,
    toleranceUs: clockToleranceUs(windowUs),
  };
}

/**
 * Returns whether a request of `cost` may go on.
 *
 * A debt beyond what this bucket can owe means that the clock stepped back, or that the burst was made smaller. The bucket waits
 * for a small excess. For a larger one, waiting would lock the key out: the bucket becomes empty as of now, and this state is to
 * be saved.
 */
export function admitsTokenBucket(bucket: Bucket, state: CounterState, nowUs: number, cost: number): boolean {
  let atUs = state.atUs;
  let rest = state.count;
  const beyondUs = atUs - nowUs - bucket.fullUs - bucket.toleranceUs;
  if (atUs < nowUs) {
    atUs = nowUs;
    rest = 0;
  } else if (beyondUs > 0 || (beyondUs === 0 && rest > bucket.fullRest)) {
    atUs = nowUs + bucket.fullUs;
    // A started µs counts as a whole one: gateways that take turns make no debt smaller.
    state.forgivenUs = state.atUs - atUs + (rest > bucket.fullRest ? 1 : 0);
    rest = bucket.fullRest;
    state.atUs = atUs;
    state.count = rest;
    state.stepped = true;
  } else if (rest >= bucket.quota) {
    // The state was written under a larger quota. The fraction of a µs does not matter now.
    rest = 0;
  }

  const restAfter = rest + cost * bucket.unitRest;
  if (restAfter < maxExact) {
    rest = restAfter % bucket.quota;
    atUs += cost * bucket.unitUs + (restAfter - rest) / bucket.quota;
  } else {
    const carried = multiplyDivide(cost, bucket.unitRest, bucket.quota);
    rest += carried.remainder;
    atUs += cost * bucket.unitUs + carried.quotient;
    if (rest >= bucket.quota) {
      rest -= bucket.quota;
      atUs += 1;
    }
  }
  state.nextAtUs = atUs;
  state.nextCount = rest;

  const aheadUs = atUs - nowUs;
  return aheadUs < bucket.fullUs || (aheadUs === bucket.fullUs && rest <= bucket.fullRest);
}

/**
 * Refunds a charge after which the bucket was going to be full again at `chargedAtUs`, as far as the units have not refilled
 * meanwhile. What later charges took stays owed in full. Never makes the bucket fuller than full.
 */
export function refundTokenBucket(
  bucket: Bucket,
  state: CounterState,
  nowUs: number,
  chargedAtUs: number,
  cost: number,
): void {
  if (chargedAtUs < nowUs) return;
  const returned = multiplyDivide(cost, bucket.unitRest, bucket.quota);
  let rest = state.count - returned.remainder;
  let atUs = state.atUs - cost * bucket.unitUs - returned.quotient;
  if (rest < 0) {
    rest += bucket.quota;
    atUs -= 1;
  }
  const laterUs = state.atUs - chargedAtUs;
  const leastUs = Math.max(nowUs + laterUs, 0);
  if (atUs < leastUs) {
    atUs = leastUs;
    // Of the later charges' fractions of a µs only the sum is known.
    rest = laterUs > 0 ? state.count : 0;
  }
  state.atUs = atUs;
  state.count = rest;
}

export function describeTokenBucket(
  bucket: Bucket,
  state: CounterState,
  nowUs: number,
  cost: number,
  decision: Decision,
): void {
  let owedUs = state.atUs - nowUs;
  let owedRest = state.count;
  if (owedUs < 0) {
    owedUs = 0;
    owedRest = 0;
  } else if (owedRest >= bucket.quota) {
    owedRest = 0;
  }
  decision.limit = bucket.burst;
  decision.remaining = Math.max(0, unitsIn(bucket, bucket.fullUs - owedUs, bucket.fullRest - owedRest));
  decision.resetAfterUs = Math.min(owedRest > 0 ? owedUs + 1 : owedUs, maxExact);
  if (decision.allowed) {
    decision.retryAfterUs = 0;
  } else if (cost > bucket.burst) {
    decision.retryAfterUs = never;
  } else {
    // The wait ends when the debt has shrunk to what the bucket can owe after this request; a started µs counts as a whole one.
    const waitUs = state.nextAtUs - nowUs - bucket.fullUs;
    decision.retryAfterUs = Math.min(waitUs + Math.ceil((state.nextCount - bucket.fullRest) / bucket.quota), maxExact);
  }
}

/**
 * Makes the bucket owe at least `units` as of `atUs`, as if it had not refilled further until then. This is for units that have
 * been debited and may still be spent. At most the whole burst is owed this way.
 */
export function owesAtLeast(bucket: Bucket, state: CounterState, atUs: number, units: number): void {
  if (units > 0) {
    const owed = multiplyDivide(Math.min(units, bucket.burst), bucket.windowUs, bucket.quota);
    const fullAtUs = atUs + owed.quotient;
    if (state.atUs < fullAtUs || (state.atUs === fullAtUs && state.count < owed.remainder)) {
      state.atUs = fullAtUs;
      state.count = owed.remainder;
    }
  }
}

/**
 * Charges units that were already taken, whether or not the bucket holds them. Beyond its burst it may owe at most another burst,
 * and no more than the clock tolerance allows.
 *
 * @param units 1 or more
 * @returns how many were charged
 */
export function overdrawTokenBucket(bucket: Bucket, state: CounterState, nowUs: number, units: number): number {
  // This brings the state into its legal range first.
  admitsTokenBucket(bucket, state, nowUs, 1);
  const owedUs = Math.max(state.atUs - nowUs, 0);
  const beyondUs = Math.min(bucket.toleranceUs, bucket.fullUs);
  const taken = Math.min(units, unitsIn(bucket, Math.max(bucket.fullUs + beyondUs - owedUs, 0), 0));
  if (taken < 1) return 0;
  admitsTokenBucket(bucket, state, nowUs, taken);
  state.atUs = state.nextAtUs;
  state.count = state.nextCount;
  return taken;
}

/** Returns how long so many units take to refill, in µs; a started µs counts as a whole one. */
export function refillUs(bucket: Bucket, units: number): number {
  const { quotient, remainder } = multiplyDivide(units, bucket.windowUs, bucket.quota);
  return remainder > 0 ? quotient + 1 : quotient;
}

/** Returns how many whole units refill in a stretch of time: floor((us + rest ÷ quota) × quota ÷ window). */
function unitsIn(bucket: Bucket, us: number, rest: number): number {
  const exact = us * bucket.quota + rest;
  if (exact < maxExact) return Math.floor(exact / bucket.windowUs);
  // `%` is not used here: beyond 2^53 it is exact in JavaScript only.
  const windows = Math.floor(us / bucket.windowUs);
  const part = multiplyDivide(bucket.quota, Math.max(us - windows * bucket.windowUs, 0), bucket.windowUs);
  const whole = windows * bucket.quota + part.quotient;
  return whole + Math.floor((part.remainder + rest) / bucket.windowUs);
}

// token-bucket: holds `burst` units, starts full, refills `quota` per window without steps.
//
// What is stored is one moment: when the bucket will be full again (the field's GCRA calls it the theoretical arrival
// time). A request moves it ahead by cost × window ÷ quota, and is allowed while it stays within burst × window ÷ quota
// of now. That quotient is rarely whole, so a moment is whole µs plus a count of quota-ths of one: no fraction is lost,
// however long the bucket lives.

import { type CounterState, clockToleranceUs } from "./counter-state.ts";
import { type Decision, never } from "./decision.ts";
import { maxExact, multiplyDivide } from "./wide-multiply.ts";

export interface Bucket {
  readonly quota: number;
  readonly windowUs: number;
  readonly burst: number;
  /** What one unit takes to refill: whole µs, and quota-ths of a µs. */
  readonly unitUs: number;
  readonly unitRest: number;
  /** What the whole bucket takes to refill: whole µs, and quota-ths of a µs. */
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
 * A debt beyond what this bucket can owe means that the clock stepped back, or that burst was made smaller. A little beyond
 * is waited for; further beyond, waiting would lock the key out: the bucket is empty as of now, and says so from then on.
 */
export function admitsTokenBucket(bucket: Bucket, state: CounterState, nowUs: number, cost: number): boolean {
  let atUs = state.atUs;
  let rest = state.count;
  if (atUs < nowUs) {
    atUs = nowUs;
    rest = 0;
  } else if (atUs - nowUs > bucket.fullUs + bucket.toleranceUs) {
    atUs = nowUs + bucket.fullUs;
    rest = bucket.fullRest;
    state.atUs = atUs;
    state.count = rest;
    state.stepped = true;
  } else if (rest >= bucket.quota) {
    // Written under a larger quota; the fraction of a µs is worth nothing now.
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
 * Gives back what a charge took that left the bucket full again at `chargedAtUs`, as far as it has not come back by itself:
 * what later charges took stays owed whole. Never makes the bucket fuller than full.
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
    // Of the later charges' fraction of a µs only the sum is known.
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
    // Until the debt has shrunk to what the bucket can owe after this request; a started µs counts whole.
    const waitUs = state.nextAtUs - nowUs - bucket.fullUs;
    decision.retryAfterUs = Math.min(waitUs + Math.ceil((state.nextCount - bucket.fullRest) / bucket.quota), maxExact);
  }
}

/**
 * Makes the bucket owe at least `units` as of `atUs`, as if it had not refilled further until then: for units that have been
 * debited and may still be spent. More than the whole bucket it cannot owe.
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
 * Charges units that were taken already, whether the bucket holds them or not. What it may owe beyond its burst is another burst,
 * and no more than is waited for where a clock has stepped back.
 *
 * @param units 1 or more
 * @returns how many were charged
 */
export function overdrawTokenBucket(bucket: Bucket, state: CounterState, nowUs: number, units: number): number {
  // Brings the state to a legal one first.
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

/** How long so many units take to refill, in µs; a started µs counts whole. */
export function refillUs(bucket: Bucket, units: number): number {
  const { quotient, remainder } = multiplyDivide(units, bucket.windowUs, bucket.quota);
  return remainder > 0 ? quotient + 1 : quotient;
}

/** How many whole units a stretch of time refills: floor((us + rest ÷ quota) × quota ÷ window). */
function unitsIn(bucket: Bucket, us: number, rest: number): number {
  const exact = us * bucket.quota + rest;
  if (exact < maxExact) return Math.floor(exact / bucket.windowUs);
  // Not `%`, which beyond 2^53 is exact in JavaScript alone.
  const windows = Math.floor(us / bucket.windowUs);
  const part = multiplyDivide(bucket.quota, Math.max(us - windows * bucket.windowUs, 0), bucket.windowUs);
  const whole = windows * bucket.quota + part.quotient;
  return whole + Math.floor((part.remainder + rest) / bucket.windowUs);
}

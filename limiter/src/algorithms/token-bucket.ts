// token-bucket: holds `burst` units, starts full, refills `quota` per window without steps.
//
// What is stored is one moment: when the bucket will be full again (the field's GCRA calls it the theoretical arrival
// time). A request moves it ahead by cost × window ÷ quota, and is allowed while it stays within burst × window ÷ quota
// of now. That quotient is rarely whole, so a moment is whole µs plus a count of quota-ths of one: no fraction is lost,
// however long the bucket lives.

import { type Decision, never } from "../decision.ts";
import type { CounterState } from "./counter-state.ts";
import { maxExact, multiplyDivide } from "./wide-multiply.ts";

export interface TokenBucket {
  readonly algorithm: "token-bucket";
  readonly quota: number;
  readonly windowUs: number;
  readonly burst: number;
  /** What one unit takes to refill: whole µs, and quota-ths of a µs. */
  readonly unitUs: number;
  readonly unitRest: number;
  /** What the whole bucket takes to refill: whole µs, and quota-ths of a µs. */
  readonly fullUs: number;
  readonly fullRest: number;
}

/** @param quota units per window, 1…2^31 @param windowUs 1,000…366 days @param burst capacity in units, 1…2^31 */
export function tokenBucket(quota: number, windowUs: number, burst: number): TokenBucket {
  const full = multiplyDivide(burst, windowUs, quota);
  const unitRest = windowUs % quota;
  return {
    algorithm: "token-bucket",
    quota,
    windowUs,
    burst,
    unitUs: (windowUs - unitRest) / quota,
    unitRest,
    fullUs: full.quotient,
    fullRest: full.remainder,
  };
}

/**
 * Charges `cost` to the state and returns true, or charges nothing and returns false.
 *
 * A debt beyond what this bucket can owe means that the clock stepped back, or that burst was made smaller. Up to one
 * window beyond, it is waited for: to forgive it would mint units whenever two workers' clocks differ by a few ms.
 * Further beyond, waiting would lock the key out: the bucket is empty as of now. The state says so from then on, after
 * a refusal too, and a store must keep it, or nothing would refill until the clock is back where it was.
 */
export function chargeTokenBucket(bucket: TokenBucket, state: CounterState, nowUs: number, cost: number): boolean {
  let atUs = state.atUs;
  let rest = state.count;
  if (atUs < nowUs) {
    atUs = nowUs;
    rest = 0;
  } else if (atUs - nowUs > bucket.fullUs + bucket.windowUs) {
    state.atUs = nowUs + bucket.fullUs;
    state.count = bucket.fullRest;
    return false;
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

  const aheadUs = atUs - nowUs;
  if (aheadUs > bucket.fullUs || (aheadUs === bucket.fullUs && rest > bucket.fullRest)) return false;
  state.atUs = atUs;
  state.count = rest;
  return true;
}

/** Gives back what an earlier charge of `cost` took. Never makes the bucket fuller than full. */
export function refundTokenBucket(bucket: TokenBucket, state: CounterState, cost: number): void {
  const returned = multiplyDivide(cost, bucket.unitRest, bucket.quota);
  let rest = state.count - returned.remainder;
  let atUs = state.atUs - cost * bucket.unitUs - returned.quotient;
  if (rest < 0) {
    rest += bucket.quota;
    atUs -= 1;
  }
  state.atUs = Math.max(atUs, 0);
  state.count = atUs > 0 ? rest : 0;
}

/** Fills `decision` for a request of `cost` that was just charged to `state`, or refused by it. */
export function describeTokenBucket(
  bucket: TokenBucket,
  state: CounterState,
  nowUs: number,
  cost: number,
  allowed: boolean,
  decision: Decision,
): void {
  let owedUs = state.atUs - nowUs;
  let owedRest = state.count;
  if (owedUs < 0) {
    owedUs = 0;
    owedRest = 0;
  } else if (owedUs > bucket.fullUs + bucket.windowUs) {
    owedUs = bucket.fullUs;
    owedRest = bucket.fullRest;
  } else if (owedRest >= bucket.quota) {
    owedRest = 0;
  }
  decision.allowed = allowed;
  decision.limit = bucket.burst;
  decision.remaining = Math.max(0, unitsIn(bucket, bucket.fullUs - owedUs, bucket.fullRest - owedRest));
  decision.resetAfterUs = Math.min(owedRest > 0 ? owedUs + 1 : owedUs, maxExact);
  if (allowed) {
    decision.retryAfterUs = 0;
  } else if (cost > bucket.burst) {
    decision.retryAfterUs = never;
  } else {
    // Until the debt has shrunk to full − cost × unit; a started µs counts whole.
    const taken = multiplyDivide(cost, bucket.unitRest, bucket.quota);
    const waitUs = owedUs + cost * bucket.unitUs + taken.quotient - bucket.fullUs;
    const waitRest = owedRest + taken.remainder - bucket.fullRest;
    decision.retryAfterUs = Math.min(waitUs + Math.ceil(waitRest / bucket.quota), maxExact);
  }
}

/** How many whole units a stretch of time refills: floor((us + rest ÷ quota) × quota ÷ window). */
function unitsIn(bucket: TokenBucket, us: number, rest: number): number {
  const exact = us * bucket.quota + rest;
  if (exact < maxExact) return Math.floor(exact / bucket.windowUs);
  // Not `%`, which beyond 2^53 is exact in JavaScript alone.
  const windows = Math.floor(us / bucket.windowUs);
  const part = multiplyDivide(bucket.quota, Math.max(us - windows * bucket.windowUs, 0), bucket.windowUs);
  const whole = windows * bucket.quota + part.quotient;
  return whole + Math.floor((part.remainder + rest) / bucket.windowUs);
}

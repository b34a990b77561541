// The gateway's side of "cluster, leased": when a gateway asks Redis for units of a counter, and what it may spend meanwhile.
//
// A node's workers share one lease. Its units lie in a cell of their own, so that spending is one atomic subtraction. Only
// exchanges use the control record, `Holder`: one worker at a time, under a lock. This is what the gateway does, in the terms of
// a shared dict:
//
//   spend    If `isLive` and the cell has the cost: cell := cell − cost, by one `incr`. The units are spent if the result is not
//            negative. If it is, another worker was faster: nothing is spent, and NOTHING IS PUT BACK (what was left, less than
//            the cost, is lost). So the cell only sinks, except when whoever exchanges adds to it, and a value that this one read
//            is never less than what is left.
//   exchange `plan`; if there is something to exchange: left := incr(cell, −back), `send(…, left, undecided)`, then the message goes to
//            Redis. If no reply comes within the call's deadline: the same message again (the record has its fields `seq` to
//            `want`), or `giveUp`. A message and its successor must never both be under way: by a lock, or by one worker that
//            exchanges.
//   reply    If `acceptAnswer` says that the reply belongs to the message, at most what it honours may stay in the cell:
//            v := incr(cell, −2^40) + 2^40; then the record is written; then incr(cell, 2^40 − v + min(max(v, 0), honoured)
//            + grant). In between there is nothing to spend: if the worker is killed there, another one can send the message
//            again. A worker that knows an older deadline may go by it: that is never later than the debited units live.
//   undecided  Units of a request that another policy may still refuse count as kept, so that they can come back. They are added to
//            a number of the present `termUs` BEFORE the cell is charged, and taken out of it when the request goes on. A refund
//            adds them to another number of that same term. Whoever may exchange moves these into the cell while `isLive`. Each
//            term has its own numbers: those of an earlier one are never read again, so what was undecided then is spent.
//
// Times are those of the node's own clock, which must not step (`CLOCK_MONOTONIC`). It is read for each spend: a time that was
// read some ms ago lets a lease live that much longer. Messages carry only durations.

import type { LeaseAnswer, LeaseParameters } from "./ledger.ts";

/** With these values a hot key takes at most 25 exchanges a second. */
export const leaseParameters: LeaseParameters = { horizonUs: 100_000, lifetimeUs: 300_000 };

/** In the long run, exchanges are this many µs apart. */
const pauseUs = 42_000;
/** This many exchanges may follow one another when demand rises. */
const mostInARow = 5;
/** Below this demand, in units per horizon, each request asks Redis by itself. */
const leastDemand = 2;
/** Fewer units than this say little about the demand. */
const fewUnits = 5;
/**
 * After this time Redis is asked again in any case: other gateways may have returned units, or an operator, or Redis was emptied.
 */
const longestRefusalUs = 2_000_000;
/**
 * While other gateways hold units, Redis is asked again after this time. Within this time and twice a horizon an idle gateway
 * returns its units.
 */
const elsewhereRefusalUs = 100_000;
/** If a worker is killed, or a request waits long for another policy, undecided units count as kept for so long at most. */
const longestTermUs = 5_000_000;
/** Two clocks drift apart by less than one part in this many. */
const clockDrift = 1000;

/** All fields are numbers, so that the record can be packed into a text. Every field begins as 0. */
export interface Holder {
  /** The number of the message that was last sent. It waits for its reply while `waiting` is 1. */
  seq: number;
  waiting: number;
  /** The other fields of that message: see `LeaseMessage`. */
  acknowledged: number;
  kept: number;
  back: number;
  want: number;
  /** When that message was first sent. */
  sentUs: number;
  /** The units in the cell may be spent before this time. */
  deadlineUs: number;
  /** How long the lease was to live when Redis replied. */
  durationUs: number;
  /** Redis had nothing to grant, and is not asked before this time. */
  refusedUntilUs: number;
  /** Redis said that it has nothing to grant before this time. */
  retryAtUs: number;
  /** The moment from which the pace of exchanges counts. It is ahead of the clock after several exchanges in a row. */
  paceUs: number;
  /** 1 if the last reply granted all that was wanted, else 0. */
  plenty: number;
  /** An estimate of the units that clients ask for in a horizon. It rises quickly and falls slowly. */
  demand: number;
  /** The total of units asked for, and the time, when the estimate was made. */
  askedBefore: number;
  estimatedUs: number;
  /** When clients were last seen to ask: up to half a horizon after they did. */
  clientsAtUs: number;
  /** When the present term of undecided units began. Units that were undecided before are spent. */
  termUs: number;
}

/** What to exchange with Redis. */
export interface Plan {
  /** True if there is anything to exchange. */
  exchanges: boolean;
  /** Units to take out of the cell first, and to return to Redis. */
  back: number;
  want: number;
}

export function newHolder(): Holder {
  return {
    seq: 0,
    waiting: 0,
    acknowledged: 0,
    kept: 0,
    back: 0,
    want: 0,
    sentUs: 0,
    deadlineUs: 0,
    durationUs: 0,
    refusedUntilUs: 0,
    retryAtUs: 0,
    paceUs: 0,
    plenty: 0,
    demand: 0,
    askedBefore: 0,
    estimatedUs: 0,
    clientsAtUs: 0,
    termUs: 0,
  };
}

/** Returns whether the units in the cell may be spent. */
export function isLive(holder: Holder, nowUs: number): boolean {
  return nowUs < holder.deadlineUs;
}

/**
 * Returns what happens to a request when the cell has no units for it. "exact": Redis decides it by itself, as for a policy that
 * is not leased. "ask": it waits for the exchange that is under way, or makes one, and tries the cell again. "refuse": it is
 * refused until `refusedUntil`.
 *
 * @param cost units; a request that needs more than a lease brings is decided exactly
 */
export function wayFor(holder: Holder, cost: number, nowUs: number): "exact" | "ask" | "refuse" {
  if (nowUs < holder.refusedUntilUs) return "refuse";
  if (holder.demand < leastDemand || cost * 2 > holder.demand) return "exact";
  if (holder.waiting === 1 || mayAsk(holder, nowUs)) return "ask";
  return "refuse";
}

/** Returns the earliest time at which a refused request may come again, on the holder's clock. */
export function refusedUntil(holder: Holder): number {
  return Math.max(holder.retryAtUs, holder.paceUs - pauseUs * (mostInARow - 1));
}

/**
 * Returns what to exchange with Redis now. Called when units are spent, and also every few ms so that idle units are returned.
 *
 * @param units in the cell; a negative number means none
 * @param undecided units that were taken from the cell and may come back
 * @param asked how many units clients have asked for in all, spent or refused
 */
export function plan(
  holder: Holder,
  parameters: LeaseParameters,
  units: number,
  undecided: number,
  asked: number,
  nowUs: number,
): Plan {
  estimate(holder, parameters, asked, nowUs);
  const nothing = { exchanges: false, back: 0, want: 0 };
  if (holder.waiting === 1 || !mayAsk(holder, nowUs)) return nothing;
  const leftUs = holder.deadlineUs - nowUs;
  const live = leftUs > 0 ? Math.max(units, 0) : 0;
  const idleUs = nowUs - holder.clientsAtUs;
  // The clients behind the estimate may be gone. One idle horizon is no proof: with few units, some horizons see none.
  let target = holder.demand < leastDemand || idleUs >= parameters.horizonUs * 2 ? 0 : Math.ceil(holder.demand);
  // The units were spent sooner than estimated.
  if (live === 0 && leftUs > 0 && holder.plenty === 1 && target > 0) {
    const atThatPace = Math.ceil((holder.want * parameters.horizonUs) / Math.max(nowUs - holder.sentUs, 1));
    target = Math.max(target, holder.want * 2, Math.min(atThatPace, holder.want * 8));
  }
  if (live > target && nowUs - holder.sentUs >= parameters.horizonUs) {
    return { exchanges: true, back: live - target, want: 0 };
  }
  const isRefused = nowUs < holder.refusedUntilUs;
  const want = isRefused || idleUs >= parameters.horizonUs ? 0 : Math.max(0, target - live);
  // The lease ends with its window. Then all gateways ask anew, and what lasts until then is enough.
  const isLast = holder.durationUs < parameters.lifetimeUs;
  if (live > 0 && isLast && live * parameters.horizonUs >= holder.demand * leftUs) return nothing;
  // While a third is left there is time for the exchange. An exchange also keeps units that would expire otherwise.
  const isDue = want > 0 && live * 3 <= target;
  const expires = leftUs > 0 && live + undecided > 0 && !isLast && leftUs * 2 < parameters.horizonUs;
  if (isDue || expires) return { exchanges: true, back: 0, want };
  return nothing;
}

/**
 * Makes the next message of a plan, and stores its fields in the record. May only be called while no message waits.
 *
 * @param left what was in the cell right after `back` was taken out of it
 * @param undecided what was undecided in the present term after that
 */
export function send(holder: Holder, { back, want }: Plan, left: number, undecided: number, nowUs: number): void {
  const live = isLive(holder, nowUs);
  const isSameTerm = live && nowUs < holder.termUs + longestTermUs;
  if (!isSameTerm) beginTerm(holder, nowUs);
  holder.seq += 1;
  holder.waiting = 1;
  holder.kept = live ? Math.max(left, 0) + (isSameTerm ? Math.max(undecided, 0) : 0) : 0;
  // Other workers may have spent meanwhile what was to be returned.
  holder.back = live ? Math.max(back + Math.min(left, 0), 0) : 0;
  holder.want = want;
  holder.sentUs = nowUs;
  holder.paceUs = Math.max(holder.paceUs, nowUs) + pauseUs;
}

/** Gives up the message: no reply to it will be accepted. The units that it returned may be lost, as if they were spent. */
export function giveUp(holder: Holder): void {
  holder.waiting = 0;
  holder.plenty = 0;
}

/**
 * Accepts a reply. For what to do with the cell see the head of this file.
 *
 * @returns whether the reply belongs to the message that waits; any other reply must be dropped
 */
export function acceptAnswer(holder: Holder, answer: LeaseAnswer, nowUs: number): boolean {
  if (holder.waiting === 0 || answer.seq !== holder.seq) return false;
  holder.waiting = 0;
  holder.acknowledged = answer.seq;
  // Which of the units are lost, those in the cell or undecided ones, is not known.
  if (answer.honoured < holder.kept) beginTerm(holder, nowUs);
  // Redis counts from its reply, which was later than the first sending of the message.
  holder.deadlineUs = holder.sentUs + answer.durationUs - Math.ceil(answer.durationUs / clockDrift);
  holder.durationUs = answer.durationUs;
  holder.plenty = answer.grant > 0 && answer.grant >= holder.want ? 1 : 0;
  holder.retryAtUs = answer.retryAfterUs > 0 ? nowUs + answer.retryAfterUs : 0;
  holder.refusedUntilUs = askAgainAt(holder.retryAtUs, nowUs);
  if (answer.elsewhere > 0) holder.refusedUntilUs = Math.min(holder.refusedUntilUs, nowUs + elsewhereRefusalUs);
  return true;
}

/** Returns when the last message with a reply was first sent; 0 if there was none. */
export function askedAt({ acknowledged, deadlineUs, durationUs }: Holder): number {
  return acknowledged === 0 ? 0 : deadlineUs - durationUs + Math.ceil(durationUs / clockDrift);
}

/** Returns when to ask Redis again after it said that it has nothing before `retryAtUs`. */
export function askAgainAt(retryAtUs: number, nowUs: number): number {
  return Math.min(retryAtUs, nowUs + longestRefusalUs);
}

/** Redis may have units again, so it is asked at the next opportunity. */
export function forgetRefusal(holder: Holder): void {
  holder.refusedUntilUs = 0;
  holder.retryAtUs = 0;
}

function beginTerm(holder: Holder, nowUs: number): void {
  holder.termUs = Math.max(nowUs, holder.termUs + 1);
}

function mayAsk(holder: Holder, nowUs: number): boolean {
  return holder.paceUs + pauseUs <= nowUs + pauseUs * mostInARow;
}

/**
 * Estimates the demand: at most ten times a horizon, and at most twice if few units are asked for. Otherwise one request more or
 * less would be taken for a flood.
 */
function estimate(holder: Holder, parameters: LeaseParameters, asked: number, nowUs: number): void {
  const sinceUs = nowUs - holder.estimatedUs;
  const units = asked - holder.askedBefore;
  if (units > 0) holder.clientsAtUs = nowUs;
  // The demand is at least what was asked for within one horizon. So a key that turns from cold to hot is noticed at once.
  if (sinceUs < parameters.horizonUs && units >= fewUnits && units > holder.demand) holder.demand = units;
  if (sinceUs * (units < fewUnits ? 2 : 10) < parameters.horizonUs) return;
  const seen = (units * parameters.horizonUs) / sinceUs;
  const weight = sinceUs / (sinceUs + parameters.horizonUs);
  holder.demand += (seen - holder.demand) * (seen > holder.demand ? Math.max(weight, 0.5) : weight);
  holder.askedBefore = asked;
  holder.estimatedUs = nowUs;
}

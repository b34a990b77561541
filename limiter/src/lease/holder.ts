// The side of a gateway of "cluster, leased": when it asks Redis for units of a counter, and what it may spend meanwhile.
//
// A node's workers share one lease. Its units lie in a cell of their own, so that spending is one atomic subtraction; the
// control record, `Holder`, is for whoever exchanges: one worker at a time, under a lock. What the gateway does, in the
// words of a shared dict:
//
//   spend    where `isLive`, and the cell has the cost: cell := cell − cost, by one `incr`. Spent if the result is not
//            negative. If it is, another was faster: nothing is spent, and NOTHING IS PUT BACK (what was left, less than the
//            cost, is lost). So the cell only sinks between two answers, and whoever reads it reads no less than there is.
//   exchange `plan`; where there is something to tell: left := incr(cell, −back), `send(…, left)`, then the message goes to
//            Redis. No answer within the call's deadline: the same message again (`seq` to `want` are in the record), or
//            `giveUp`. Never both a message and its successor: a lock, or one worker that exchanges.
//   hear     where `hear` says that the answer is to the message, at most what it honours may stay in the cell:
//            v := incr(cell, −2^40) + 2^40; then the record is written; then incr(cell, 2^40 − v + min(max(v, 0), honoured)
//            + grant). In between there is nothing to spend: whoever is killed there can be replaced by another who sends the
//            message again. A worker that knows an older deadline may go by that: it is never later than what was debited lives.
//   give back of a spend, to the cell: while `mayGiveBack`, and nobody can send a message meanwhile.
//
// Times are of the node's own clock, which must not step (`CLOCK_MONOTONIC`), read for each spend: a time that was read some ms
// ago lets a lease live as much longer. Only durations cross the wire.

import type { LeaseAnswer, LeaseParameters } from "./ledger.ts";

/** With these a hot key takes at most 25 exchanges a second. */
export const leaseParameters: LeaseParameters = { horizonUs: 100_000, lifetimeUs: 300_000 };

/** An exchange each so many µs, in the long run. */
const pauseUs = 42_000;
/** So many may follow one another when demand rises. */
const mostInARow = 5;
/** Fewer units a horizon than this are asked for one by one. */
const leastDemand = 2;
/** Fewer units say little about how many are asked. */
const fewUnits = 5;
/** After so long Redis is asked again in any case: others gave units back, an operator did, or Redis was emptied. */
const longestRefusalUs = 2_000_000;
/** The same while other gateways hold units: within this and twice a horizon an idle one gives them back. */
const elsewhereRefusalUs = 100_000;
/** Two clocks run apart by less than one part in so many. */
const clockDrift = 1000;

/** Numbers alone, so that it packs into a text. Everything is 0 in the beginning. */
export interface Holder {
  /** Of the message that was last sent, which waits for its answer while `waiting` is 1. */
  seq: number;
  waiting: number;
  /** Its other fields: see `LeaseMessage`. */
  acknowledged: number;
  kept: number;
  back: number;
  want: number;
  /** When it was sent first. */
  sentUs: number;
  /** The units in the cell may be spent before. */
  deadlineUs: number;
  /** How long the lease was to live when it was answered. */
  durationUs: number;
  /** Redis had nothing to grant, and is not asked before. */
  refusedUntilUs: number;
  /** Redis has nothing to grant before, as it said. */
  retryAtUs: number;
  /** The moment from which the pace of exchanges counts: ahead of the clock after several in a row. */
  paceUs: number;
  /** Whether the last answer granted all that was asked for. */
  plenty: number;
  /** Units asked by clients in a horizon: an estimate that follows quickly upwards and slowly downwards. */
  demand: number;
  /** The total of units asked, and the time, when the estimate was made. */
  askedBefore: number;
  estimatedUs: number;
  /** Clients were last seen to ask: up to half a horizon after they did. */
  clientsAtUs: number;
}

/** What is to be told to Redis. */
export interface Plan {
  /** Whether anything is. */
  exchanges: boolean;
  /** Units to be taken out of the cell first, and to be given back. */
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
  };
}

/** Whether what is in the cell may be spent. */
export function isLive(holder: Holder, nowUs: number): boolean {
  return nowUs < holder.deadlineUs;
}

/**
 * Where a request goes that the cell has no units for. "exact": to Redis by itself, as a policy that is not leased. "ask": it
 * waits for the exchange that is under way, or makes one, and tries the cell again. "refuse": until `refusedUntil`.
 *
 * @param cost units; one that needs more than a lease brings is decided exactly
 */
export function wayFor(holder: Holder, cost: number, nowUs: number): "exact" | "ask" | "refuse" {
  if (nowUs < holder.refusedUntilUs) return "refuse";
  if (holder.demand < leastDemand || cost * 2 > holder.demand) return "exact";
  if (holder.waiting === 1 || mayAsk(holder, nowUs)) return "ask";
  return "refuse";
}

/** When a refused request may come again, at the earliest, on the holder's clock. */
export function refusedUntil(holder: Holder): number {
  return Math.max(holder.retryAtUs, holder.paceUs - pauseUs * (mostInARow - 1));
}

/**
 * What to tell Redis now. To be asked when units are spent, and every few ms besides, so that idle units go back.
 *
 * @param units in the cell; negative is none
 * @param asked how many units clients have asked for, ever, spent or refused
 */
export function plan(holder: Holder, parameters: LeaseParameters, units: number, asked: number, nowUs: number): Plan {
  estimate(holder, parameters, asked, nowUs);
  const nothing = { exchanges: false, back: 0, want: 0 };
  if (holder.waiting === 1 || !mayAsk(holder, nowUs)) return nothing;
  const leftUs = holder.deadlineUs - nowUs;
  const live = leftUs > 0 ? Math.max(units, 0) : 0;
  const idleUs = nowUs - holder.clientsAtUs;
  // The estimate is of clients who may be gone. Of few units, some horizons see none.
  let target = holder.demand < leastDemand || idleUs >= parameters.horizonUs * 2 ? 0 : Math.ceil(holder.demand);
  // Spent sooner than the estimate had it.
  if (live === 0 && leftUs > 0 && holder.plenty === 1 && target > 0) {
    const atThatPace = Math.ceil((holder.want * parameters.horizonUs) / Math.max(nowUs - holder.sentUs, 1));
    target = Math.max(target, holder.want * 2, Math.min(atThatPace, holder.want * 8));
  }
  if (live > target && nowUs - holder.sentUs >= parameters.horizonUs) {
    return { exchanges: true, back: live - target, want: 0 };
  }
  const isRefused = nowUs < holder.refusedUntilUs;
  const want = isRefused || idleUs >= parameters.horizonUs ? 0 : Math.max(0, target - live);
  // The lease ends with a window: then everybody asks anew, and what lasts until then is enough.
  const isLast = holder.durationUs < parameters.lifetimeUs;
  if (live > 0 && isLast && live * parameters.horizonUs >= holder.demand * leftUs) return nothing;
  // While a third is left there is time for the exchange. What would expire otherwise is kept by one, too.
  const isDue = want > 0 && live * 3 <= target;
  const expires = live > 0 && !isLast && leftUs * 2 < parameters.horizonUs;
  if (isDue || expires) return { exchanges: true, back: 0, want };
  return nothing;
}

/**
 * Makes the next message of a plan; its fields are then in the record. Only while none waits.
 *
 * @param left what was in the cell right after `back` was taken out of it
 */
export function send(holder: Holder, { back, want }: Plan, left: number, nowUs: number): void {
  const live = isLive(holder, nowUs);
  holder.seq += 1;
  holder.waiting = 1;
  holder.kept = live ? Math.max(left, 0) : 0;
  // Others spent meanwhile what was to be given back.
  holder.back = live ? Math.max(back + Math.min(left, 0), 0) : 0;
  holder.want = want;
  holder.sentUs = nowUs;
  holder.paceUs = Math.max(holder.paceUs, nowUs) + pauseUs;
}

/** No answer will be listened to; what the message gave back may be lost, as units spent. */
export function giveUp(holder: Holder): void {
  holder.waiting = 0;
  holder.plenty = 0;
}

/**
 * Hears an answer. What is to be done with the cell: see above.
 *
 * @returns whether it is the answer to the message that waits; any other is to be thrown away
 */
export function acceptAnswer(holder: Holder, answer: LeaseAnswer, nowUs: number): boolean {
  if (holder.waiting === 0 || answer.seq !== holder.seq) return false;
  holder.waiting = 0;
  holder.acknowledged = answer.seq;
  // Redis counts from when it answered, which was later than the message was first sent.
  holder.deadlineUs = holder.sentUs + answer.durationUs - Math.ceil(answer.durationUs / clockDrift);
  holder.durationUs = answer.durationUs;
  holder.plenty = answer.grant > 0 && answer.grant >= holder.want ? 1 : 0;
  holder.retryAtUs = answer.retryAfterUs > 0 ? nowUs + answer.retryAfterUs : 0;
  holder.refusedUntilUs = askAgainAt(holder.retryAtUs, nowUs);
  if (answer.elsewhere > 0) holder.refusedUntilUs = Math.min(holder.refusedUntilUs, nowUs + elsewhereRefusalUs);
  return true;
}

/** When the message was first sent that was answered last; 0 when none was. */
export function askedAt({ acknowledged, deadlineUs, durationUs }: Holder): number {
  return acknowledged === 0 ? 0 : deadlineUs - durationUs + Math.ceil(durationUs / clockDrift);
}

/** When Redis is asked again that has nothing before `retryAtUs`. */
export function askAgainAt(retryAtUs: number, nowUs: number): number {
  return Math.min(retryAtUs, nowUs + longestRefusalUs);
}

/** Redis may have units again: it is asked at the next occasion. */
export function forgetRefusal(holder: Holder): void {
  holder.refusedUntilUs = 0;
  holder.retryAtUs = 0;
}

/**
 * Whether units may go back into the cell that were spent while `seq` and `heard` were those of the record. Not after the next
 * message, which told Redis that they are spent; nor after an answer: Redis may have let the gateway keep fewer.
 */
export function mayRefund(holder: Holder, seq: number, acknowledged: number, nowUs: number): boolean {
  return holder.seq === seq && holder.acknowledged === acknowledged && isLive(holder, nowUs);
}

function mayAsk(holder: Holder, nowUs: number): boolean {
  return holder.paceUs + pauseUs <= nowUs + pauseUs * mostInARow;
}

/** At most ten times a horizon, and twice where little is asked: a request more or less would be taken for a flood. */
function estimate(holder: Holder, parameters: LeaseParameters, asked: number, nowUs: number): void {
  const sinceUs = nowUs - holder.estimatedUs;
  const units = asked - holder.askedBefore;
  if (units > 0) holder.clientsAtUs = nowUs;
  // So many within a horizon, at least: a key that was cold is known at once to be no longer.
  if (sinceUs < parameters.horizonUs && units >= fewUnits && units > holder.demand) holder.demand = units;
  if (sinceUs * (units < fewUnits ? 2 : 10) < parameters.horizonUs) return;
  const seen = (units * parameters.horizonUs) / sinceUs;
  const weight = sinceUs / (sinceUs + parameters.horizonUs);
  holder.demand += (seen - holder.demand) * (seen > holder.demand ? Math.max(weight, 0.5) : weight);
  holder.askedBefore = asked;
  holder.estimatedUs = nowUs;
}

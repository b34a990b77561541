// The side of Redis of "cluster, leased": who holds how many units of a counter that have been debited and not yet spent.
//
// A ledger belongs to one policy and key values, beside the counters of its limits. Each gateway (a node, whose workers share
// the lease) has one holding in it, which its messages renew. Units are debited in every counter when they are granted, so
// that nothing is admitted that was not issued; a holding that expires counts as spent.
//
// The bound of a token bucket needs one thing more. Units that are out must not refill: the bucket would be full again and
// the units would still be to be spent. So whoever charges the counter first makes it owe what is out (`oweWhatIsOut`), the
// exact path too. Windows need nothing: a lease dies with the window, or the block, in which its units were debited.
//
// What is out is what Redis knows of, never less than what gateways can spend: they report what they have spent late, and
// give back only what they no longer have.

import { admitsAll, type Counter } from "../algorithms/charge-all.ts";
import type { CounterState, Ring } from "../algorithms/counter-state.ts";
import { emptyDecision } from "../algorithms/decision.ts";
import { charge, describe, type Rate, refund } from "../algorithms/rate.ts";
import { owesAtLeast, refillUs } from "../algorithms/token-bucket.ts";
import { maxExact } from "../algorithms/wide-multiply.ts";

/** What one gateway holds, and what it was last answered. Whole numbers; units are units of the policy's cost. */
export interface Holding {
  /** Of one life of one gateway: a gateway that has lost its record of the lease comes back under another name. */
  holder: string;
  /** Of the last message that was acted on. */
  seq: number;
  /** Units that it can still spend, as far as Redis knows: the truth or more. */
  outstanding: number;
  /** When these count as spent, in µs since the epoch by Redis' clock. */
  expiryUs: number;
  /** Units that it asked for. One that asked for none takes no share of what is left. */
  want: number;
  /** The answer to `seq`: as in `LeaseAnswer`, which has `elsewhere` besides. */
  grant: number;
  honoured: number;
  durationUs: number;
  retryAfterUs: number;
}

/** The first `count` holdings, in no order. */
export interface Ledger {
  holdings: Holding[];
  count: number;
}

/** What a gateway tells and asks. Sent again as it is, as often as it takes, until it is answered or given up. */
export interface LeaseMessage {
  readonly holder: string;
  /** Grows by one with each new message; the first is 1. */
  readonly seq: number;
  /** The last seq of which an answer was heard; 0 before the first. */
  readonly acknowledged: number;
  /** Unspent units that it keeps, and others that it gives back: it can no longer spend these. */
  readonly kept: number;
  readonly back: number;
  /** Units that it would like besides, for one horizon. */
  readonly want: number;
}

export interface LeaseAnswer {
  readonly seq: number;
  /** Units that it may spend besides. */
  readonly grant: number;
  /** How many of those it keeps it may really keep: fewer where the lease expired, or Redis lost it. */
  readonly honoured: number;
  /** How long all of these live, in µs from the moment that Redis answered `seq` first. */
  readonly durationUs: number;
  /** Nothing was granted though asked for: when one unit could be, in µs; else 0. */
  readonly retryAfterUs: number;
  /** Units that others hold, as far as Redis knows when it is asked: they may give some back. */
  readonly elsewhere: number;
}

export interface LeaseParameters {
  /** The stretch of time that `want` is for, in µs. */
  readonly horizonUs: number;
  /** How long a lease lives, if nothing ends it earlier, in µs; at most `longestLifetimeUs`. */
  readonly lifetimeUs: number;
}

/** So many units are not halved for one who asks alone: he would ask too often for the last of them. */
const fewUnits = 32;
/** An expiry further ahead means that Redis' clock stepped back. */
export const longestLifetimeUs = 10_000_000;
/** The `exchange` that had been overtaken by a later one: nothing was changed. */
export const overtaken = -1;

/** How long units must live, or a bucket refill, to be leased. */
export function leastLeasedUs(parameters: LeaseParameters): number {
  return parameters.horizonUs * 5;
}

/**
 * Whether units of the limit may be leased: where they would live long enough, and a bucket has room for the refill of as
 * long. A smaller one overflows while gateways that are asked seldom hold some of its units: by a fifth of its rate with room
 * for one horizon and two gateways, by a quarter with room for two and eight. A policy is leased where all of its limits may
 * be; the others are decided exactly.
 */
export function isLeasable(rate: Rate, parameters: LeaseParameters): boolean {
  const leastUs = leastLeasedUs(parameters);
  if (rate.algorithm === "token-bucket") return rate.burst * rate.windowUs >= rate.quota * leastUs;
  if (rate.algorithm === "fixed-window") return rate.windowUs >= leastUs;
  return rate.algorithm === "sliding-window" && rate.tickUs >= leastUs;
}

/** Of all holdings that have not expired at `atUs`. */
export function unitsOut(ledger: Ledger, atUs: number): number {
  let units = 0;
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    if (holding.expiryUs >= atUs) units += holding.outstanding;
  }
  return units;
}

/** Of all holdings that have not expired but the one at `place`. */
export function unitsElsewhere(ledger: Ledger, place: number, nowUs: number): number {
  const { expiryUs, outstanding } = ledger.holdings[place] as Holding;
  return unitsOut(ledger, nowUs) - (expiryUs >= nowUs ? outstanding : 0);
}

/**
 * Makes a counter owe what was out when each holding expired, and what is out now. To be called on a loaded counter of a
 * leased policy before anything is charged to it or given back: by the exact path too, which reads the ledger and leaves it
 * as it is. Called again, it changes nothing.
 */
export function oweWhatIsOut(ledger: Ledger, rate: Rate, state: CounterState, nowUs: number): void {
  if (rate.algorithm === "token-bucket") {
    for (let i = 0; i < ledger.count; i++) {
      const holding = ledger.holdings[i] as Holding;
      // The moment until which all that was out then had not refilled.
      const atUs = Math.min(holding.expiryUs, nowUs);
      owesAtLeast(rate, state, atUs, unitsOut(ledger, atUs));
    }
  }
}

/**
 * Acts on a message, once: repeated, it changes nothing.
 *
 * @param counters of the policy's limits, loaded; all that change are to be saved (those with `atUs` over 0)
 * @param nowUs µs since the epoch by Redis' clock
 * @returns where in the ledger the holding is that is the answer; or `overtaken`
 */
export function exchange(
  ledger: Ledger,
  counters: readonly Counter[],
  count: number,
  ring: Ring,
  nowUs: number,
  message: LeaseMessage,
  parameters: LeaseParameters,
): number {
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    oweWhatIsOut(ledger, counter.rate, counter, nowUs);
  }
  let place = placeOf(ledger, message.holder);
  const last = place < ledger.count ? (ledger.holdings[place] as Holding).seq : 0;
  if (message.seq <= last) return message.seq === last ? place : overtaken;
  forgetExpired(ledger, message.holder, nowUs);
  place = placeOf(ledger, message.holder);
  if (place === ledger.count) addHolding(ledger, message.holder);
  const holding = ledger.holdings[place] as Holding;

  // What has expired counts as spent: there is nothing to keep, and nothing to give back.
  let held = nowUs < holding.expiryUs ? holding.outstanding : 0;
  // The last answer was never heard, nor ever will be: its grant was never spent.
  const unacknowledged = message.acknowledged < holding.seq ? Math.min(holding.grant, held) : 0;
  held -= unacknowledged;
  const honoured = Math.min(message.kept, held);
  const returned = unacknowledged + Math.min(message.back, held - honoured);
  holding.seq = message.seq;
  holding.want = message.want;
  holding.honoured = honoured;
  grantUnits(ledger, holding, counters, count, ring, nowUs, returned, parameters);
  return place;
}

/** Gives units back to the counters and takes the new grant from them. */
function grantUnits(
  ledger: Ledger,
  holding: Holding,
  counters: readonly Counter[],
  count: number,
  ring: Ring,
  nowUs: number,
  returned: number,
  parameters: LeaseParameters,
): void {
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    // Not expired, so of the bucket, the window or the block that is counted now.
    if (returned > 0) refund(counter.rate, counter, ring, nowUs, counter.atUs, returned);
    counter.cost = 1;
  }
  admitsAll(counters, count, ring, nowUs);
  const decision = emptyDecision();
  let remaining = maxExact;
  let retryAfterUs = 0;
  let expiryUs = nowUs + Math.min(parameters.lifetimeUs, longestLifetimeUs);
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    describe(counter.rate, counter, ring, nowUs, 1, counter.allowed, decision);
    remaining = Math.min(remaining, decision.remaining);
    retryAfterUs = Math.max(retryAfterUs, decision.retryAfterUs);
    expiryUs = Math.min(expiryUs, endOf(counter.rate, counter));
  }

  const durationUs = expiryUs - nowUs;
  // Towards the end of a window nobody is given more than can be spent until then; but enough not to ask again at once.
  const spendingUs = Math.min(Math.max(durationUs, parameters.horizonUs / 4), parameters.horizonUs);
  const usable = Math.ceil(((holding.honoured + holding.want) * spendingUs) / parameters.horizonUs) - holding.honoured;
  const share = shareOf(remaining, askingHolders(ledger));
  let grant = Math.max(0, Math.min(usable, share, remaining));
  if (grant > 0) {
    for (let i = 0; i < count; i++) (counters[i] as Counter).cost = grant;
    if (admitsAll(counters, count, ring, nowUs)) {
      for (let i = 0; i < count; i++) {
        const counter = counters[i] as Counter;
        charge(counter.rate, counter, ring);
      }
    } else {
      grant = 0;
    }
  }
  holding.grant = grant;
  holding.outstanding = holding.honoured + grant;
  holding.expiryUs = expiryUs;
  holding.durationUs = durationUs;
  holding.retryAfterUs = grant === 0 && holding.want > 0 ? retryAfterUs : 0;
}

/**
 * Of what is left nobody is granted more than an even share, nor more than half: whoever comes next finds some, and a gateway
 * that is lost takes no more with it. A last unit goes to whoever asks first.
 */
function shareOf(remaining: number, asking: number): number {
  if (asking === 1) return Math.max(Math.floor(remaining / 2), Math.min(remaining, fewUnits));
  return Math.max(1, Math.floor(remaining / asking));
}

/** When units that are debited now have to be spent, in µs since the epoch. */
function endOf(rate: Rate, state: CounterState): number {
  if (rate.algorithm === "fixed-window") return state.nextAtUs + rate.windowUs;
  if (rate.algorithm === "sliding-window") return state.nextAtUs + rate.tickUs;
  return maxExact;
}

/** For how long a store keeps a ledger, in µs: as long as a counter owes something for what it says. */
export function ledgerLifetimeUs(ledger: Ledger, counters: readonly Counter[], count: number, nowUs: number): number {
  let lastUs = nowUs;
  let units = 0;
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    lastUs = Math.max(lastUs, holding.expiryUs);
    units += holding.outstanding;
  }
  let owedUs = 0;
  for (let i = 0; i < count; i++) {
    const { rate } = counters[i] as Counter;
    if (rate.algorithm === "token-bucket") owedUs = Math.max(owedUs, refillUs(rate, units));
  }
  return lastUs - nowUs + owedUs + 1;
}

/** Where the holder's holding is; `count` where it has none. */
function placeOf(ledger: Ledger, holder: string): number {
  let place = 0;
  while (place < ledger.count && (ledger.holdings[place] as Holding).holder !== holder) place += 1;
  return place;
}

/** Drops what has expired, but the sender's own. */
function forgetExpired(ledger: Ledger, sender: string, nowUs: number): void {
  let kept = 0;
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    // Redis' clock stepped back: nobody's units live so long.
    holding.expiryUs = Math.min(holding.expiryUs, nowUs + longestLifetimeUs);
    if (nowUs < holding.expiryUs || holding.holder === sender) {
      ledger.holdings[kept] = holding;
      kept += 1;
    }
  }
  ledger.count = kept;
}

function addHolding(ledger: Ledger, holder: string): void {
  ledger.holdings[ledger.count] = {
    holder,
    seq: 0,
    outstanding: 0,
    expiryUs: 0,
    want: 0,
    grant: 0,
    honoured: 0,
    durationUs: 0,
    retryAfterUs: 0,
  };
  ledger.count += 1;
}

function askingHolders(ledger: Ledger): number {
  let asking = 0;
  for (let i = 0; i < ledger.count; i++) if ((ledger.holdings[i] as Holding).want > 0) asking += 1;
  return Math.max(1, asking);
}

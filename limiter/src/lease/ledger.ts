// The Redis side of "cluster, leased": which gateway holds how many units of a counter that are debited and not yet spent.
//
// A ledger belongs to one policy and its key values, beside the counters of the policy's limits. Each gateway (a node, whose
// workers share the lease) has one holding in it, which its messages renew. Units are debited from every counter when they are
// granted, so that nothing is admitted that was not issued. A holding that expires counts as spent.
//
// The bound of a token bucket needs one more rule. Units that are out must not refill; otherwise the bucket would be full again
// while the units could still be spent. So whoever charges the counter first makes it owe what is out (`oweWhatIsOut`), on the
// exact path too. Windows need no such rule: a lease ends with the window, or the block, in which its units were debited.
//
// The units that are out are those that Redis knows of. They are never fewer than gateways can spend: gateways report late what
// they have spent, and return only units that they no longer have.

import { endAfterUs } from "../algorithms/calendar-window.ts";
import { admitsAll, type Counter, describeCounter } from "../algorithms/charge-all.ts";
import type { CounterState, Ring } from "../algorithms/counter-state.ts";
import { emptyDecision } from "../algorithms/decision.ts";
import { lifetimeWindowUs } from "../algorithms/fixed-window.ts";
import { charge, type Rate, refund } from "../algorithms/rate.ts";
import type { ShapedBucket } from "../algorithms/shaped-bucket.ts";
import { owesAtLeast, refillUs } from "../algorithms/token-bucket.ts";
import { maxExact } from "../algorithms/wide-multiply.ts";

/** What one gateway holds, and the last reply to it. All numbers are whole; units are units of the policy's cost. */
export interface Holding {
  /** Names one life of one gateway: a gateway that has lost its record of the lease comes back under another name. */
  holder: string;
  /** The number of the last message that was acted on. */
  seq: number;
  /** Units that the gateway can still spend, as far as Redis knows: the true number or more. */
  outstanding: number;
  /** When these units count as spent, in µs since the epoch by Redis' clock. */
  expiryUs: number;
  /** Units that the gateway asked for. One that asked for none takes no share of what is left. */
  want: number;
  /** The reply to `seq`, as in `LeaseAnswer`, which also has `elsewhere`. */
  grant: number;
  honoured: number;
  durationUs: number;
  retryAfterUs: number;
}

/** A ledger is the first `count` holdings, in no order. */
export interface Ledger {
  holdings: Holding[];
  count: number;
}

/** What a gateway reports and requests. The same message is sent again until it is replied to or given up. */
export interface LeaseMessage {
  readonly holder: string;
  /** Grows by one with each new message; the first is 1. */
  readonly seq: number;
  /** The last seq whose reply was received; 0 before the first. */
  readonly acknowledged: number;
  /** Unspent units that the gateway keeps, and units that it returns and can no longer spend. */
  readonly kept: number;
  readonly back: number;
  /** Further units that it would like, for one horizon. */
  readonly want: number;
}

export interface LeaseAnswer {
  readonly seq: number;
  /** Further units that it may spend. */
  readonly grant: number;
  /** How many of the units that it keeps it may really keep: fewer if the lease expired, or Redis lost it. */
  readonly honoured: number;
  /** How long all of these live, in µs from the moment of Redis' first reply to `seq`. */
  readonly durationUs: number;
  /** If units were wanted and none was granted: µs until one unit could be; else 0. */
  readonly retryAfterUs: number;
  /** Units that other gateways hold, as far as Redis knows when it is asked: they may return some. */
  readonly elsewhere: number;
}

export interface LeaseParameters {
  /** The time for which `want` is to last, in µs. */
  readonly horizonUs: number;
  /** How long a lease lives if nothing ends it earlier, in µs; at most `longestLifetimeUs`. */
  readonly lifetimeUs: number;
}

/** Up to this many units are not halved for a gateway that asks alone: it would ask too often for the last of them. */
const fewUnits = 32;
/** An expiry further ahead means that Redis' clock stepped back. */
export const longestLifetimeUs = 10_000_000;
/** Returned by `exchange` when a later message has overtaken this one: nothing was changed. */
export const overtaken = -1;

/** Returns how long units must live, or a bucket refill, to be leased. */
export function leastLeasedUs(parameters: LeaseParameters): number {
  return parameters.horizonUs * 5;
}

/**
 * Returns whether units of the limit may be leased: they must live long enough, and a bucket must have room for the refill of as
 * long. A smaller bucket overflows while gateways with few requests hold some of its units: by a fifth of its rate with room for
 * one horizon and two gateways, by a quarter with room for two horizons and eight gateways. A policy is leased if all of its
 * limits may be; other policies are decided exactly.
 */
export function isLeasable(rate: Rate, parameters: LeaseParameters): boolean {
  const leastUs = leastLeasedUs(parameters);
  if (rate.algorithm === "token-bucket" || isLeasableShape(rate)) {
    return rate.burst * rate.windowUs >= rate.quota * leastUs;
  }
  // A lifetime's total is spent once. Units that a lost gateway takes with it would be lost for good.
  if (rate.algorithm === "fixed-window") return rate.windowUs >= leastUs && rate.windowUs !== lifetimeWindowUs;
  if (rate.algorithm === "calendar-window") return true;
  return rate.algorithm === "sliding-window" && rate.tickUs >= leastUs;
}

/** Returns the units of all holdings that have not expired at `atUs`. */
export function unitsOut(ledger: Ledger, atUs: number): number {
  let units = 0;
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    if (holding.expiryUs >= atUs) units += holding.outstanding;
  }
  return units;
}

/** Returns the units of all holdings that have not expired, except the one at `place`. */
export function unitsElsewhere(ledger: Ledger, place: number, nowUs: number): number {
  const { expiryUs, outstanding } = ledger.holdings[place] as Holding;
  return unitsOut(ledger, nowUs) - (expiryUs >= nowUs ? outstanding : 0);
}

/**
 * Makes a counter owe what was out when each holding expired, and what is out now. It must be called on a loaded counter of a
 * leased policy before anything is charged or refunded. This holds for the exact path too, which reads the ledger and leaves it
 * unchanged. A second call changes nothing.
 */
export function oweWhatIsOut(ledger: Ledger, rate: Rate, state: CounterState, nowUs: number): void {
  if (rate.algorithm === "token-bucket" || isLeasableShape(rate)) {
    // A counter that its store has lost does not begin full either.
    const isLost = rate.algorithm === "shaped-bucket" && state.atUs === 0 && state.count === 0;
    const missing = isLost ? rate.burst - rate.initial : 0;
    for (let i = 0; i < ledger.count; i++) {
      const holding = ledger.holdings[i] as Holding;
      // Until this moment, none of the units that were out then had refilled.
      const atUs = Math.min(holding.expiryUs, nowUs);
      const units = unitsOut(ledger, atUs);
      if (units > 0) owesAtLeast(rate, state, atUs, units + missing);
    }
  }
}

/** While a bucket warms, its clock is not that of the ledger. */
function isLeasableShape(rate: Rate): rate is ShapedBucket {
  return rate.algorithm === "shaped-bucket" && rate.warmUpUs === 0;
}

/**
 * Acts on a message once: if the message is repeated, nothing changes.
 *
 * @param counters of the policy's limits, loaded; all that change must be saved (those with `atUs` over 0)
 * @param nowUs µs since the epoch by Redis' clock
 * @returns the index in the ledger of the holding that is the reply; or `overtaken`
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

  // Expired units count as spent, so none of them can be kept or returned.
  let held = nowUs < holding.expiryUs ? holding.outstanding : 0;
  // The gateway has not received the last reply and never will, so it never spent that grant.
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

/** Refunds the returned units to the counters and charges the new grant to them. */
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
    // The units have not expired, so they belong to the bucket, the window or the block that is counted now.
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
    describeCounter(counter, ring, nowUs, 1, decision);
    remaining = Math.min(remaining, decision.remaining);
    retryAfterUs = Math.max(retryAfterUs, decision.retryAfterUs);
    expiryUs = Math.min(expiryUs, endOf(counter.rate, counter));
  }

  const durationUs = expiryUs - nowUs;
  // Towards the end of a window no gateway gets more than it can spend until then, but enough that it does not ask again at once.
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
 * Returns the most units that one gateway may get: no more than an even share of what is left, nor more than half. So the next
 * gateway finds some, and a gateway that is lost takes no more with it. The last unit goes to whoever asks first.
 */
function shareOf(remaining: number, asking: number): number {
  if (asking === 1) return Math.max(Math.floor(remaining / 2), Math.min(remaining, fewUnits));
  return Math.max(1, Math.floor(remaining / asking));
}

/** Returns when units that are debited now must have been spent, in µs since the epoch. */
function endOf(rate: Rate, state: CounterState): number {
  if (rate.algorithm === "fixed-window") return state.nextAtUs + rate.windowUs;
  if (rate.algorithm === "calendar-window") return endAfterUs(rate, state.nextAtUs);
  if (rate.algorithm === "sliding-window") return state.nextAtUs + rate.tickUs;
  return maxExact;
}

/** Returns how long a store keeps a ledger, in µs: as long as a counter owes something because of it. */
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
    if (rate.algorithm === "token-bucket" || isLeasableShape(rate)) owedUs = Math.max(owedUs, refillUs(rate, units));
  }
  return lastUs - nowUs + owedUs + 1;
}

/** Returns the index of the holder's holding; `count` if it has none. */
function placeOf(ledger: Ledger, holder: string): number {
  let place = 0;
  while (place < ledger.count && (ledger.holdings[place] as Holding).holder !== holder) place += 1;
  return place;
}

/** Drops expired holdings, except the sender's own. */
function forgetExpired(ledger: Ledger, sender: string, nowUs: number): void {
  let kept = 0;
  for (let i = 0; i < ledger.count; i++) {
    const holding = ledger.holdings[i] as Holding;
    // Redis' clock stepped back: no units live that long.
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

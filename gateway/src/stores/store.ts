// The seam between requests and the places where counters are. A policy names its store when it is compiled; whoever decides a
// request knows this interface and nothing else of a store. "share" decides instead of the stores of a fleet while Redis does not.

import type { CompiledLimit, CompiledPolicy, StoreName } from "../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { listWithRoom } from "../runtime/tables.ts";

export interface Store {
  /**
   * Decides this check and charges it: all of its limits or none. May yield.
   *
   * @param outcome gets what the limits decide, and the charge if the check is allowed
   * @returns whether the check is allowed; undefined: the store could not decide
   */
  readonly admit: (this: void, check: Check, outcome: Outcome) => boolean | undefined;
  /**
   * Tells what `admit` would decide now, and charges nothing. May yield.
   *
   * @param merged gets what the limits would decide, with the units that are left now
   * @returns whether the check would be allowed; undefined: the store cannot say
   */
  readonly peek: (this: void, check: Check, merged: MergedDecision) => boolean | undefined;
  /** Refunds these charges, as far as their units still count. May yield. */
  readonly refund: (this: void, charges: readonly Charge[]) => void;
  /** Does the same where nothing may yield: what needs a lock or Redis is refunded by a timer. */
  readonly refundLater: (this: void, charge: Charge) => void;
  /** Renews slots of concurrency for another life. May yield. */
  readonly renew: (this: void, charges: readonly Charge[], note: NoteRenewal) => void;
  /** Returns whether a deferred charge may be made at once, without yielding. */
  readonly chargesAtOnce: (this: void) => boolean;
  /**
   * Charges what responses took, whether the limits have it or not. May yield, unless `chargesAtOnce`.
   *
   * @param notCharged is called at once for each that was certainly not charged
   */
  readonly chargeDeferred: (
    this: void,
    charges: readonly DeferredCharge[],
    notCharged: (this: void, charge: DeferredCharge) => void,
  ) => void;
  /**
   * Charges units that were used already to every limit, whether the limits have them or not. May yield.
   *
   * @param units 1 or more, whatever the policy's cost is
   * @param merged gets what the limits have left
   * @returns how many were charged beyond what was left, of the limit where these are most; undefined: the store did not say that it has charged
   */
  readonly report: (this: void, check: Check, units: number, merged: MergedDecision) => number | undefined;
  /** Drops what this nginx keeps about these counters, which an operator has changed. May yield. */
  readonly forget: (this: void, policy: CompiledPolicy, keyValues: string) => void;
}

/** The places where slots of named holds are noted. A policy with slots is never leased. */
export type HoldPlace = "node" | "share" | "exact";

/** Slots of one policy that a caller holds under a name that nobody can guess, from one request to the next. */
export interface NamedHold {
  /** At the cost of the hold. */
  readonly policy: CompiledPolicy;
  /** Those of the policy that are concurrency, or a node's share of them: at least one. */
  readonly limits: readonly CompiledLimit[];
  readonly keyValues: string;
  readonly name: string;
  /** For how long it is held unless it is renewed. Undefined: for as long as its slots live. */
  readonly ttlMs: number | undefined;
}

/** What a store does for callers who hold slots, beside `Store`. Each of these may yield. */
export interface HoldStore {
  /**
   * Notes what a caller holds, for as long as its slots live.
   *
   * @param heldAt for each limit the moment that its slots were taken in
   * @returns whether it is noted
   */
  readonly note: (this: void, hold: NamedHold, heldAt: readonly number[]) => boolean;
  /** Renews its slots for another life. @returns false: nobody holds slots under this name; undefined: the store could not say */
  readonly renew: (this: void, hold: NamedHold) => boolean | undefined;
  /** Frees its slots, once. @returns as `renew` */
  readonly release: (this: void, hold: NamedHold) => boolean | undefined;
  /** Frees its slots if its time to live is over. @returns false: there is nothing to free, or it was renewed; undefined: the store could not say */
  readonly end: (this: void, hold: NamedHold) => boolean | undefined;
}

/**
 * Receives the moment in which the slots of one limit are held now, in µs since the epoch; undefined: they were lost, and nobody
 * could have them again yet.
 */
export type NoteRenewal = (this: void, charge: Charge, limitIndex: number, renewedAtUs: number | undefined) => void;

/** One policy that a request is held to, and the key values that pick its counters. */
export interface Check {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Filled by a charge: for each limit, the moment that its counter has afterwards, in µs since the epoch. A refund needs it. */
  readonly chargedAt: number[];
  /** Gets the decisions of this check's limits; absent: the outcome's merged decision gets them. */
  merged?: MergedDecision;
  /** The check is decided by itself, more than once perhaps: its caller counts the decision. */
  readonly separate: boolean;
  /** Redis did not decide. */
  degraded: boolean;
  /** It was not asked, by choice: it is overloaded. */
  overloaded?: boolean;
  /** Redis decides it however slow it is, because the request waits for Redis anyway. */
  asksRedis?: boolean;
  /** Whether the check's own limits allow it, whatever those of others say. Undefined: it was not decided. */
  allowed: boolean | undefined;
  /** What Redis was last sent about it, if the reply was not waited for or was lost. */
  unanswered?: Unanswered | undefined;
  /** Redis has charged it, and did not decide another policy of the request. */
  charged?: Charged;
  /** Other policies of the request are charged apart from it: if the client goes away, Redis refunds it as they are refunded. */
  isOneOfMany?: boolean;
}

/** What a request is told in the end, and what it was charged on the way. */
export interface Outcome {
  readonly merged: MergedDecision;
  /** Refunded if the request is refused after all. */
  readonly charges: Charge[];
  /** Slots that the request holds before it is decided: released if it is refused after all. Absent: none. */
  held?: Hold[];
  /** Why the request is refused although no limit refuses it; undefined: nothing but limits decides. */
  denial: Denial | undefined;
  /** The first policy that was decided without Redis, which did not decide. Absent: none. */
  degraded?: CompiledPolicy;
  /** That was by choice: Redis is overloaded. */
  overloaded?: boolean;
  /** What the first policy in shadow mode decided that would have refused the request. Absent: none would have. */
  shadow?: MergedDecision;
  /** The first policy that the request is exempt from. Absent: there is none. */
  exempt?: CompiledPolicy;
  /** How long the request has waited in line. Absent: not at all. */
  waitedUs?: number;
}

export interface Denial {
  readonly policy: CompiledPolicy;
  readonly reason: "banned" | "key-missing" | "key-ambiguous" | "cost-invalid" | "undecided";
}

/** For the log, if a refund failed. */
export const stayCharged = "a refund failed: units stay charged, and slots stay taken until their time to live is over";

/** @param separate as in the check */
export function newCheck(policy: CompiledPolicy, keyValues: string, separate: boolean): Check {
  // The number makes room for the first limit's moment.
  return { policy, keyValues, chargedAt: [0], separate, degraded: false, allowed: undefined };
}

/** Most requests are charged by few policies. */
const usualCharges = 3;

export function newOutcome(): Outcome {
  return { merged: newMergedDecision(), charges: listWithRoom(usualCharges), denial: undefined };
}

/** What one policy charged for a request, and where. */
export interface Charge {
  readonly policy: CompiledPolicy;
  /** Those of the policy, a node's share of them, or some of them. */
  readonly limits: readonly CompiledLimit[];
  readonly keyValues: string;
  /** As in the check. */
  readonly chargedAt: number[];
  readonly store: StoreName | "share";
  /** What its lease notes of the units; absent: the policy is not leased. */
  readonly spent?: Spent;
  /** What Redis is to be charged if the request goes on; absent: nothing. */
  readonly owed?: Owed | undefined;
  /** The number of the Redis that was charged (redis/epoch.ts); absent: none, or the present one. */
  redis?: number | undefined;
}

/**
 * Slots of one policy that a request was given: of its limits, those that are concurrency; `chargedAt` has for each the moment
 * that its slots were taken or last renewed in.
 */
export interface Hold extends Charge {
  /** Whether this worker learns when the request ends, even without its log phase. */
  readonly isEndNoticed: boolean;
  readonly renewEverySeconds: number;
  renewAtSeconds: number;
  /** While it is being renewed, where it is held is not known: whoever renews it gives it back if the request ends. */
  renewing: boolean;
  ended: boolean;
}

/** What a refund needs of a charge. */
export type Refund = Pick<Charge, "policy" | "limits" | "keyValues" | "chargedAt" | "redis">;

/** What responses of one policy and key took together. */
export interface DeferredCharge {
  readonly policy: CompiledPolicy;
  readonly limits: readonly CompiledLimit[];
  readonly keyValues: string;
  readonly store: StoreName | "share";
  /** 1 or more. */
  units: number;
  /** How many took these. */
  responses: number;
}

export interface Spent {
  /** The term of the lease in which the units can be refunded. Undefined: they cannot, or Redis was charged, or it is done. */
  term: string | undefined;
}

/** A charge in Redis of a request that is decided once more, without Redis. */
export interface Charged {
  readonly charge: Charge;
  /** It stays charged. */
  wentOn: boolean;
}

/** A check that Redis was sent, and whose reply was not waited for or was lost. */
export interface Unanswered {
  /** The request does not wait any more. */
  abandoned: boolean;
  /** Without a reply: whether Redis may have run it all the same. Undefined: a reply may still come. */
  lost: boolean | undefined;
  /** What requests took that went on before this was dealt with: they owe it unless Redis has charged it. */
  owed: Owed[] | undefined;
  /** What was charged for a request that did not wait has been dealt with. */
  reconciled: boolean;
}

/** What one request took of one policy while Redis did not decide. */
export interface Owed {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** What a report charges, beyond what is left too. Absent: the request took the policy's cost. */
  readonly reported?: number;
  /** What Redis was sent about it before; undefined: nothing. */
  readonly unanswered: Unanswered | undefined;
}

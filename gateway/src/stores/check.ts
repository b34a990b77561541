// What a policy is checked for and what it charged, as stores and those who use them hand it on.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import type { RedisSettings } from "../settings.ts";

/** One policy that a request is held to, and the key values that pick its counters. */
export interface Check {
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** Filled by a charge: for each limit the moment that its counter has afterwards, which a refund asks for. */
  readonly chargedAt: number[];
  /** Hears the limits of this check; absent: the verdict that hears those of all. */
  readonly merged?: MergedDecision;
  /** Whether its own limits allow, whatever those of others say: told by every decision in Redis. */
  allowed?: boolean;
  /** What Redis was asked about it last, where the reply was not waited for or lost. */
  unanswered?: Unanswered | undefined;
  /** Redis has charged it, and did not decide another policy of the request. */
  charged?: Charged;
}

/** A charge in Redis of a request that is decided once more, without Redis. */
export interface Charged {
  readonly charge: Charge;
  /** It stays charged. */
  wentOn: boolean;
}

/** The lease's record as it was when units were spent: the name of its life, the last message sent and the last heard. */
export interface Spent {
  readonly name: string;
  readonly seq: number;
  readonly acknowledged: number;
}

/** What one policy charged for a request, and where. */
export interface Charge extends Check {
  /** Those of the policy, a node's share of them, or some of them. */
  readonly limits: readonly CompiledLimit[];
  /** Undefined: charged on this node. */
  readonly redis: RedisSettings | undefined;
  /** Of the lease from which it was spent; absent: from none. */
  readonly spent?: Spent;
  /** What Redis is still to be told of; absent: nothing. */
  readonly owed?: Owed | undefined;
}

/** A check that Redis was sent, whose reply was not waited for or lost. */
export interface Unanswered {
  /** The request does not wait any more. */
  abandoned: boolean;
  /** Without a reply: whether Redis may have run it all the same. Undefined: a reply may still come. */
  lost: boolean | undefined;
  /** The request went on without the reply, and owes Redis for these policies unless it has charged them. */
  owed: Owed[] | undefined;
  /** What was charged for a request that did not wait has been dealt with. */
  reconciled: boolean;
}

/** What one request took of one policy. */
export interface Owed {
  readonly redis: RedisSettings;
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  /** False: it was refused after all. */
  wentOn: boolean;
  /** Whether it is among the debts. */
  noted: boolean;
}

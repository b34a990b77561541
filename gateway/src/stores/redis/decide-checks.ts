// Decides checks in Redis: one script call charges all cluster policies of a request, all or none.
//
// Redis Cluster runs no script over several slots. There, one call for each slot charges one after the other, and the charges are
// refunded if a later call refuses. For about the duration of the calls, other requests may be refused because of it.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { redisInstance } from "../../redis/epoch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Charge, Check } from "../store.ts";
import { forgetPending, keepPending, queueOf, reconcileSoon } from "./batcher.ts";
import { byChoice, isDecidedHere, isOneDecidedHere } from "./overload.ts";
import { hasReply, type Numbers, newPendingCheck, type PendingCheck } from "./pending-check.ts";
import { reconcile } from "./reconcile.ts";
import { refundInRedisSurely, refundsOf } from "./refunds.ts";
import { forgetRefusalOf, noteUnanswered, recallRefusal } from "./refusal-cache.ts";
import { allAllow, readOne, readReply } from "./replies.ts";
import { firstKey, type Group, groupsOf } from "./slot-groups.ts";
import { counterOf, submit, submitAgain } from "./submit.ts";

/**
 * Decides these checks in Redis: all are charged or none. Yields.
 *
 * @param checks have at most `mostCountersAtOnce` limits together
 * @param merged receives every limit if Redis decided, except of checks that have a merged decision of their own
 * @returns whether the request is allowed; or undefined and the error message, if Redis did not decide
 */
export function decideInRedis(
  settings: RedisSettings,
  checks: readonly Check[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const first = checks[0] as Check;
  const key = firstKey(first);
  if (checks.length > 1) return decideSeveral(settings, checks, key, merged);
  if (recall(first, key, first.merged ?? merged)) return $multi(false, undefined);
  if (settings.overload !== undefined && isDecidedHere(settings.overload, checks)) return $multi(undefined, byChoice);
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  if (first.policy.limits.length === 1) return $multi(readOne(pending, first, merged), undefined);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/**
 * Pending checks of requests that have their reply. They are reused, because tables are half of the cost of a decision besides
 * the wire.
 */
const idlePending: SinglePendingCheck[] = [];
/** Work space: the charge time of the last request that was decided by `decideOneInRedis`. */
let lastChargedAt = 0;
/** More checks are in flight at once only if Redis is slow. */
const mostIdlePending = 1024;

interface SinglePendingCheck extends PendingCheck {
  readonly checks: [SingleCheck];
}

interface SingleCheck extends Check {
  policy: CompiledPolicy;
  keyValues: string;
  allowed: boolean;
}

/** The same for one policy with one limit that holds no slots, which is by far the most common case. */
export function decideOneInRedis(
  settings: RedisSettings,
  policy: CompiledPolicy,
  keyValues: string,
  merged: MergedDecision,
): LuaMultiReturn<[allowed: boolean | undefined, failure: string | undefined, unanswered: PendingCheck | undefined]> {
  const key = keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
  if (recallRefusal(policy, key, merged)) return $multi(false, undefined, undefined);
  if (settings.overload !== undefined && isOneDecidedHere(settings.overload, policy)) {
    return $multi(undefined, byChoice, undefined);
  }
  const pending = idlePending.pop() ?? newSinglePending(policy, key);
  const check = pending.checks[0];
  check.policy = policy;
  check.keyValues = keyValues;
  submitAgain(settings, pending, policy, key);
  // A pending check that was given up stays with `reconcile`.
  if (!hasReply(pending)) {
    noteUnanswered(policy, key);
    return $multi(undefined, pending.failure, pending);
  }
  const allowed = readOne(pending, check, merged);
  lastChargedAt = check.chargedAt[0] as number;
  if (allowed) forgetRefusalOf(policy, key, pending.submittedAtSeconds);
  // The numbers may belong to a whole batch, and must not be kept alive.
  pending.numbers = undefined;
  if (idlePending.length < mostIdlePending) idlePending.push(pending);
  return $multi(allowed, undefined, undefined);
}

/** The charge time of the last `decideOneInRedis`, which a refund needs: read it before anything yields. */
export function chargedAtByLast(): number[] {
  return [lastChargedAt];
}

function newSinglePending(policy: CompiledPolicy, key: string): SinglePendingCheck {
  const check: SingleCheck = { policy, keyValues: "", chargedAt: [0], separate: true, degraded: false, allowed: false };
  return newPendingCheck<[SingleCheck]>([check], counterOf(policy, key), undefined);
}

function decideSeveral(
  settings: RedisSettings,
  checks: readonly Check[],
  key: string,
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  if (recallAny(checks, merged)) return $multi(false, undefined);
  if (settings.overload !== undefined && isDecidedHere(settings.overload, checks)) return $multi(undefined, byChoice);
  if (settings.deployment.kind === "cluster") return decideGroups(settings, groupsOf(settings, checks), merged);
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/** Returns whether a cached refusal decides the check without Redis. */
function recall(check: Check, key: string, merged: MergedDecision): boolean {
  if (!recallRefusal(check.policy, key, merged)) return false;
  check.allowed = false;
  return true;
}

/**
 * Returns whether a cached refusal decides them all. Does not apply to checks that report a result of their own.
 */
export function recallAny(checks: readonly Check[], merged: MergedDecision): boolean {
  for (const check of checks) {
    if (check.merged === undefined && recall(check, firstKey(check), merged)) return true;
  }
  return false;
}

/** Nothing is merged before all calls have replied: if Redis fails half-way, the merged decision is unchanged. */
function decideGroups(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const pendingChecks: PendingCheck[] = [];
  let allowed = true;
  for (const group of groups) {
    const checks = group.members;
    // After a refusal, only checks that report a result of their own are submitted.
    if (!allowed && (checks[0] as Check).merged === undefined) break;
    const pending = submit(settings, checks, firstKey(checks[0] as Check));
    if (!hasReply(pending)) {
      for (let i = pendingChecks.length - 1; i >= 0; i--) {
        const { id, members } = groups[i] as Group<Check>;
        const replied = pendingChecks[i] as PendingCheck;
        forgetPending(replied);
        for (const check of members) check.unanswered = replied;
        reconcileSoon(queueOf(settings, id, reconcile), [replied]);
      }
      return $multi(undefined, pending.failure);
    }
    pendingChecks.push(pending);
    keepPending(queueOf(settings, group.id, reconcile), pending);
    if (!allAllow(pending.numbers as Numbers, pending.at, checks)) allowed = false;
  }
  if (!allowed) refundGroups(groups, pendingChecks);
  for (let i = 0; i < pendingChecks.length; i++) {
    const pending = pendingChecks[i] as PendingCheck;
    if (allowed) forgetPending(pending);
    readReply(pending, (groups[i] as Group<Check>).members, merged, !allowed);
  }
  return $multi(allowed, undefined);
}

/** Takes back what was charged, also if the client goes away meanwhile. */
function refundGroups(groups: readonly Group<Check>[], pendingChecks: readonly PendingCheck[]): void {
  const charges: Charge[] = [];
  // In reverse order, so that each refund finds the counter as its charge left it.
  for (let i = pendingChecks.length - 1; i >= 0; i--) {
    const pending = pendingChecks[i] as PendingCheck;
    forgetPending(pending);
    const { numbers, at } = pending;
    const checks = (groups[i] as Group<Check>).members;
    if (!allAllow(numbers as Numbers, at, checks)) continue;
    for (const refund of refundsOf(checks, numbers as Numbers, at)) {
      charges.push({ ...refund, store: "exact", redis: redisInstance() });
    }
  }
  if (charges.length > 0) refundInRedisSurely(charges);
}

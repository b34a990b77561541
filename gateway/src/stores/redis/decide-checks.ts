// Decides checks in Redis: all cluster policies of a request are charged by one script call, all or none.
//
// Redis Cluster runs no script over several slots. There, a call for each slot charges one after the other, and what was
// charged is refunded when a later one refuses: for about the time of the calls, others may be refused because of it.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check } from "../store.ts";
import { forgetPending, keepPending, queueOf, reconcileSoon } from "./batcher.ts";
import { hasReply, type Numbers, newPendingCheck, type PendingCheck } from "./pending-check.ts";
import { reconcile } from "./reconcile.ts";
import { refundGroup, refundsOf } from "./refunds.ts";
import { recallRefusal } from "./refusal-cache.ts";
import { allAllow, readOne, readReply } from "./replies.ts";
import { firstKey, type Group, groupsOf } from "./slot-groups.ts";
import { counterOf, submit, submitAgain } from "./submit.ts";

/**
 * Decides these checks in Redis: all are charged or none. Yields.
 *
 * @param checks have at most `mostCountersAtOnce` limits together
 * @param verdict hears every limit when Redis decided, of checks that have none of their own
 * @returns whether the request is allowed; or undefined and what failed, when Redis did not decide
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
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  if (first.policy.limits.length === 1) return $multi(readOne(pending, first, merged), undefined);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/** Of requests that have their reply: used again, because tables are half of what a decision costs beyond the wire. */
const idlePending: SinglePendingCheck[] = [];
/** Work space: of the request that was decided last by itself. */
let lastChargedAt = 0;
/** More are under way at once only where Redis is late. */
const mostIdlePending = 1024;

interface SinglePendingCheck extends PendingCheck {
  readonly checks: [SingleCheck];
}

interface SingleCheck extends Check {
  policy: CompiledPolicy;
  keyValues: string;
  allowed: boolean;
}

/** The same for one policy of one limit, which holds no slots: the commonest by far. */
export function decideOneInRedis(
  settings: RedisSettings,
  policy: CompiledPolicy,
  keyValues: string,
  merged: MergedDecision,
): LuaMultiReturn<[allowed: boolean | undefined, failure: string | undefined, unanswered: PendingCheck | undefined]> {
  const key = keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
  if (recallRefusal(policy, key, merged)) return $multi(false, undefined, undefined);
  const pending = idlePending.pop() ?? newSinglePending(policy, key);
  const check = pending.checks[0];
  check.policy = policy;
  check.keyValues = keyValues;
  submitAgain(settings, pending, policy, key);
  // A question that was given up stays with whoever reconciles it.
  if (!hasReply(pending)) return $multi(undefined, pending.failure, pending);
  const allowed = readOne(pending, check, merged);
  lastChargedAt = check.chargedAt[0] as number;
  // They are those of a whole batch.
  pending.numbers = undefined;
  if (idlePending.length < mostIdlePending) idlePending.push(pending);
  return $multi(allowed, undefined, undefined);
}

/** What a refund asks for of the charge that `decideOneInRedis` has just told of: to be read before anything yields. */
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
  if (settings.deployment.kind === "cluster") return decideGroups(settings, groupsOf(settings, checks), merged);
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/** Whether a check is refused without asking. */
function recall(check: Check, key: string, merged: MergedDecision): boolean {
  if (!recallRefusal(check.policy, key, merged)) return false;
  check.allowed = false;
  return true;
}

/** Not where each check's caller is told of each. */
function recallAny(checks: readonly Check[], merged: MergedDecision): boolean {
  for (const check of checks) {
    if (check.merged === undefined && recall(check, firstKey(check), merged)) return true;
  }
  return false;
}

/** Nothing is heard before all have replied: where Redis fails half-way, the verdict is as it was. */
function decideGroups(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const pendingChecks: PendingCheck[] = [];
  let allowed = true;
  for (const group of groups) {
    const checks = group.members;
    // After a refusal only those are asked whose caller is told of each check.
    if (!allowed && (checks[0] as Check).merged === undefined) break;
    const pending = submit(settings, checks, firstKey(checks[0] as Check));
    if (!hasReply(pending)) {
      for (let i = pendingChecks.length - 1; i >= 0; i--) {
        forgetPending();
        const { id, members } = groups[i] as Group<Check>;
        const replied = pendingChecks[i] as PendingCheck;
        for (const check of members) check.unanswered = replied;
        reconcileSoon(queueOf(settings, id, reconcile), [replied]);
      }
      return $multi(undefined, pending.failure);
    }
    pendingChecks.push(pending);
    keepPending(queueOf(settings, group.id, reconcile), pending);
    if (!allAllow(pending.numbers as Numbers, pending.at, checks)) allowed = false;
  }
  if (!allowed) refundGroups(settings, groups, pendingChecks);
  for (let i = 0; i < pendingChecks.length; i++) {
    if (allowed) forgetPending();
    readReply(pendingChecks[i] as PendingCheck, (groups[i] as Group<Check>).members, merged, !allowed);
  }
  return $multi(allowed, undefined);
}

/** The last first: each counter is then found as its charge left it. Those that are kept are so until their turn. */
function refundGroups(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  pendingChecks: readonly PendingCheck[],
): void {
  for (let i = pendingChecks.length - 1; i >= 0; i--) {
    forgetPending();
    const { numbers, at } = pendingChecks[i] as PendingCheck;
    const checks = (groups[i] as Group<Check>).members;
    if (!allAllow(numbers as Numbers, at, checks)) continue;
    const failure = refundGroup(settings, refundsOf(checks, numbers as Numbers, at));
    if (failure !== undefined) warnSparingly("units of a refused request stay charged", failure);
  }
}

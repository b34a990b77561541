// The store of scope cluster, consistency exact: counters in Redis, which decides every request.

import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { redisInstance } from "../../redis/epoch.ts";
import { configuredRedis } from "../../redis/redis-settings.ts";
import { reportMissingRedis } from "../../runtime/missing-parts.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check, Outcome, Store } from "../store.ts";
import { isUncharged } from "./debts.ts";
import { decideInRedis } from "./decide-checks.ts";
import { admitDeferredInRedis, chargeDeferredInRedis, reportInRedis } from "./deferred-charge.ts";
import { byChoice, isDecidedHere } from "./overload.ts";
import { peekInRedis } from "./peek.ts";
import { endOfCall, refundInRedis, refundInRedisLater } from "./refunds.ts";
import { forgetRefusalOf, forgetRefusalsEverywhere, recallRefusal } from "./refusal-cache.ts";
import { firstKey, groupsOf } from "./slot-groups.ts";
import { renewInRedis } from "./slot-renewals.ts";

export const exactStore: Store = {
  admit,
  peek,
  refund: refundInRedis,
  refundLater: refundInRedisLater,
  renew: renewInRedis,
  chargesAtOnce: () => false,
  chargeDeferred: chargeDeferredInRedis,
  report: reportInRedis,
  forget: () => forgetRefusalsEverywhere(),
};

function admit(this: void, check: Check, outcome: Outcome): boolean | undefined {
  return admitTogether([check], outcome);
}

/** A cached refusal decides here too. */
function peek(this: void, check: Check, merged: MergedDecision): boolean | undefined {
  if (recallRefusal(check.policy, firstKey(check), merged)) return false;
  return peekInRedis(check, 0, merged);
}

/**
 * Does the same for several checks, all or none. Uses one call to Redis, or several if the checks have very many limits. If a
 * later call refuses, the charges of earlier calls are in the outcome.
 */
export function admitTogether(checks: readonly Check[], outcome: Outcome): boolean | undefined {
  const redis = configuredRedis();
  if (redis === undefined) {
    reportMissingRedis();
    return undefined;
  }
  let from = 0;
  while (from < checks.length) {
    const end = endOfCall(checks, from);
    const together = end - from === checks.length ? checks : checks.slice(from, end);
    const allowed = admitByOneCall(redis, together, outcome);
    if (allowed !== true) return allowed;
    from = end;
  }
  return true;
}

/** Returns whether one call to Redis charges all of these checks. */
export function chargesByOneCall(checks: readonly Check[]): boolean {
  for (const { policy } of checks) if (policy.policy.store !== "exact") return false;
  if (endOfCall(checks, 0) < checks.length) return false;
  const redis = configuredRedis();
  return redis?.deployment.kind !== "cluster" || groupsOf(redis, checks).length === 1;
}

function admitByOneCall(redis: RedisSettings, checks: readonly Check[], outcome: Outcome): boolean | undefined {
  const submittedAtSeconds = wallSeconds();
  const [allowed, failure] = decide(redis, checks, outcome);
  if (allowed === undefined) {
    if (failure === byChoice) for (const check of checks) check.overloaded = true;
    else warnSparingly("Redis did not decide", failure);
  }
  if (allowed !== true) return allowed;
  for (const check of checks) {
    const { policy, keyValues, chargedAt } = check;
    forgetRefusalOf(firstKey(check), submittedAtSeconds);
    outcome.charges.push({
      policy,
      limits: policy.limits,
      keyValues,
      chargedAt,
      store: "exact",
      redis: redisInstance(),
    });
  }
  return true;
}

/** A policy whose charges are deferred comes alone. */
function decide(
  redis: RedisSettings,
  checks: readonly Check[],
  { merged }: Outcome,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const first = checks[0] as Check;
  if (!first.policy.policy.deferred) return decideInRedis(redis, checks, merged);
  if (isUncharged(first.policy, first.keyValues)) {
    return $multi(undefined, "earlier responses are not charged there yet");
  }
  if (redis.overload !== undefined && isDecidedHere(redis.overload, checks)) return $multi(undefined, byChoice);
  return admitDeferredInRedis(redis, first, merged);
}

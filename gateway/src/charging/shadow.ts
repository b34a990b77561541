// A policy in shadow mode: decided and charged apart from everything else, and only reported.

import { newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { countDecision, type Result } from "../metrics/counts.ts";
import type { RedisSettings } from "../settings.ts";
import type { Charge, Check } from "../stores/check.ts";
import { chargeInRedis, chargeOnNode } from "./charges.ts";
import { deferCharge } from "./deferred-charges.ts";
import { holdSlots } from "./held-slots.ts";

/** Counts the decision; slots are the request's until it ends, when its response is settled. @returns what would have become of it */
export function observe(redis: RedisSettings | undefined, check: Check): Result {
  const { policy, keyValues, chargedAt } = check;
  const charges: Charge[] = [];
  const onNode = policy.policy.scope === "node";
  const allowed = onNode
    ? chargeOnNode(check, policy.limits, undefined, charges)
    : chargeInRedis(redis, [check], newMergedDecision(), charges);
  if (allowed === true) {
    const where = onNode ? undefined : redis;
    if (policy.holdsSlots) holdSlots(policy, policy.limits, keyValues, chargedAt, where);
    if (policy.deferred) deferCharge({ policy, limits: policy.limits, keyValues, redis: where });
  }
  const result = allowed === undefined ? "degraded" : allowed ? "allowed" : "shadow-refused";
  countDecision(policy, result);
  return result;
}

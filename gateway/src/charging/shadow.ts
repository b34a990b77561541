// A policy in shadow mode: decided and charged separately from everything else, and only reported.

import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { countDecision } from "../metrics/counts.ts";
import type { Result } from "../metrics/series.ts";
import { type Check, newOutcome } from "../stores/store.ts";
import { deferCharge } from "./deferred-charges.ts";
import { holdSlots } from "./held-slots.ts";
import { chargeForGood } from "./refunds.ts";
import { stores } from "./stores.ts";

/**
 * Counts the decision. Slots are the request's until it ends, when its response is charged.
 *
 * @returns what would have become of it, and what the limits decided
 */
export function observe(check: Check): LuaMultiReturn<[result: Result, merged: MergedDecision]> {
  const { policy } = check;
  const outcome = newOutcome();
  const allowed = stores[policy.policy.store].admit(check, outcome);
  for (const charge of outcome.charges) {
    if (policy.policy.holdsSlots) holdSlots(charge);
    if (policy.policy.deferred) deferCharge(charge);
  }
  chargeForGood(outcome.charges);
  const result = allowed === undefined ? "degraded" : allowed ? "allowed" : "shadow-refused";
  countDecision(policy, result, allowed === undefined ? undefined : check.keyValues);
  // The request passes, as it does if Redis allows it.
  if (allowed === undefined) countDecision(policy, "allowed", undefined);
  return $multi(result, outcome.merged);
}

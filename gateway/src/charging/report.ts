// Charges what a caller has used already, beyond what is left too. It is never refused for lack of units, and nothing of it is refunded.

import { type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { countDecision } from "../metrics/counts.ts";
import { shareStore } from "../stores/share/share-store.ts";
import type { Check } from "../stores/store.ts";
import { stores } from "./stores.ts";

/**
 * May yield. Without Redis, the policy's `onStoreFailure` says what becomes of it.
 *
 * @param units 1 or more
 * @param merged receives what the limits have left
 * @returns how many of the units were charged beyond what was left; undefined: the policy denies without Redis. They are not charged, or Redis has charged them late
 */
export function report(check: Check, units: number, merged: MergedDecision): number | undefined {
  const { policy } = check;
  const debt = stores[policy.policy.store].report(check, units, merged);
  if (debt !== undefined) return debt;
  check.degraded = true;
  countDecision(policy, "degraded", undefined);
  return shareStore.report(check, units, merged);
}

/** Charges a policy in shadow mode, and counts the report as a decision that it would have allowed. */
export function observeReport(check: Check, units: number): void {
  const { policy, keyValues } = check;
  const debt = stores[policy.policy.store].report(check, units, newMergedDecision());
  if (debt === undefined) countDecision(policy, "degraded", undefined);
  countDecision(policy, "allowed", debt === undefined ? undefined : keyValues);
}

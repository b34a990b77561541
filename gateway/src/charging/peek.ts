// Looks at what a check would hear, and charges nothing.

import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { shareStore } from "../stores/share/share-store.ts";
import type { Check } from "../stores/store.ts";
import { stores } from "./stores.ts";

/**
 * Returns whether the check would be allowed now. May yield. Without Redis, the policy's `onStoreFailure` says so, as for a charge.
 *
 * @param merged receives what the limits would decide, with the units that are left now
 * @param asksStore false: this gateway says so, as without Redis
 */
export function peek(check: Check, merged: MergedDecision, asksStore: boolean): boolean {
  let allowed = asksStore ? stores[check.policy.policy.store].peek(check, merged) : undefined;
  if (allowed === undefined) {
    check.degraded = true;
    if (!asksStore) check.overloaded = true;
    allowed = shareStore.peek(check, merged) === true;
  }
  check.allowed = allowed;
  return allowed;
}

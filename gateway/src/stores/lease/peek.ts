// Looks at a lease, and at Redis if the lease does not have the units. It changes nothing, and makes no lease grow.

import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { isLive } from "../../../../limiter/src/lease/holder.ts";
import { configuredRedis } from "../../redis/redis-settings.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { peekInRedis } from "../redis/peek.ts";
import type { Check } from "../store.ts";
import { unitsIn } from "./lease-cells.ts";
import { leaseOf, refresh } from "./leases.ts";
import { mergePermission, mergeRefusal } from "./spend.ts";

/** Returns whether a charge would be allowed now; undefined if only Redis knows, and does not say. May yield. */
export function peekLeased(this: void, check: Check, merged: MergedDecision): boolean | undefined {
  const { policy, keyValues } = check;
  const lease = leaseOf(policy, keyValues);
  if (configuredRedis() !== undefined) refresh(lease);
  const { record, cell } = lease;
  const nowUs = stopwatchUs();
  const unspent = isLive(record, nowUs) ? math.max(unitsIn(cell), 0) : 0;
  if (unspent >= policy.policy.cost) {
    mergePermission(lease, policy, unspent, merged);
    return true;
  }
  if (nowUs < record.refusedUntilUs) {
    mergeRefusal(lease, policy, merged, record.retryAtUs);
    return false;
  }
  return peekInRedis(check, unspent, merged);
}

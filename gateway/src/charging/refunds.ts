// Refunds what a request was charged that is refused after all, or whose client is gone.

import type { StoreName } from "../../../limiter/src/compiled/compile.ts";
import type { Charge } from "../stores/store.ts";
import { stores } from "./stores.ts";

/** Refunds all of these. May yield. */
export function refundAll(charges: readonly Charge[]): void {
  const byStore: Partial<Record<StoreName | "share", Charge[]>> = {};
  for (const charge of charges) {
    // Nothing is charged yet of its response.
    if (charge.policy.policy.deferred) continue;
    const others = byStore[charge.store];
    if (others === undefined) byStore[charge.store] = [charge];
    else others.push(charge);
  }
  for (const name of ["leased", "share", "node", "exact"] as const) {
    const own = byStore[name];
    if (own !== undefined) stores[name].refund(own);
  }
}

/** Refunds it where nothing may yield, as in the log phase. */
export function refundLater(charge: Charge): void {
  if (!charge.policy.policy.deferred) stores[charge.store].refundLater(charge);
}

// The store of scope cluster, consistency leased: units that Redis has debited in advance are spent on this node, and requests
// that leases cannot cover are decided exactly.

import { configuredRedis } from "../../redis/redis-settings.ts";
import { reportMissingRedis } from "../../runtime/missing-parts.ts";
import { reportInRedis } from "../redis/deferred-charge.ts";
import type { Charge, Check, Outcome, Spent, Store } from "../store.ts";
import { admitLeased } from "./admit.ts";
import { forgetLeaseRefusal } from "./leases.ts";
import { peekLeased } from "./peek.ts";
import { refundLeased } from "./spend.ts";

export const leaseStore: Store = {
  admit,
  peek: peekLeased,
  refund,
  // Units are refunded to a cell of shared memory, which does not yield.
  refundLater: (charge) => refund([charge]),
  // Only limits without slots whose cost is known in advance are leased.
  renew: () => {},
  chargesAtOnce: () => true,
  chargeDeferred: () => {},
  // Units that are out on leases are debited already, so a report is charged to what Redis has beside them.
  report: reportInRedis,
  forget: forgetLeaseRefusal,
};

function admit(this: void, check: Check, outcome: Outcome): boolean | undefined {
  if (configuredRedis() !== undefined) return admitLeased(check, outcome);
  reportMissingRedis();
  return undefined;
}

function refund(this: void, charges: readonly Charge[]): void {
  for (const charge of charges) refundLeased(charge, charge.spent as Spent);
}

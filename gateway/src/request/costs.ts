// Policies at the costs that requests state. A policy of a cost that was stated before is the same object again, so that such a
// request makes no table.

import { atCost, type CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { keepVariant, keptVariants } from "./kept-variants.ts";

const kept = keptVariants<number>();

/** Returns the policy for a request of this cost, as `atCost` does. */
export function pricedPolicy(policy: CompiledPolicy, cost: number): CompiledPolicy {
  if (cost === policy.policy.cost) return policy;
  const before = kept.byPolicy.get(policy)?.get(cost);
  if (before !== undefined) return before;
  const priced = atCost(policy, cost);
  keepVariant(kept, policy, cost, priced);
  return priced;
}

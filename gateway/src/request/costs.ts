// Policies at the costs that requests state. A policy of a cost that was stated before is the same object again, so that such a
// request makes no table.

import { atCost, type CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { weakTable } from "../runtime/tables.ts";

interface KnownCosts {
  count: number;
  readonly policies: LuaTable<number, CompiledPolicy | undefined>;
}

/** How many costs of one policy are remembered: more than honest clients state, and a bound for what a hostile one can state. */
const mostKnownCosts = 256;

const knownCosts = weakTable<CompiledPolicy, KnownCosts>();

/** Returns the policy for a request of this cost, as `atCost` does. */
export function pricedPolicy(policy: CompiledPolicy, cost: number): CompiledPolicy {
  if (cost === policy.policy.cost) return policy;
  let known = knownCosts.get(policy);
  if (known === undefined) {
    known = { count: 0, policies: new LuaTable() };
    knownCosts.set(policy, known);
  }
  const before = known.policies.get(cost);
  if (before !== undefined) return before;
  const priced = atCost(policy, cost);
  if (known.count < mostKnownCosts) {
    known.policies.set(cost, priced);
    known.count += 1;
  }
  return priced;
}

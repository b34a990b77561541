// What one node of the fleet may spend of a cluster policy by itself, while Redis does not decide.

import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import { shareOf } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { liveGateways } from "../../snapshot/live-gateways.ts";

/** The policy's limits, divided among the live gateways. What the policy never holds, its share does not either. */
export function nodeShare({ limits, policy }: CompiledPolicy): CompiledLimit[] {
  const gateways = liveGateways();
  const share: CompiledLimit[] = [];
  for (const { name, rate, counterSuffix, counterFamily, owner } of limits) {
    const cost = math.min(policy.cost, capacity(rate));
    share.push({ name, rate: shareOf(rate, gateways, cost), counterSuffix, counterFamily, owner });
  }
  return share;
}

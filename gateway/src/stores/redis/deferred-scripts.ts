// The scripts that charge what was used, whether a limit has it or not, and what they are given: redis-scripts/charge-deferred.ts.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { debtKeyOf, keyOf, ledgerKeyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import type { Script } from "../../redis/script-request.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
export const deferredScript = scripts["charge_deferred"] as Script;
export const leasedScript = scripts["charge_deferred_leased"] as Script;
/** How many numbers they reply for each counter. */
export const numbersPerDeferred = 5;

export function scriptOf({ policy }: CompiledPolicy): Script {
  return policy.store === "leased" ? leasedScript : deferredScript;
}

/** Adds the keys of one counter, as the policy's script wants them. */
export function pushDeferredKeys(
  keys: string[],
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
): void {
  const key = keyOf(policy, limit, keyValues);
  keys.push(key);
  keys.push(debtKeyOf(key));
  if (policy.policy.store === "leased") keys.push(ledgerKeyOf(policy, keyValues));
}

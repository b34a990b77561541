// The limits that a client has of a policy with plans: those of its plan, or of a consumer's own. What a consumer has of its own is compiled
// when it comes first, and kept while it is used: a worker keeps a bounded number.

import { type CompiledPolicy, planOfKey, policyInPlan } from "../../../limiter/src/compiled/compile.ts";
import { policyOfConsumer } from "../../../limiter/src/compiled/consumer-limits.ts";
import { consumerOf } from "../consumers/consumers.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { logSparingly } from "../runtime/sparing-log.ts";
import { weakTable } from "../runtime/tables.ts";
import { currentState } from "../snapshot/current.ts";

/** A compiled policy takes some KB. */
const mostKept = 1_000;

/** By the policy in the plan, then by the consumer's overrides as JSON. */
let kept = weakTable<CompiledPolicy, LuaTable<string, CompiledPolicy | undefined>>();
let keptCount = 0;

/**
 * Returns the policy as it is for a client.
 *
 * @param values in the key's order, not encoded
 * @param plan that the request names; undefined: none
 */
export function policyOfClient(
  policy: CompiledPolicy,
  values: readonly string[],
  plan: string | undefined,
): CompiledPolicy {
  const { plans } = policy;
  if (plans === undefined) return policy;
  if (plan !== undefined || plans.by !== undefined) return policyInPlan(policy, plan ?? planOfKey(policy, values));
  const [ofConsumer, overrides] = consumerOf(policy.app, values[0] ?? "");
  const inPlan = policyInPlan(policy, ofConsumer);
  return overrides === undefined ? inPlan : (keptWith(inPlan, overrides) ?? ownPolicy(policy, inPlan, overrides));
}

function keptWith(inPlan: CompiledPolicy, overrides: string): CompiledPolicy | undefined {
  return kept.get(inPlan)?.get(overrides);
}

function ownPolicy(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string): CompiledPolicy {
  const [ok, own] = pcall(compileOwn, policy, inPlan, overrides);
  if (!ok) logSparingly("a consumer's own limits were left out", `${own}`);
  const found = ok ? (own as CompiledPolicy) : inPlan;
  if (keptCount >= mostKept) {
    kept = weakTable();
    keptCount = 0;
  }
  let ofPolicy = kept.get(inPlan);
  if (ofPolicy === undefined) {
    ofPolicy = new LuaTable();
    kept.set(inPlan, ofPolicy);
  }
  ofPolicy.set(overrides, found);
  keptCount += 1;
  return found;
}

function compileOwn(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string): CompiledPolicy {
  const [all] = cjson.decode<Record<string, unknown>>(overrides);
  return policyOfConsumer(policy, inPlan, all ?? {}, overrides, currentState().zones);
}

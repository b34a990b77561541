// The limits that a client has of a policy with plans: those of its plan, or of a consumer's own. What a consumer has of its own is compiled
// when it comes first, and kept while it is used.

import { type CompiledPolicy, planOfKey, policyInPlan } from "../../../limiter/src/compiled/compile.ts";
import { policyOfConsumer } from "../../../limiter/src/compiled/consumer-limits.ts";
import { consumerOf } from "../consumers/consumers.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { logSparingly } from "../runtime/sparing-log.ts";
import { currentState } from "../snapshot/current.ts";
import { keepVariant, keptVariants } from "./kept-variants.ts";

/** By the policy in the plan, and by the consumer's overrides as JSON. */
const kept = keptVariants<string>();

/** The overrides that were decoded last: all policies of a request usually have the same consumer. */
let lastText = "";
let lastOverrides: Readonly<Record<string, unknown>> = {};

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
  if (overrides === undefined || !mayName(overrides, policy.name)) return inPlan;
  return kept.byPolicy.get(inPlan)?.get(overrides) ?? ownPolicy(policy, inPlan, overrides);
}

/**
 * Returns false if the overrides have no limits for a policy of this name. To search the text takes a hundredth of what it takes to decode
 * it, and JSON.stringify, which has written it, escapes no character of such names.
 */
function mayName(overrides: string, name: string): boolean {
  return string.find(overrides, `"${name}"`, 1, true)[0] !== undefined;
}

function ownPolicy(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string): CompiledPolicy {
  const [ok, own] = pcall(compileOwn, policy, inPlan, overrides);
  if (!ok) logSparingly("a consumer's own limits were left out", `${own}`);
  const found = ok ? (own as CompiledPolicy) : inPlan;
  keepVariant(kept, inPlan, overrides, found);
  return found;
}

function compileOwn(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string): CompiledPolicy {
  if (overrides !== lastText) {
    lastOverrides = cjson.decode<Record<string, unknown>>(overrides)[0] ?? {};
    lastText = overrides;
  }
  return policyOfConsumer(policy, inPlan, lastOverrides, overrides, currentState().zones);
}

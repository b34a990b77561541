// The limits that a client has of a policy with plans: those of its plan, or of a consumer's own. What a consumer has of its own is compiled
// when it comes first, and kept while it is used.

import { type CompiledPolicy, planOfKey, policyInPlan } from "../../../limiter/src/compiled/compile.ts";
import { policyOfConsumer } from "../../../limiter/src/compiled/consumer-limits.ts";
import { consumerOf } from "../consumers/consumers.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { logSparingly } from "../runtime/sparing-log.ts";
import { keepVariant, keptVariants } from "./kept-variants.ts";

/** By the policy in the plan, and by the consumer's overrides as JSON. */
const kept = keptVariants<string>();

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
  if (overrides === undefined) return inPlan;
  const place = placeOf(overrides, policy.name);
  if (place === undefined) return inPlan;
  return kept.byPolicy.get(inPlan)?.get(overrides) ?? ownPolicy(policy, inPlan, overrides, place);
}

/**
 * Returns where the limits for a policy of this name are in the overrides; undefined: there are none. JSON.stringify has written them, and
 * nothing else in them is a list. To decode them whole takes a hundred times as long, for each policy of the request.
 */
function placeOf(overrides: string, name: string): number | undefined {
  const [, end] = string.find(overrides, `"${name}":[`, 1, true);
  return end;
}

function ownPolicy(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string, place: number): CompiledPolicy {
  const [ok, own] = pcall(compileOwn, policy, inPlan, overrides, place);
  if (!ok) logSparingly("a consumer's own limits were left out", `${own}`);
  const found = ok ? (own as CompiledPolicy) : inPlan;
  keepVariant(kept, inPlan, overrides, found);
  return found;
}

function compileOwn(policy: CompiledPolicy, inPlan: CompiledPolicy, overrides: string, place: number): CompiledPolicy {
  // No text in them has a bracket.
  const [list] = string.match(overrides, "^%b[]", place);
  const [limits] = cjson.decode<unknown>(list as string);
  return policyOfConsumer(policy, inPlan, { [policy.name]: limits }, overrides);
}

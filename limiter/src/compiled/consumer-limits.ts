// The limits that a consumer has of its own for a policy: gateways and the control plane's counters read them alike.

import { limitsFrom, validatePolicy } from "../document/validate.ts";
import { type CompiledPolicy, withOwnLimits } from "./compile.ts";

/**
 * Returns the policy as it is for a consumer with limits of its own; the policy in its plan if it has none for this policy.
 *
 * @param policy as it is for all @param inPlan as it is in the consumer's plan
 * @param overrides of the consumer: lists of limits by the name of the policy, as the control plane has validated them
 * @param text the same as JSON, which names the limits: who has the same ones shares cells of the overflow
 */
export function policyOfConsumer(
  policy: CompiledPolicy,
  inPlan: CompiledPolicy,
  overrides: Readonly<Record<string, unknown>>,
  text: string,
): CompiledPolicy {
  const limits = overrides[policy.name];
  if (limits === undefined) return inPlan;
  if (validatePolicy({ name: policy.name, key: [], scope: "cluster", limits }).policy === undefined) return inPlan;
  const { cost, costSource } = policy.policy;
  const own = limitsFrom(limits as Record<string, unknown>[], costSource?.room ?? cost);
  return withOwnLimits(policy, inPlan, own, `consumer ${text}`);
}

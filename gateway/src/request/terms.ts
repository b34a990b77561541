// On which terms a policy that matches holds the request: by its schedule, its exemptions, its overrides and the cost
// that the request states. A policy with none of them costs four looks at fields.

import {
  atCost,
  type CompiledPolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "../../../limiter/src/policy/compile.ts";
import { type CostSource, costFrom } from "../../../limiter/src/policy/cost.ts";
import { type CompiledSchedule, isOpen, nextChangeSeconds } from "../../../limiter/src/policy/schedule.ts";
import { headerValue, rawKeyValues, readKeyValues } from "./key-values.ts";

/**
 * held: it is to be decided. passes: the policy leaves it alone. key-missing: an attribute of the key is absent, and
 * what then happens is onMissingKey's. cost-invalid: it states a cost that is none, and is to be answered 400.
 */
export type Standing = "held" | "passes" | "key-missing" | "cost-invalid";

/** Filled where the standing is held; of cost-invalid, the policy alone. */
export interface Terms {
  /** As it holds this request: an override of it, and at the request's cost. To be decided, refunded and held as it is. */
  policy: CompiledPolicy;
  keyValues: string;
}

export function readTerms(policy: CompiledPolicy, terms: Terms): Standing {
  const { schedule, exempt, overrides } = policy;
  if (schedule !== undefined && !isOpenNow(schedule)) return "passes";
  if (exempt !== undefined && isExemptAddress(policy, ngx.var["remote_addr"] as string)) return "passes";
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) return "key-missing";
  if (exempt !== undefined && isExemptKey(policy, rawKeyValues)) return "passes";
  terms.policy = policy;
  terms.keyValues = keyValues;
  if (overrides !== undefined) {
    terms.policy = overrideFor(policy, rawKeyValues) ?? policy;
    if (terms.policy.policy.mode === "off") return "passes";
  }
  const { costSource } = policy.policy;
  if (costSource !== undefined) {
    const cost = costFrom(statedCost(costSource), costSource);
    if (cost === undefined) return "cost-invalid";
    terms.policy = atCost(terms.policy, cost);
  }
  return "held";
}

function statedCost({ from, name }: CostSource): string | undefined {
  return from === "header" ? headerValue(name) : ngx.var["content_length"];
}

/** The answer is kept until it may change, or the clock is before it. */
function isOpenNow(schedule: CompiledSchedule): boolean {
  const now = ngx.now();
  let { answer } = schedule;
  if (answer === undefined || now < answer.fromSeconds || now >= answer.untilSeconds) {
    answer = { open: isOpen(schedule, now), fromSeconds: now, untilSeconds: nextChangeSeconds(schedule, now) };
    schedule.answer = answer;
  }
  return answer.open;
}

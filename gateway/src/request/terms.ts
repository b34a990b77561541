// On which terms a policy that matches holds the request: by its schedule, the bans and exemptions, its overrides and the
// cost that the request states. A policy with none of them costs five looks at fields.

import { isBannedAddress, isBannedKey } from "../../../limiter/src/policy/bans.ts";
import {
  atCost,
  type CompiledPolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
} from "../../../limiter/src/policy/compile.ts";
import { type CostSource, costFrom } from "../../../limiter/src/policy/cost.ts";
import { type CompiledSchedule, isOpen, nextChangeSeconds } from "../../../limiter/src/policy/schedule.ts";
import { rawKeyValues, readKeyValues } from "./key-values.ts";
import { readHeader } from "./request-headers.ts";

/**
 * held: it is to be decided. banned: it is to be refused. passes: the policy leaves it alone. key-missing: an attribute of the key is absent, and
 * what then happens is onMissingKey's. cost-invalid: it states a cost that is none, and is to be answered 400.
 */
export type Standing = "held" | "banned" | "passes" | "key-missing" | "cost-invalid";

/** Filled where the standing is held; of cost-invalid, the policy alone. */
export interface Terms {
  /** As it holds this request: an override of it, and at the request's cost. To be decided, refunded and held as it is. */
  policy: CompiledPolicy;
  keyValues: string;
}

export function readTerms(policy: CompiledPolicy, terms: Terms): Standing {
  const { schedule, exempt, overrides } = policy;
  if (schedule !== undefined && !isOpenNow(schedule)) return "passes";
  // A policy in shadow mode changes no response.
  const bans = policy.policy.mode === "enforce" ? policy.bans : undefined;
  if (bans !== undefined && isBannedAddress(bans, ngx.var["remote_addr"] as string, ngx.now())) return "banned";
  if (exempt !== undefined && isExemptAddress(policy, ngx.var["remote_addr"] as string)) return "passes";
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) return "key-missing";
  if (bans !== undefined && isBannedKey(bans, rawKeyValues, ngx.now())) return "banned";
  if (exempt !== undefined && isExemptKey(policy, rawKeyValues)) return "passes";
  terms.policy = policy;
  terms.keyValues = keyValues;
  if (overrides !== undefined) {
    terms.policy = overrideFor(policy, rawKeyValues) ?? policy;
    if (terms.policy.policy.mode === "off") return "passes";
  }
  const { costSource } = policy.policy;
  if (costSource !== undefined && !policy.settles) {
    const cost = costFrom(statedCost(costSource), costSource);
    if (cost === undefined) return "cost-invalid";
    terms.policy = atCost(terms.policy, cost);
  }
  return "held";
}

function statedCost({ from, name }: CostSource): string | undefined {
  return from === "header" ? readHeader(name) : ngx.var["content_length"];
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

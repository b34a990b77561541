// Reads replies of the charge scripts.

import { type Decision, emptyDecision, never } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import {
  type MergedDecision,
  mergeLimit,
  mergeTarget,
  newMergedDecision,
} from "../../../../limiter/src/compiled/merged-decision.ts";
import type { Check } from "../store.ts";
import { type Numbers, numbersPerCounter, type PendingCheck } from "./pending-check.ts";
import { forgetRefusalOf, rememberRefusal } from "./refusal-cache.ts";
import { firstKey } from "./slot-groups.ts";

/** Work space: nothing yields between writing and merging it. */
const oneDecision = emptyDecision();
export function allAllow(numbers: Numbers, from: number, checks: readonly Check[]): boolean {
  let at = from;
  for (const { policy } of checks) {
    for (let i = 0; i < policy.limits.length; i++) {
      if (numbers.get(at) !== 1) return false;
      at += numbersPerCounter;
    }
  }
  return true;
}

/** The same for one limit: loops that run once cost LuaJIT a trace each. */
export function readOne(pending: PendingCheck, check: Check, mergedOfAll: MergedDecision): boolean {
  const { policy } = check;
  const limit = policy.limits[0] as CompiledLimit;
  const merged = check.merged ?? mergedOfAll;
  const decision = mergeTarget(merged, oneDecision);
  const allowed = readCounter(pending.numbers as Numbers, pending.at, limit, decision);
  check.allowed = allowed;
  check.chargedAt[0] = (pending.numbers as Numbers).get(pending.at + 5);
  mergeLimit(merged, policy, limit.name, decision);
  if (!allowed) rememberOne(check, limit, decision, pending.submittedAtSeconds);
  return allowed;
}

function rememberOne(check: Check, limit: CompiledLimit, decision: Decision, submittedAtSeconds: number): void {
  if (limit.rate.algorithm === "concurrency") return;
  const remembered = newMergedDecision();
  mergeLimit(remembered, check.policy, limit.name, decision);
  const usedUp = {
    limits: isUsedUp(check.policy, decision) ? [limit.name] : [],
    isLasting: isUsedUpUntilRetry(check.policy, limit, decision),
  };
  rememberRefusal(check.policy, firstKey(check), remembered, decision.retryAfterUs, usedUp, submittedAtSeconds);
}

/** What the cheapest request of the policy takes. */
export function leastCost({ policy }: CompiledPolicy): number {
  return policy.costSource === undefined && policy.isPriced !== true ? policy.cost : 1;
}

/** Returns whether a limit that refused has nothing for any request of the policy. */
export function isUsedUp(policy: CompiledPolicy, { remaining }: Pick<Decision, "remaining">): boolean {
  return remaining < leastCost(policy);
}

/**
 * Returns whether a limit that refused has nothing for any request of the policy until the moment that it named. A window has its units again at
 * once; of others, cheaper requests get some earlier.
 */
export function isUsedUpUntilRetry(policy: CompiledPolicy, { rate }: CompiledLimit, decision: Decision): boolean {
  const returnsAtOnce = rate.algorithm === "fixed-window" || rate.algorithm === "calendar-window";
  return isUsedUp(policy, decision) && (returnsAtOnce || policy.policy.cost <= leastCost(policy));
}

function readCounter(numbers: Numbers, at: number, { rate }: CompiledLimit, decision: Decision): boolean {
  const allowed = numbers.get(at) === 1;
  decision.allowed = allowed;
  decision.limit = capacity(rate);
  decision.remaining = numbers.get(at + 1);
  decision.retryAfterUs = numbers.get(at + 2);
  decision.resetAfterUs = numbers.get(at + 3);
  decision.delayUs = numbers.get(at + 4);
  return allowed;
}

/** The place of a reply. */
export type ReplyPlace = Pick<PendingCheck, "numbers" | "at" | "submittedAtSeconds">;

/** @param refunded whether the charges have been refunded; then the refunded units are added to the remaining ones */
export function readReply(
  pending: ReplyPlace,
  checks: readonly Check[],
  merged: MergedDecision,
  refunded: boolean,
): boolean {
  const numbers = pending.numbers as Numbers;
  let { at } = pending;
  const regained = refunded && allAllow(numbers, at, checks);
  const decision = emptyDecision();
  let all = true;
  for (const check of checks) {
    const { policy, chargedAt } = check;
    const remembered = newMergedDecision();
    const usedUp: string[] = [];
    let isLasting = true;
    /** Undefined: unknown. */
    let retryAfterUs: number | undefined = 0;
    check.allowed = true;
    for (let i = 0; i < policy.limits.length; i++) {
      const limit = policy.limits[i] as CompiledLimit;
      readCounter(numbers, at, limit, decision);
      if (regained) decision.remaining = math.min(decision.remaining + policy.policy.cost, decision.limit);
      mergeLimit(check.merged ?? merged, policy, limit.name, decision);
      if (!decision.allowed) {
        check.allowed = false;
        all = false;
        mergeLimit(remembered, policy, limit.name, decision);
        if (isUsedUp(policy, decision)) usedUp.push(limit.name);
        isLasting &&= isUsedUpUntilRetry(policy, limit, decision);
        if (limit.rate.algorithm === "concurrency") retryAfterUs = undefined;
        else if (retryAfterUs !== undefined) retryAfterUs = longerWait(retryAfterUs, decision.retryAfterUs);
      }
      // Overwritten, not appended: a request that waits for its units may submit more than once.
      chargedAt[i] = numbers.get(at + 5);
      at += numbersPerCounter;
    }
    // For leased policies, the lease remembers what is available.
    if (!check.allowed && retryAfterUs !== undefined && policy.policy.store !== "leased") {
      const known = { limits: usedUp, isLasting };
      rememberRefusal(policy, firstKey(check), remembered, retryAfterUs, known, pending.submittedAtSeconds);
    }
  }
  if (!all) forgetOthers(checks, pending.submittedAtSeconds);
  return all;
}

/** Redis had units for these when it refused the request because of others: what is remembered of them is not true any more. */
function forgetOthers(checks: readonly Check[], submittedAtSeconds: number): void {
  for (const check of checks) if (check.allowed) forgetRefusalOf(check.policy, firstKey(check), submittedAtSeconds);
}

function longerWait(a: number, b: number): number {
  return a === never || b === never ? never : math.max(a, b);
}

// Decides what a caller asks for, all or nothing: every check is decided and tells its own, and if one refuses, what the
// others charged is given back.
//
// Checks of one policy and key are decided together, as one of their summed cost: a counter is charged once, so that the
// stores, which load and save each counter of a group, never meet one twice.
//
// Bans, exemptions, overrides and the schedule hold as they do for the gateway's own requests, by the key that the caller
// gives: of a key with the part ip, its value is the client's address.
//
// Redis is asked first: while it is waited for, nothing of this node is charged. Its checks are charged by one script, all
// or none; a refusal on this node gives them back.

import { atCost, type CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { admit, forgetUndecided } from "../charging/admit.ts";
import { refundAll } from "../charging/refunds.ts";
import { observe } from "../charging/shadow.ts";
import { countDecision } from "../metrics/counts.ts";
import {
  type AppliedPolicy,
  applicabilityToAddress,
  applicabilityToKey,
  isBannedEverywhere,
} from "../request/applicability.ts";
import { reportShadowRefusal } from "../respond/shadow-report.ts";
import { type Charge, type Check, newOutcome } from "../stores/store.ts";

export interface RequestedCheck {
  readonly policy: CompiledPolicy;
  /** In the key's order, not encoded, as the gateway would have read them. */
  readonly values: readonly string[];
  /** Undefined: a value is missing that the policy counts by. */
  readonly keyValues: string | undefined;
  /** Of the client, where the policy counts by it. */
  readonly address: string | undefined;
  readonly cost: number;
}

/** Why an outcome is not a limit's. */
export type Reason = "off" | "exempt" | "banned" | "shadow" | "key-missing" | "undecided";

export interface Outcome {
  /** As it holds whom is asked for: an override of it. */
  readonly policy: CompiledPolicy;
  /** As the ask has them. */
  readonly values: readonly string[];
  /** Undefined: one is missing. */
  readonly keyValues: string | undefined;
  cost: number;
  allowed: boolean;
  /** Undefined: its limits decided, and `verdict` says how. */
  reason: Reason | undefined;
  readonly merged: MergedDecision;
  charged: boolean;
}

/** One more than any limit holds. Sums beyond are refused alike, and stay in the range that the algorithms are made for. */
const mostCost = 2147483649;

/** Work space: read before anything yields. */
const applied = {} as AppliedPolicy;

/**
 * @param charges empty; what was charged is in it afterwards, and has been given back already where an outcome refuses
 * @returns an outcome for each of these, in their order; those decided together have one in common
 */
export function decideRequestedChecks(requested: readonly RequestedCheck[], charges: Charge[]): Outcome[] {
  const outcomes: Outcome[] = [];
  const distinct: Outcome[] = [];
  gather(requested, outcomes, distinct);

  const byLimits = distinct.filter(({ reason }) => reason === undefined);
  decideByStores(
    byLimits.filter(({ policy }) => policy.store !== "node"),
    charges,
  );
  decideByStores(
    byLimits.filter(({ policy }) => policy.store === "node"),
    charges,
  );
  forgetUndecided();
  for (const outcome of distinct) if (outcome.reason === "shadow") watch(outcome);
  if (!allAllowed(distinct)) takeBack(distinct, charges);
  for (const { policy, reason, allowed } of outcomes) {
    if (reason === undefined || reason === "undecided" || !allowed) {
      countDecision(policy, allowed ? "allowed" : "refused");
    }
  }
  return outcomes;
}

export function allAllowed(outcomes: readonly Outcome[]): boolean {
  for (const { allowed } of outcomes) {
    if (!allowed) return false;
  }
  return true;
}

/** The longest that a limit told the caller to wait before it goes on, in µs. */
export function longestDelayUs(outcomes: readonly Outcome[]): number {
  let longest = 0;
  for (const { merged } of outcomes) longest = math.max(longest, merged.delayUs);
  return longest;
}

/** Asks of one policy and key are one, unless no counter decides them. */
function gather(requested: readonly RequestedCheck[], outcomes: Outcome[], distinct: Outcome[]): undefined {
  const byCounters: Record<string, Outcome> = {};
  for (const ask of requested) {
    const { keyValues, cost } = ask;
    const reason = reasonOf(ask);
    const isCounted = keyValues !== undefined && (reason === undefined || reason === "shadow");
    const counters = isCounted ? ask.policy.counterPrefix + keyValues : "";
    let outcome = isCounted ? byCounters[counters] : undefined;
    if (outcome === undefined) {
      outcome = {
        policy: applied.policy,
        values: ask.values,
        keyValues,
        cost,
        allowed: passes(reason, ask.policy),
        reason,
        merged: newMergedDecision(),
        charged: false,
      };
      if (isCounted) byCounters[counters] = outcome;
      distinct.push(outcome);
    } else {
      outcome.cost = math.min(outcome.cost + cost, mostCost);
    }
    outcomes.push(outcome);
  }
}

/** Fills the terms. */
function reasonOf({ policy, values, keyValues, address }: RequestedCheck): Reason | undefined {
  const { mode } = policy.policy;
  applied.policy = policy;
  if (address !== undefined && isBannedEverywhere(address)) return "banned";
  const before = applicabilityToAddress(policy, address);
  if (before !== "applies") return before;
  if (keyValues === undefined) return mode === "shadow" ? "shadow" : "key-missing";
  const applicability = applicabilityToKey(policy, values, applied);
  if (applicability !== "applies") return applicability;
  return applied.policy.policy.mode === "shadow" ? "shadow" : undefined;
}

function passes(reason: Reason | undefined, { policy }: CompiledPolicy): boolean {
  if (reason === "key-missing") return policy.onMissingKey === "skip";
  return reason !== "banned";
}

function checkOf({ policy, keyValues, cost, merged }: Outcome): Check {
  return {
    policy: atCost(policy, cost),
    keyValues: keyValues as string,
    chargedAt: [],
    merged,
    separate: true,
    degraded: false,
  };
}

/** Decides these outcomes by the stores of their policies. */
function decideByStores(outcomes: readonly Outcome[], charges: Charge[]): void {
  if (outcomes.length === 0) return;
  const checks = outcomes.map((outcome) => checkOf(outcome));
  admit(checks, { ...newOutcome(), charges });
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i] as Outcome;
    const { allowed, degraded, chargedAt } = checks[i] as Check;
    outcome.allowed = allowed === true;
    outcome.charged = charges.some((charge) => charge.chargedAt === chargedAt && charge.limits.length > 0);
    if (degraded && outcome.policy.policy.onStoreFailure !== "local") outcome.reason = "undecided";
  }
}

function watch(outcome: Outcome): void {
  if (outcome.keyValues === undefined) return;
  if (observe(checkOf(outcome)) === "shadow-refused") reportShadowRefusal(outcome.policy, outcome.values);
}

/** What is told to be left has it back. */
function takeBack(outcomes: readonly Outcome[], charges: readonly Charge[]): void {
  for (const { charged, cost, merged } of outcomes) {
    if (charged) merged.decision.remaining = math.min(merged.decision.remaining + cost, merged.decision.limit);
  }
  if (charges.length > 0) refundAll(charges);
}

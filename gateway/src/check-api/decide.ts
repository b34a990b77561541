// Decides the checks of a caller, all or nothing: every check is decided and gets its own result. If one is refused, the charges
// of the others are refunded.
//
// Checks of the same policy and key are decided together, as one with the sum of their costs. So a counter is charged once, and
// the stores, which load and save each counter of a group, never get the same one twice. The first of them says the plan.
//
// Bans, exemptions, overrides and the schedule apply as they do to the gateway's own requests, by the key that the caller gives:
// if the key has the part ip, its value is the client's address.
//
// Redis decides first: while the call waits for it, nothing is charged on this node. One script charges all checks in Redis, or
// none; a refusal on this node refunds them.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { admitTogether, forgetUndecided } from "../charging/admit.ts";
import { refundAll } from "../charging/refunds.ts";
import { observe } from "../charging/shadow.ts";
import { countDecision } from "../metrics/counts.ts";
import {
  type AppliedPolicy,
  applicabilityToAddress,
  applicabilityToKey,
  isBannedEverywhere,
} from "../request/applicability.ts";
import { pricedPolicy } from "../request/costs.ts";
import { areLogged, logDecision } from "../respond/log-variables.ts";
import { reportShadowRefusal } from "../respond/shadow-report.ts";
import { type Charge, type Check, newCheck, newOutcome } from "../stores/store.ts";

export interface RequestedCheck {
  readonly policy: CompiledPolicy;
  /** In the key's order, not encoded, as the gateway would have read them. */
  readonly values: readonly string[];
  /** Undefined: a value that the policy counts by is missing. */
  readonly keyValues: string | undefined;
  /** The client's address, if the policy counts by it. */
  readonly address: string | undefined;
  readonly cost: number;
  /** The plan that the caller names. Undefined: none. */
  readonly plan: string | undefined;
}

/** Why the limits did not decide. */
export type Reason = "off" | "exempt" | "banned" | "shadow" | "key-missing" | "undecided";

export interface Outcome {
  /** The policy as it applies to this check: an override of it. */
  readonly policy: CompiledPolicy;
  /** As in the requested check. */
  readonly values: readonly string[];
  /** Undefined: a value is missing. */
  readonly keyValues: string | undefined;
  cost: number;
  allowed: boolean;
  /** Undefined: the limits decided, and `merged` has the result. */
  reason: Reason | undefined;
  readonly merged: MergedDecision;
  charged: boolean;
  /** What the policy decided in shadow mode, if it would have refused. */
  shadow?: MergedDecision;
  /** Redis did not decide. */
  degraded?: boolean;
  /** That was by choice. */
  overloaded?: boolean | undefined;
}

/**
 * One more than any limit can hold. Larger sums are refused just the same, and this one is in the range that the algorithms
 * support.
 */
const mostCost = 2147483649;

/** Work space, which is read before anything yields. */
const applied = {} as AppliedPolicy;

/**
 * @param charges empty at first; afterwards it has the charges, which are already refunded if an outcome is a refusal
 * @returns an outcome for each requested check, in their order; checks that were decided together share one
 */
export function decideRequestedChecks(requested: readonly RequestedCheck[], charges: Charge[]): Outcome[] {
  const outcomes: Outcome[] = [];
  const distinct: Outcome[] = [];
  gather(requested, outcomes, distinct);

  const byLimits = distinct.filter(({ reason }) => reason === undefined);
  decideByStores(
    byLimits.filter(({ policy }) => policy.policy.store !== "node"),
    charges,
  );
  decideByStores(
    byLimits.filter(({ policy }) => policy.policy.store === "node"),
    charges,
  );
  forgetUndecided();
  for (const outcome of distinct) if (outcome.reason === "shadow") watch(outcome);
  if (!allAllowed(distinct)) takeBack(distinct, charges);
  for (const { policy, keyValues, reason, allowed, merged } of outcomes) {
    if (reason === undefined || reason === "undecided" || !allowed) {
      countDecision(policy, allowed ? "allowed" : "refused", keyValues);
    }
    if (allowed && merged.delayUs > 0) countDecision(policy, "delayed", undefined);
  }
  if (areLogged()) logForAll(outcomes);
  return outcomes;
}

/** The check that is refused speaks for all of them, or the one that shadow mode would refuse, or the first. */
function logForAll(outcomes: readonly Outcome[]): void {
  const spoken =
    outcomes.find(({ allowed }) => !allowed) ?? outcomes.find(({ shadow }) => shadow !== undefined) ?? outcomes[0];
  if (spoken === undefined) return;
  const { policy, values, keyValues, allowed, reason, merged, shadow, degraded = false, overloaded = false } = spoken;
  logDecision({
    word: reason === "banned" ? "banned" : allowed ? "allowed" : "refused",
    delayUs: allowed ? longestDelayUs(outcomes) : 0,
    shadowRefused: shadow !== undefined,
    degraded,
    overloaded,
    reason: reason === "banned" || reason === "shadow" ? undefined : reason,
    policy,
    values: keyValues === undefined ? [] : values,
    by: shadow ?? (reason === undefined ? merged : undefined),
  });
}

export function allAllowed(outcomes: readonly Outcome[]): boolean {
  for (const { allowed } of outcomes) {
    if (!allowed) return false;
  }
  return true;
}

/** The longest wait that a limit demands of the caller before it goes on, in µs. */
export function longestDelayUs(outcomes: readonly Outcome[]): number {
  let longest = 0;
  for (const { merged } of outcomes) longest = math.max(longest, merged.delayUs);
  return longest;
}

/** Combines the checks of one policy and key, unless no counter decides them. */
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

/** Also fills `applied`. */
function reasonOf({ policy, values, keyValues, address, plan }: RequestedCheck): Reason | undefined {
  const { mode } = policy.policy;
  applied.policy = policy;
  if (address !== undefined && isBannedEverywhere(address)) return "banned";
  const before = applicabilityToAddress(policy, address);
  if (before !== "applies") return before;
  if (keyValues === undefined) return mode === "shadow" ? "shadow" : "key-missing";
  const applicability = applicabilityToKey(policy, values, plan, applied);
  if (applicability !== "applies") return applicability;
  return applied.policy.policy.mode === "shadow" ? "shadow" : undefined;
}

function passes(reason: Reason | undefined, { policy }: CompiledPolicy): boolean {
  if (reason === "key-missing") return policy.onMissingKey === "skip";
  return reason !== "banned";
}

function checkOf({ policy, keyValues, cost }: Outcome): Check {
  return newCheck(pricedPolicy(policy, cost), keyValues as string, true);
}

/** Decides these outcomes by the stores of their policies. */
function decideByStores(outcomes: readonly Outcome[], charges: Charge[]): void {
  if (outcomes.length === 0) return;
  const checks = outcomes.map((outcome): Check => ({ ...checkOf(outcome), merged: outcome.merged }));
  admitTogether(checks, { ...newOutcome(), charges });
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomes[i] as Outcome;
    const { allowed, degraded, overloaded, chargedAt } = checks[i] as Check;
    outcome.allowed = allowed === true;
    outcome.degraded = degraded;
    outcome.overloaded = degraded && overloaded;
    outcome.charged = charges.some((charge) => charge.chargedAt === chargedAt && charge.limits.length > 0);
    if (degraded && outcome.policy.policy.onStoreFailure !== "local") outcome.reason = "undecided";
  }
}

function watch(outcome: Outcome): void {
  if (outcome.keyValues === undefined) return;
  const [result, merged] = observe(checkOf(outcome));
  if (result !== "shadow-refused") return;
  reportShadowRefusal(outcome.policy, outcome.values);
  outcome.shadow = merged;
}

/** Adds refunded units to the remaining units that are reported. */
function takeBack(outcomes: readonly Outcome[], charges: readonly Charge[]): void {
  for (const { charged, cost, merged } of outcomes) {
    if (charged) merged.decision.remaining = math.min(merged.decision.remaining + cost, merged.decision.limit);
  }
  if (charges.length > 0) refundAll(charges);
}

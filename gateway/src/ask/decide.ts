// Decides what a caller asks for, all or nothing: every check is decided and tells its own, and if one refuses, what the
// others charged is given back.
//
// Checks of one policy and key are decided together, as one of their summed cost: a counter is charged once, so that the
// stores, which load and save each counter of a group, never meet one twice.
//
// Redis is asked first: while it is waited for, nothing of this node is charged. Its checks are charged by one script, all
// or none; a refusal on this node gives them back.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { emptyVerdict, type Verdict } from "../../../limiter/src/verdict.ts";
import { countDecision } from "../metrics/counts.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings, Settings } from "../settings.ts";
import { nodeShare } from "../stores/node-share.ts";
import { decideOnNode, refundOnNode } from "../stores/node-store.ts";
import { type Check, decideInRedis, refundChecksInRedis } from "../stores/redis-store.ts";

export interface Ask {
  readonly policy: CompiledPolicy;
  /** Undefined: a value is missing that the policy counts by. */
  readonly keyValues: string | undefined;
  readonly cost: number;
}

/** Why an outcome is not a limit's. */
export type Reason = "off" | "shadow" | "key-missing" | "undecided";

export interface Outcome {
  /** As it is in the snapshot. */
  readonly policy: CompiledPolicy;
  readonly keyValues: string;
  cost: number;
  allowed: boolean;
  /** Undefined: its limits decided, and `verdict` says how. */
  reason: Reason | undefined;
  readonly verdict: Verdict;
  /** What was charged, and where. */
  charge: Charge | undefined;
}

interface Charge extends Check {
  readonly limits: readonly CompiledLimit[];
  /** False: in Redis. */
  readonly onNode: boolean;
}

/** One more than any limit holds. Sums beyond are refused alike, and stay in the range that the algorithms are made for. */
const mostCost = 2147483649;

/** @returns an outcome for each of these, in their order; those decided together have one in common */
export function decideAsks(settings: Settings, asks: readonly Ask[]): Outcome[] {
  const outcomes: Outcome[] = [];
  const distinct: Outcome[] = [];
  gather(asks, outcomes, distinct);

  const cluster: Outcome[] = [];
  for (const outcome of distinct) {
    if (isEnforced(outcome) && outcome.policy.policy.scope === "cluster") cluster.push(outcome);
  }
  if (cluster.length > 0) decideCluster(settings, cluster);
  for (const outcome of distinct) {
    if (isEnforced(outcome) && outcome.policy.policy.scope === "node") {
      decideNode(outcome, priced(outcome), outcome.policy.limits);
    } else if (outcome.reason === "shadow") {
      observe(settings, outcome);
    }
  }
  if (!allAllowed(distinct)) giveBack(settings, distinct);
  for (const { policy, reason, allowed } of outcomes) {
    // Shadow and degraded ones are counted where they are decided.
    if (reason === undefined || (reason === "key-missing" && !allowed)) {
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
  for (const { verdict } of outcomes) longest = math.max(longest, verdict.delayUs);
  return longest;
}

function gather(asks: readonly Ask[], outcomes: Outcome[], distinct: Outcome[]): undefined {
  const byCounters: Record<string, Outcome> = {};
  for (const { policy, keyValues, cost } of asks) {
    const counters = policy.counterPrefix + (keyValues ?? "missing");
    let outcome = byCounters[counters];
    if (outcome === undefined) {
      const reason = reasonOf(policy, keyValues);
      outcome = {
        policy,
        keyValues: keyValues ?? "",
        cost,
        allowed: reason !== "key-missing" || policy.policy.onMissingKey === "skip",
        reason,
        verdict: emptyVerdict(),
        charge: undefined,
      };
      byCounters[counters] = outcome;
      distinct.push(outcome);
    } else {
      outcome.cost = math.min(outcome.cost + cost, mostCost);
    }
    outcomes.push(outcome);
  }
}

function reasonOf({ policy }: CompiledPolicy, keyValues: string | undefined): Reason | undefined {
  if (policy.mode === "off") return "off";
  if (keyValues === undefined) return policy.mode === "shadow" ? "shadow" : "key-missing";
  return policy.mode === "shadow" ? "shadow" : undefined;
}

function isEnforced({ reason }: Outcome): boolean {
  return reason === undefined;
}

/** The policy with the cost that is asked for. */
function priced({ policy, cost }: Outcome): CompiledPolicy {
  if (cost === policy.policy.cost) return policy;
  return { ...policy, policy: { ...policy.policy, cost } };
}

function decideNode(outcome: Outcome, policy: CompiledPolicy, limits: readonly CompiledLimit[]): void {
  const { keyValues, verdict } = outcome;
  const receipt: number[] = [];
  outcome.allowed = decideOnNode(policy, limits, keyValues, verdict, receipt);
  if (outcome.allowed) outcome.charge = { policy, limits, keyValues, receipt, onNode: true };
}

function decideCluster(settings: Settings, outcomes: readonly Outcome[]): void {
  const { redis } = settings;
  const checks: Check[] = [];
  for (const outcome of outcomes) {
    checks.push({ policy: priced(outcome), keyValues: outcome.keyValues, receipt: [], verdict: outcome.verdict });
  }
  let failure: string | undefined = "SLUICE_REDIS_URL is not set";
  if (redis !== undefined) {
    const [charged, redisFailure] = decideInRedis(redis, checks, emptyVerdict());
    if (charged !== undefined) {
      for (let i = 0; i < outcomes.length; i++) {
        const outcome = outcomes[i] as Outcome;
        const { policy, keyValues, receipt } = checks[i] as Check;
        outcome.allowed = outcome.verdict.allowed;
        if (charged) outcome.charge = { policy, limits: policy.limits, keyValues, receipt, onNode: false };
      }
      return;
    }
    failure = redisFailure;
  }
  warnSparingly("Redis did not decide", failure);
  for (const outcome of outcomes) decideWithoutRedis(outcome);
}

function decideWithoutRedis(outcome: Outcome): void {
  const { policy } = outcome;
  countDecision(policy, "degraded");
  const { onStoreFailure } = policy.policy;
  if (onStoreFailure === "local") {
    const asked = priced(outcome);
    decideNode(outcome, asked, nodeShare(asked));
  } else {
    outcome.allowed = onStoreFailure === "allow";
    outcome.reason = "undecided";
  }
}

/** Shadow: decided and charged apart from everything else, and only reported. */
function observe(settings: Settings, outcome: Outcome): void {
  const { policy, keyValues, verdict } = outcome;
  if (keyValues === "") return;
  const asked = priced(outcome);
  let allowed: boolean | undefined;
  if (policy.policy.scope === "node") {
    allowed = decideOnNode(asked, asked.limits, keyValues, verdict, undefined);
  } else if (settings.redis !== undefined) {
    [allowed] = decideInRedis(settings.redis, [{ policy: asked, keyValues, receipt: [] }], verdict);
  }
  if (allowed === undefined) countDecision(policy, "degraded");
  else countDecision(policy, allowed ? "allowed" : "shadow-refused");
  if (allowed === false) {
    ngx.log(ngx.NOTICE, "sluice: shadow policy would have refused: ", policy.app, "/", policy.policy.name);
  }
}

/** The last first: each then finds its counter as its charge left it. What is told to be left has it back. */
function giveBack(settings: Settings, outcomes: readonly Outcome[]): void {
  const inRedis: Check[] = [];
  for (let i = outcomes.length - 1; i >= 0; i--) {
    const { charge, cost, verdict } = outcomes[i] as Outcome;
    if (charge === undefined) continue;
    verdict.decision.remaining = math.min(verdict.decision.remaining + cost, verdict.decision.limit);
    if (charge.onNode) refundOnNode(charge.policy, charge.limits, charge.keyValues, charge.receipt);
    else inRedis.push(charge);
  }
  if (inRedis.length === 0) return;
  const failure = refundChecksInRedis(settings.redis as RedisSettings, inRedis);
  if (failure !== undefined) warnSparingly("units of a refused request were not given back", failure);
}

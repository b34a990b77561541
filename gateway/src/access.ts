// The access phase, in the order of the flow: snapshot, match, key, decide, respond.

import { shareOf } from "../../limiter/src/algorithms/rate.ts";
import { matchesTarget, policiesForHost } from "../../limiter/src/match/policy-index.ts";
import type { CompiledLimit, CompiledPolicy } from "../../limiter/src/policy/compile.ts";
import { emptyVerdict, type Verdict } from "../../limiter/src/verdict.ts";
import { reportShadowRefusal } from "./log.ts";
import { countDecision } from "./metrics/counts.ts";
import { liveGateways } from "./push/fleet.ts";
import { readKeyValues } from "./request/key-values.ts";
import { setHeaders } from "./respond/headers.ts";
import { refuseOverLimit, refuseUndecided, refuseWithoutKey } from "./respond/refuse.ts";
import { warnSparingly } from "./runtime/sparing-log.ts";
import type { Settings } from "./settings.ts";
import { currentSnapshot } from "./snapshot/current.ts";
import { decideOnNode, refundOnNode } from "./stores/node-store.ts";
import { type Check, decideInRedis } from "./stores/redis-store.ts";

/** What this node has charged for the request: given back when a later policy refuses it. */
interface NodeCharge extends Check {
  readonly limits: readonly CompiledLimit[];
  readonly receipt: readonly number[];
}

/** Why a request is turned away although no limit refused it. */
interface Denial {
  readonly policy: CompiledPolicy;
  readonly reason: "key-missing" | "undecided";
}

/** Decides the current request: lets it go on with headers, or answers it. */
export function access(settings: Settings): void {
  const { index } = currentSnapshot();
  const policies = index.needsHost ? policiesForHost(index, ngx.var["host"] ?? "") : index.anyHost;
  if (policies.length === 0) return;

  const verdict = emptyVerdict();
  const charges: NodeCharge[] = [];
  const denial = decide(settings, policies, charges, verdict);
  if (denial === undefined && verdict.allowed) {
    setHeaders(settings.headers, verdict);
    return;
  }
  refundAll(charges);
  if (denial === undefined) refuseOverLimit(settings.headers, verdict);
  else if (denial.reason === "key-missing") refuseWithoutKey(denial.policy);
  else refuseUndecided(denial.policy);
}

/** Node policies first, in order of evaluation, then all cluster policies at once. Stops at the first refusal. */
function decide(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  charges: NodeCharge[],
  verdict: Verdict,
): Denial | undefined {
  const clusterChecks: Check[] = [];
  for (const policy of policies) {
    if (!matches(policy)) continue;
    const keyValues = readKeyValues(policy.policy);
    if (keyValues === undefined) {
      if (policy.policy.onMissingKey === "skip" || policy.policy.mode === "shadow") continue;
      countDecision(policy, "refused");
      return { policy, reason: "key-missing" };
    }
    const check = { policy, keyValues };
    if (policy.policy.mode === "shadow") observe(settings, check);
    else if (policy.policy.scope === "cluster") clusterChecks.push(check);
    else if (!chargeNode(check, policy.limits, charges, verdict)) return undefined;
  }
  return clusterChecks.length > 0 ? chargeCluster(settings, clusterChecks, charges, verdict) : undefined;
}

function matches(policy: CompiledPolicy): boolean {
  if (policy.paths.length === 0 && policy.methods === undefined) return true;
  const path = policy.paths.length > 0 ? (ngx.var["uri"] ?? "") : "";
  const method = policy.methods !== undefined ? ngx.req.get_method() : "";
  return matchesTarget(policy, path, method);
}

function chargeNode(check: Check, limits: readonly CompiledLimit[], charges: NodeCharge[], verdict: Verdict): boolean {
  const receipt: number[] = [];
  const allowed = decideOnNode(check.policy, limits, check.keyValues, verdict, receipt);
  countDecision(check.policy, allowed ? "allowed" : "refused");
  if (allowed) charges.push({ policy: check.policy, keyValues: check.keyValues, limits, receipt });
  return allowed;
}

/** @returns a denial where Redis did not decide and a policy denies then; undefined when the verdict stands */
function chargeCluster(
  settings: Settings,
  checks: readonly Check[],
  charges: NodeCharge[],
  verdict: Verdict,
): Denial | undefined {
  const { redis } = settings;
  let failure: string | undefined = "SLUICE_REDIS_URL is not set";
  if (redis !== undefined) {
    const [allowed, redisFailure] = decideInRedis(redis, checks, verdict);
    if (allowed !== undefined) {
      for (const { policy } of checks) countDecision(policy, allowed ? "allowed" : "refused");
      return undefined;
    }
    failure = redisFailure;
  }
  warnSparingly("Redis did not decide", failure);
  for (const check of checks) {
    const { policy } = check;
    countDecision(policy, "degraded");
    if (policy.policy.onStoreFailure === "deny") return { policy, reason: "undecided" };
    if (policy.policy.onStoreFailure === "local" && !chargeNode(check, nodeShare(policy), charges, verdict)) {
      return undefined;
    }
  }
  return undefined;
}

/** The limits of a cluster policy as one node of the fleet may spend them when it cannot ask Redis. */
function nodeShare(policy: CompiledPolicy): CompiledLimit[] {
  const gateways = liveGateways();
  const limits: CompiledLimit[] = [];
  for (const { name, rate, counterSuffix } of policy.limits) {
    limits.push({ name, rate: shareOf(rate, gateways, policy.policy.cost), counterSuffix });
  }
  return limits;
}

/** Shadow: decided and charged apart from everything else, and only reported. */
function observe(settings: Settings, check: Check): void {
  let allowed: boolean | undefined;
  if (check.policy.policy.scope === "node") {
    allowed = decideOnNode(check.policy, check.policy.limits, check.keyValues, undefined, undefined);
  } else if (settings.redis !== undefined) {
    [allowed] = decideInRedis(settings.redis, [check], emptyVerdict());
  }
  if (allowed === undefined) {
    countDecision(check.policy, "degraded");
  } else if (allowed) {
    countDecision(check.policy, "allowed");
  } else {
    countDecision(check.policy, "shadow-refused");
    reportShadowRefusal(check.policy);
  }
}

function refundAll(charges: readonly NodeCharge[]): void {
  for (const { policy, limits, keyValues, receipt } of charges) refundOnNode(policy, limits, keyValues, receipt);
}

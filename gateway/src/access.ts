// The access phase, in the order of the flow: snapshot, match, key, decide, respond.

import { candidates, meets } from "../../limiter/src/match/policy-index.ts";
import type { CompiledLimit, CompiledPolicy } from "../../limiter/src/policy/compile.ts";
import { emptyVerdict, forgetVerdict, hearAll, mention, type Verdict } from "../../limiter/src/verdict.ts";
import { reportShadowRefusal } from "./log.ts";
import { countDecision, type Result } from "./metrics/counts.ts";
import { readKeyValues } from "./request/key-values.ts";
import { readHeader } from "./request/request-headers.ts";
import { readTerms, type Terms } from "./request/terms.ts";
import { beginExplanation, type Explanation, explain, tell } from "./respond/explain.ts";
import { setHeaders } from "./respond/headers.ts";
import { answerOverLimit, markOf, wasRedirected } from "./respond/over-limit.ts";
import { refuseBanned, refuseCost, refuseUndecided, refuseWithoutKey } from "./respond/refuse.ts";
import { chargeInTurn } from "./respond/wait.ts";
import { sleepMs } from "./runtime/clock.ts";
import { warnSparingly } from "./runtime/sparing-log.ts";
import type { HeaderStyle, RedisSettings, Settings } from "./settings.ts";
import { currentSnapshot } from "./snapshot/current.ts";
import { giveBack } from "./stores/give-back.ts";
import { holdSlots } from "./stores/held-slots.ts";
import { nodeShare } from "./stores/node-share.ts";
import { decideOnNode } from "./stores/node-store.ts";
import { type Check, decideInRedis } from "./stores/redis-store.ts";

/** What was charged for the request: given back when a later policy refuses it, and slots when it has ended. */
interface Charge extends Check {
  readonly limits: readonly CompiledLimit[];
  /** Undefined: charged on this node. */
  readonly redis: RedisSettings | undefined;
}

/** What a policy is asked. */
interface Inquiry extends Check {
  /** Decided by itself, more than once perhaps: whoever asks counts the outcome. */
  readonly apart: boolean;
}

/** Why a request is turned away although no limit refused it. */
interface Denial {
  readonly policy: CompiledPolicy;
  readonly reason: "banned" | "key-missing" | "cost-invalid" | "undecided";
}

/** Work space: read before anything yields. */
const terms = {} as Terms;

/** Of requests that meet one plain policy, used again: a lock may be waited for meanwhile, and other requests come. */
const idleVerdicts: Verdict[] = [];

/** Decides the current request: lets it go on with headers, or answers it. */
export function access(settings: Settings): undefined {
  const { index } = currentSnapshot();
  const path = index.needsPath ? (ngx.var["uri"] ?? "") : "";
  const policies =
    index.needsHost || index.needsPath
      ? candidates(index, index.needsHost ? (ngx.var["host"] ?? "") : "", path)
      : index.everywhere;
  if (wasRedirected()) return;
  if (settings.debugSecret !== undefined) {
    const explanation = beginExplanation(settings.debugSecret);
    if (explanation !== undefined) return decideAll(settings, policies, path, explanation);
  }
  if (policies.length === 0) return;
  if (policies.length === 1 && (policies[0] as CompiledPolicy).plain) {
    return decideLone(settings.headers, policies[0] as CompiledPolicy);
  }
  return decideAll(settings, policies, path, undefined);
}

/** The commonest request by far, decided without a table or a loop. */
function decideLone(style: HeaderStyle, policy: CompiledPolicy): undefined {
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) {
    if (policy.policy.onMissingKey === "skip") return;
    countDecision(policy, "refused");
    return refuseWithoutKey(policy);
  }
  const receipt = policy.holdsSlots ? [] : undefined;
  const verdict = idleVerdicts.pop() ?? emptyVerdict();
  forgetVerdict(verdict);
  const allowed = decideOnNode(policy, policy.limits, keyValues, verdict, receipt);
  // Whoever takes it next does so after this request has been answered or sleeps.
  idleVerdicts.push(verdict);
  if (!allowed) {
    countDecision(policy, "refused");
    return answerOverLimit(style, verdict);
  }
  countDecision(policy, "allowed");
  if (receipt !== undefined) holdSlots(policy, policy.limits, keyValues, receipt, undefined);
  return goOn(style, verdict);
}

function goOn(style: HeaderStyle, verdict: Verdict): undefined {
  if (style !== "none") setHeaders(style, verdict);
  // leaky-bucket: the request goes on when its turn comes. Only it waits.
  if (verdict.delayUs > 0) sleepMs(math.ceil(verdict.delayUs / 1000));
}

function decideAll(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  path: string,
  explanation: Explanation,
): undefined {
  const verdict = emptyVerdict();
  const charges: Charge[] = [];
  const denial = decide(settings, policies, path, charges, verdict, explanation);
  tell(explanation, verdict);
  if (denial === undefined && verdict.allowed) {
    for (const charge of charges) hold(charge);
    return goOn(settings.headers, verdict);
  }
  refundAll(charges);
  if (denial === undefined) return answerOverLimit(settings.headers, verdict);
  if (denial.reason === "key-missing") return refuseWithoutKey(denial.policy);
  if (denial.reason === "cost-invalid") return refuseCost(denial.policy);
  return denial.reason === "banned" ? refuseBanned() : refuseUndecided(denial.policy);
}

/** Node policies first, in order of evaluation, then all cluster policies at once. Stops at the first refusal. */
function decide(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  path: string,
  charges: Charge[],
  verdict: Verdict,
  explanation: Explanation,
): Denial | undefined {
  const clusterChecks: Inquiry[] = [];
  for (const matching of policies) {
    if (matching.conditional && !meets(matching, path, methodFor(matching), readHeader)) continue;
    const standing = readTerms(matching, terms);
    if (standing !== "held") {
      explain(explanation, matching, undefined, standing);
      if (standing === "passes") continue;
      // A key may be missing, and a policy in shadow mode turns nobody away.
      if (matching.policy.mode === "shadow") continue;
      if (standing === "key-missing" && matching.policy.onMissingKey === "skip") continue;
      if (standing === "cost-invalid" && terms.policy.policy.mode === "shadow") continue;
      countDecision(matching, "refused");
      return { policy: matching, reason: standing };
    }
    const { policy, keyValues } = terms;
    const { action } = policy.policy.onLimit;
    const check: Inquiry = { policy, keyValues, receipt: [], apart: action !== "reject" };
    if (policy.policy.mode === "shadow") {
      explain(explanation, policy, keyValues, observe(settings, check));
    } else if (check.apart) {
      const denial = decideApart(settings, check, charges, verdict);
      explain(explanation, policy, keyValues, verdict.allowed ? "went on" : "refused");
      if (denial !== undefined || !verdict.allowed) return denial;
    } else if (policy.policy.scope === "cluster") {
      explain(explanation, policy, keyValues, "decided with all of its scope");
      clusterChecks.push(check);
    } else {
      const allowed = chargeNode(check, policy.limits, charges, verdict);
      explain(explanation, policy, keyValues, allowed ? "charged" : "refused");
      if (!allowed) return undefined;
    }
  }
  return clusterChecks.length > 0 ? chargeCluster(settings, clusterChecks, charges, verdict) : undefined;
}

function methodFor({ methods }: CompiledPolicy): string {
  return methods === undefined ? "" : ngx.req.get_method();
}

function chargeNode(check: Inquiry, limits: readonly CompiledLimit[], charges: Charge[], verdict: Verdict): boolean {
  const { policy, keyValues, receipt } = check;
  const allowed = decideOnNode(policy, limits, keyValues, verdict, receipt);
  if (!check.apart) countDecision(policy, allowed ? "allowed" : "refused");
  if (allowed) charges.push({ policy, keyValues, receipt, limits, redis: undefined });
  return allowed;
}

/** @returns a denial where Redis did not decide and a policy denies then; undefined when the verdict stands */
function chargeCluster(
  settings: Settings,
  checks: readonly Inquiry[],
  charges: Charge[],
  verdict: Verdict,
): Denial | undefined {
  const { redis } = settings;
  let failure: string | undefined = "SLUICE_REDIS_URL is not set";
  if (redis !== undefined) {
    const [allowed, redisFailure] = decideInRedis(redis, checks, verdict);
    if (allowed !== undefined) {
      for (const { policy, keyValues, receipt, apart } of checks) {
        if (!apart) countDecision(policy, allowed ? "allowed" : "refused");
        if (allowed) charges.push({ policy, keyValues, receipt, limits: policy.limits, redis });
      }
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

/**
 * A policy whose refusal need not be the end: its request waits, or passes with a mark. It is decided by itself, so that
 * what it refuses takes nothing from the others.
 */
function decideApart(settings: Settings, check: Inquiry, charges: Charge[], verdict: Verdict): Denial | undefined {
  const { policy, keyValues } = check;
  const own = emptyVerdict();
  let denial: Denial | undefined;
  const ask = () => {
    forgetVerdict(own);
    if (policy.policy.scope === "node") return chargeNode(check, policy.limits, charges, own);
    denial = chargeCluster(settings, [check], charges, own);
    return denial === undefined && own.allowed;
  };
  const { onLimit } = policy.policy;
  const allowed = onLimit.action === "delay" ? chargeInTurn(policy, keyValues, onLimit, own, ask) : ask();
  if (denial !== undefined || own.policy === undefined) return denial;
  countDecision(policy, allowed ? "allowed" : "refused");
  const mark = markOf(policy);
  if (mark !== undefined) {
    // What the client sends under this name is not believed.
    if (allowed) ngx.req.clear_header(mark.name);
    else ngx.req.set_header(mark.name, mark.value);
  }
  if (allowed || mark === undefined) {
    hearAll(verdict, own);
  } else {
    own.decision.allowed = true;
    mention(verdict, policy, own.limitName, own.decision);
  }
  return undefined;
}

/** Shadow: decided and charged apart from everything else, and only reported. */
function observe(settings: Settings, check: Check): Result {
  const { policy, keyValues, receipt } = check;
  const redis = policy.policy.scope === "cluster" ? settings.redis : undefined;
  let allowed: boolean | undefined;
  if (policy.policy.scope === "node") {
    allowed = decideOnNode(policy, policy.limits, keyValues, undefined, receipt);
  } else if (redis !== undefined) {
    [allowed] = decideInRedis(redis, [check], emptyVerdict());
  }
  if (allowed === true) hold({ policy, keyValues, receipt, limits: policy.limits, redis });
  if (allowed === false) reportShadowRefusal(policy);
  const result = allowed === undefined ? "degraded" : allowed ? "allowed" : "shadow-refused";
  countDecision(policy, result);
  return result;
}

function hold({ policy, limits, keyValues, receipt, redis }: Charge): void {
  if (policy.holdsSlots) holdSlots(policy, limits, keyValues, receipt, redis);
}

function refundAll(charges: readonly Charge[]): void {
  for (const { policy, limits, keyValues, receipt, redis } of charges) {
    giveBack(policy, limits, keyValues, receipt, redis, "units of a refused request stay charged");
  }
}

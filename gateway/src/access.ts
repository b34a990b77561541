// The access phase, in the order of the flow: snapshot, match, key, decide, respond.

import type { CompiledPolicy } from "../../limiter/src/compiled/compile.ts";
import {
  clearMerged,
  type MergedDecision,
  mergeAll,
  newMergedDecision,
  showIfMoreRestrictive,
} from "../../limiter/src/compiled/merged-decision.ts";
import { candidates, meets } from "../../limiter/src/index/policy-index.ts";
import {
  chargeInRedis,
  chargeOnNode,
  chargeWithoutRedis,
  forgetUndecided,
  keepInMind,
  refundAll,
  refundLater,
} from "./charging/charges.ts";
import { deferCharge } from "./charging/deferred-charges.ts";
import { chargeInTurn } from "./charging/delay.ts";
import { holdSlots } from "./charging/held-slots.ts";
import { observe } from "./charging/shadow.ts";
import { mayWait, refuseToWait, waitUs } from "./charging/waiting-requests.ts";
import { countDecision } from "./metrics/counts.ts";
import { type AppliedPolicy, isBannedEverywhere, readApplicability } from "./request/applicability.ts";
import { readKeyValues } from "./request/key-values.ts";
import { hasHeader } from "./request/request-headers.ts";
import { beginExplanation, type Explanation, explain, reportBan, reportExplanation } from "./respond/explain.ts";
import { setHeaders } from "./respond/headers.ts";
import { applyMarks, hasMark, type Marks, setMark, unsetMark } from "./respond/marks.ts";
import { answerOverLimit, wasRedirected } from "./respond/over-limit.ts";
import { refuseAmbiguousKey, refuseBanned, refuseCost, refuseUndecided, refuseWithoutKey } from "./respond/refuse.ts";
import { reportShadowRefusal } from "./respond/shadow-report.ts";
import { warnSparingly } from "./runtime/sparing-log.ts";
import type { HeaderStyle, RedisSettings, Settings } from "./settings.ts";
import { currentSnapshot } from "./snapshot/current.ts";
import type { Charge, Check } from "./stores/check.ts";
import { spendLease } from "./stores/lease/leases.ts";
import { decideOnNode } from "./stores/node/node-store.ts";
import { chargedAtByLast, decideOneInRedis } from "./stores/redis/redis-store.ts";

/** What a policy is asked. */
interface EvaluatedCheck extends Check {
  /** Decided by itself, more than once perhaps: whoever asks counts the outcome. */
  readonly separate: boolean;
  /** Whether it was counted that Redis did not decide. */
  degraded: boolean;
}

/** Why a request is turned away although no limit refused it. */
interface Denial {
  readonly policy: CompiledPolicy;
  readonly reason: "banned" | "key-missing" | "key-ambiguous" | "cost-invalid" | "undecided";
}

/** Work space: read before anything yields. */
const applied = {} as AppliedPolicy;

/** Of requests that meet one plain policy, used again: a lock may be waited for meanwhile, and other requests come. */
const idleMerged: MergedDecision[] = [];
/** LuaJIT searches for the length of a table whenever it is asked for. */
let idleCount = 0;

/** Work space: what the last request charged that met one plain policy on this node. Filled when nothing yields any more. */
const chargedAtOfLast: number[] = [];

/** Decides the current request: lets it go on with headers, or answers it. */
export function access(settings: Settings): undefined {
  const { index, bannedEverywhere } = currentSnapshot();
  if (bannedEverywhere !== undefined && isBannedEverywhere(ngx.var["remote_addr"] ?? "")) {
    return refuseBannedAddress(settings);
  }
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
  const policy = policies[0];
  if (policy === undefined) return;
  if (policy.fastPath && policies[1] === undefined) {
    if (policy.leased && decideFromLease(settings, policy)) return;
    return decideFast(settings, policy);
  }
  return decideAll(settings, policies, path, undefined);
}

/** Before any policy is met: what they say does not matter. */
function refuseBannedAddress({ debugSecret }: Settings): undefined {
  if (debugSecret !== undefined && beginExplanation(debugSecret) !== undefined) reportBan("default");
  refuseBanned();
}

/** The commonest request by far, decided without a table or a loop. */
function decideFast(settings: Settings, policy: CompiledPolicy): undefined {
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) {
    if (policy.policy.onMissingKey === "skip") return;
    countDecision(policy, "refused");
    return refuseWithoutKey(policy);
  }
  if (keyValues === false) {
    countDecision(policy, "refused");
    return refuseAmbiguousKey(policy);
  }
  if (policy.policy.scope === "cluster") return decideFastInCluster(settings, policy, keyValues);
  const style = settings.headers;
  const chargedAt = policy.holdsSlots ? [] : chargedAtOfLast;
  const merged = takeMerged();
  merged.quiet = style === "none";
  const allowed = decideOnNode(policy, policy.limits, keyValues, merged, chargedAt);
  // Whoever takes it next does so after this request has been answered or sleeps.
  keepMerged(merged);
  if (!allowed) {
    countDecision(policy, "refused");
    return answerOverLimit(style, merged);
  }
  if (merged.delayUs > 0 && !mayWait(policy)) {
    refundLater({ policy, limits: policy.limits, keyValues, chargedAt: copied(chargedAt, policy), redis: undefined });
    return turnAway(style, policy, merged);
  }
  countDecision(policy, "allowed");
  if (policy.holdsSlots) holdSlots(policy, policy.limits, keyValues, chargedAt, undefined);
  return goOn(style, merged);
}

function decideFastInCluster(settings: Settings, policy: CompiledPolicy, keyValues: string): undefined {
  const { redis } = settings;
  if (redis === undefined || policy.leased || policy.holdsSlots || policy.limits.length > 1) {
    return decideFastWithCharges(settings, { policy, keyValues, chargedAt: [] });
  }
  const merged = takeMerged();
  merged.quiet = false;
  const [allowed, failure, unanswered] = decideOneInRedis(redis, policy, keyValues, merged);
  if (allowed === undefined) {
    warnSparingly("Redis did not decide", failure);
    return goWithoutRedisAlone(settings, { policy, keyValues, chargedAt: [], unanswered });
  }
  // Whoever takes it next does so after this request has been answered or sleeps.
  keepMerged(merged);
  if (allowed && merged.delayUs > 0 && !mayWait(policy)) {
    refundLater({ policy, limits: policy.limits, keyValues, chargedAt: chargedAtByLast(), redis });
    return turnAway(settings.headers, policy, merged);
  }
  countDecision(policy, allowed ? "allowed" : "refused");
  return allowed ? goOn(settings.headers, merged) : answerOverLimit(settings.headers, merged);
}

function decideFastWithCharges(settings: Settings, check: Check): undefined {
  const merged = newMergedDecision();
  const charges: Charge[] = [];
  const allowed = chargeInRedis(settings.redis, [check], merged, charges);
  if (allowed === undefined) return goWithoutRedisAlone(settings, check);
  endFast(settings, check.policy, allowed, merged, charges);
}

function goWithoutRedisAlone(settings: Settings, check: Check): undefined {
  const merged = newMergedDecision();
  const charges: Charge[] = [];
  countDecision(check.policy, "degraded");
  endFast(settings, check.policy, chargeWithoutRedis(settings.redis, check, merged, charges), merged, charges);
}

function endFast(
  { headers }: Settings,
  policy: CompiledPolicy,
  allowed: boolean,
  merged: MergedDecision,
  charges: readonly Charge[],
): undefined {
  if (allowed && merged.delayUs > 0 && !mayWait(policy)) {
    for (const charge of charges) refundLater(charge);
    return turnAway(headers, policy, merged);
  }
  countDecision(policy, allowed ? "allowed" : "refused");
  if (!allowed) return merged.allowed ? refuseUndecided(policy) : answerOverLimit(headers, merged);
  if (policy.holdsSlots) holdSlotsOf(charges[0] as Charge);
  return goOn(headers, merged);
}

/** @param charge of no limit: onStoreFailure lets the request pass without slots */
function holdSlotsOf(charge: Charge): undefined {
  if (charge.limits.length > 0)
    holdSlots(charge.policy, charge.limits, charge.keyValues, charge.chargedAt, charge.redis);
}

/** The same from the units of a lease, or what is known to be left of the limit. @returns false: Redis is to be asked */
function decideFromLease({ headers: style, redis }: Settings, policy: CompiledPolicy): boolean {
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined || keyValues === false || redis === undefined) return false;
  const merged = takeMerged();
  merged.quiet = style === "none";
  const allowed = spendLease(redis, policy, keyValues, merged);
  keepMerged(merged);
  if (allowed === undefined) return false;
  countDecision(policy, allowed ? "allowed" : "refused");
  if (!allowed) answerOverLimit(style, merged);
  else if (style !== "none") setHeaders(style, merged);
  return true;
}

function takeMerged(): MergedDecision {
  if (idleCount === 0) return newMergedDecision();
  idleCount -= 1;
  const merged = idleMerged[idleCount] as MergedDecision;
  clearMerged(merged);
  return merged;
}

function keepMerged(merged: MergedDecision): undefined {
  idleMerged[idleCount] = merged;
  idleCount += 1;
}

function goOn(style: HeaderStyle, merged: MergedDecision): undefined {
  if (style !== "none") setHeaders(style, merged);
  if (merged.delayUs > 0) waitUs(merged.delayUs);
}

/** Too many wait already. What the request was charged goes back by a timer where that yields: the verdict may be another's then. */
function turnAway(style: HeaderStyle, policy: CompiledPolicy, merged: MergedDecision): undefined {
  countDecision(policy, "refused");
  refuseToWait(merged, policy);
  answerOverLimit(style, merged);
}

/** @param receipt may have more in it, of a policy with more limits */
function copied(chargedAt: readonly number[], { limits }: CompiledPolicy): number[] {
  return chargedAt.slice(0, limits.length);
}

function decideAll(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  path: string,
  explanation: Explanation | undefined,
): undefined {
  const merged = newMergedDecision();
  const charges: Charge[] = [];
  const marks: Marks = { unset: [], set: [] };
  const denial = decide(settings, policies, path, charges, merged, marks, explanation);
  forgetUndecided();
  if (denial === undefined && merged.allowed && merged.delayUs > 0) turnAwayIfFull(charges, merged, marks);
  applyMarks(marks);
  if (explanation !== undefined) reportExplanation(explanation, { merged, charges, denial, redis: settings.redis });
  if (denial === undefined && merged.allowed) {
    for (const charge of charges) {
      if (charge.policy.holdsSlots) holdSlotsOf(charge);
      if (charge.policy.deferred) deferCharge(charge);
    }
    return goOn(settings.headers, merged);
  }
  if (charges.length > 0) refundAll(charges);
  if (denial === undefined) return answerOverLimit(settings.headers, merged);
  if (denial.reason === "key-missing") return refuseWithoutKey(denial.policy);
  if (denial.reason === "key-ambiguous") return refuseAmbiguousKey(denial.policy);
  if (denial.reason === "cost-invalid") return refuseCost(denial.policy);
  return denial.reason === "banned" ? refuseBanned() : refuseUndecided(denial.policy);
}

/**
 * Where too many wait already, the first policy that would have the request wait refuses it. If all of these only mark what is over
 * the limit, it goes on at once with their marks, and stays charged.
 */
function turnAwayIfFull(charges: readonly Charge[], merged: MergedDecision, marks: Marks): undefined {
  const shaping = charges.filter(({ limits }) => limits.some(({ rate }) => rate.algorithm === "leaky-bucket"));
  const refusing = shaping.find(({ policy }) => !hasMark(policy)) ?? shaping[0];
  if (refusing === undefined || mayWait(refusing.policy)) return;
  if (!hasMark(refusing.policy)) return refuseToWait(merged, refusing.policy);
  for (const { policy } of shaping) setMark(policy, marks);
  merged.delayUs = 0;
}

/** Node policies first, in order of evaluation, then all cluster policies at once. Stops at the first refusal. */
function decide(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  path: string,
  charges: Charge[],
  merged: MergedDecision,
  marks: Marks,
  explanation: Explanation | undefined,
): Denial | undefined {
  const clusterChecks: EvaluatedCheck[] = [];
  for (const matching of policies) {
    if (matching.conditional && !meets(matching, path, methodFor(matching), hasHeader)) continue;
    unsetMark(matching, marks);
    const applicability = readApplicability(matching, applied);
    if (applicability !== "held") {
      if (explanation !== undefined) explain(explanation, matching, undefined, applicability);
      if (applicability === "off" || applicability === "exempt") continue;
      // A key may be missing or ambiguous, and a policy in shadow mode turns nobody away. What is banned here is banned by the app.
      if (matching.policy.mode === "shadow" && applicability !== "banned") continue;
      if (applicability === "key-missing" && matching.policy.onMissingKey === "skip") continue;
      if (applicability === "cost-invalid" && applied.policy.policy.mode === "shadow") continue;
      if (matching.policy.mode === "enforce") countDecision(matching, "refused");
      return { policy: matching, reason: applicability };
    }
    const { policy, keyValues } = applied;
    const { action } = policy.policy.onLimit;
    const separate = action !== "reject" || policy.deferred;
    const check: EvaluatedCheck = { policy, keyValues, chargedAt: [], separate, degraded: false };
    if (policy.policy.mode === "shadow") {
      const result = observe(settings.redis, check);
      if (result === "shadow-refused") reportShadowRefusal(policy);
      if (explanation !== undefined) explain(explanation, policy, keyValues, result);
      continue;
    }
    if (explanation !== undefined) explain(explanation, policy, keyValues, check);
    if (check.separate) {
      const denial = decideSeparately(settings, check, charges, merged, marks);
      if (denial !== undefined || !merged.allowed) return denial;
    } else if (policy.policy.scope === "cluster") {
      clusterChecks.push(check);
    } else {
      const allowed = chargeOnNode(check, policy.limits, merged, charges);
      countDecision(policy, allowed ? "allowed" : "refused");
      if (!allowed) return undefined;
    }
  }
  return clusterChecks.length > 0 ? chargeCluster(settings, clusterChecks, charges, merged) : undefined;
}

function methodFor({ methods }: CompiledPolicy): string {
  return methods === undefined ? "" : ngx.req.get_method();
}

/** @returns a denial where Redis did not decide and a policy denies then; undefined when the verdict stands */
function chargeCluster(
  { redis }: Settings,
  checks: readonly EvaluatedCheck[],
  charges: Charge[],
  merged: MergedDecision,
): Denial | undefined {
  if (charges.length > 0 || checks.length > 1) keepInMind(charges);
  if (chargeInRedis(redis, checks, merged, charges) === undefined)
    return goWithoutRedis(redis, checks, charges, merged);
  for (const { policy, separate, allowed } of checks) {
    // Undefined: another had refused before it was asked.
    if (!separate && allowed !== undefined) countDecision(policy, allowed ? "allowed" : "refused");
  }
  return undefined;
}

function goWithoutRedis(
  redis: RedisSettings | undefined,
  checks: readonly EvaluatedCheck[],
  charges: Charge[],
  merged: MergedDecision,
): Denial | undefined {
  for (const check of checks) {
    const { policy } = check;
    if (!check.degraded) countDecision(policy, "degraded");
    check.degraded = true;
    const allowed = chargeWithoutRedis(redis, check, merged, charges);
    if (!check.separate) countDecision(policy, allowed ? "allowed" : "refused");
    if (!allowed) return policy.policy.onStoreFailure === "deny" ? { policy, reason: "undecided" } : undefined;
  }
  return undefined;
}

/**
 * A policy whose refusal need not be the end: its request waits, or passes with a mark. It is decided by itself, so that
 * what it refuses takes nothing from the others. So is one that charges nothing before the response has been sent.
 */
function decideSeparately(
  settings: Settings,
  check: EvaluatedCheck,
  charges: Charge[],
  merged: MergedDecision,
  marks: Marks,
): Denial | undefined {
  const { policy, keyValues } = check;
  const own = newMergedDecision();
  let denial: Denial | undefined;
  const ask = () => {
    clearMerged(own);
    if (policy.policy.scope === "node") return chargeOnNode(check, policy.limits, own, charges);
    denial = chargeCluster(settings, [check], charges, own);
    return denial === undefined && own.allowed;
  };
  const { onLimit } = policy.policy;
  const waits = onLimit.action === "delay";
  if (waits && charges.length > 0) keepInMind(charges);
  const allowed = waits ? chargeInTurn(policy, keyValues, onLimit, own, ask) : ask();
  countDecision(policy, allowed ? "allowed" : "refused");
  if (denial !== undefined) return denial;
  if (allowed || !setMark(policy, marks)) {
    mergeAll(merged, own);
  } else {
    own.decision.allowed = true;
    showIfMoreRestrictive(merged, policy, own.limitName, own.decision);
  }
  return undefined;
}

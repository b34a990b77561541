// The fast path: a request that meets one policy, which is enforced by refusing and has neither bans, exemptions, overrides, a schedule
// nor a cost that the request states. By far the most requests are of that kind. LuaJIT compiles this path whole, because it has no loop
// and makes no table, so that such a request costs little more than nginx's own limit_req (bench/README.md). The other path decides
// these requests alike: test/e2e/both-paths.test.ts compares the two.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, type MergedDecision, newMergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { admit, admitWithoutRedis } from "../charging/admit.ts";
import { holdSlots } from "../charging/held-slots.ts";
import { chargeForGood, refundLater } from "../charging/refunds.ts";
import { refuseIfFull, waitUs } from "../charging/waiting-requests.ts";
import { countDecision } from "../metrics/counts.ts";
import { configuredRedis } from "../redis/redis-settings.ts";
import { noteDecided } from "../request/decided-before.ts";
import { readKeyValues } from "../request/key-values.ts";
import { setHeaders } from "../respond/headers.ts";
import { areLogged, logDenial, logMerged } from "../respond/log-variables.ts";
import { answerOverLimit } from "../respond/over-limit.ts";
import { refuseAmbiguousKey, refuseUndecided, refuseWithoutKey } from "../respond/refuse.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { HeaderStyle, Settings } from "../settings.ts";
import { spendLease } from "../stores/lease/spend.ts";
import { decideOnNode } from "../stores/node/node-counters.ts";
import { chargedAtByLast, decideOneInRedis } from "../stores/redis/decide-checks.ts";
import { byChoice } from "../stores/redis/overload.ts";
import { type Charge, type Check, newCheck, newOutcome, type Outcome } from "../stores/store.ts";

/** Pool of decisions; a lock wait may interleave requests, so one for all would not do. */
const idleMerged: MergedDecision[] = [];
/** LuaJIT searches for the length of a table whenever it is asked for. */
let idleCount = 0;

/** Work space: what the last request charged on this node. Read before anything yields. */
const chargedAtOfLast: number[] = [];

/** Decides the current request by this policy alone. */
export function decideFast(settings: Settings, policy: CompiledPolicy): undefined {
  const keyValues = readKeyValues(policy.policy);
  if (keyValues === undefined) {
    if (policy.policy.onMissingKey === "skip") return;
    countDecision(policy, "refused", undefined);
    if (areLogged()) logDenial(policy, "key-missing");
    return refuseWithoutKey(policy);
  }
  if (keyValues === false) {
    countDecision(policy, "refused", undefined);
    if (areLogged()) logDenial(policy, "key-ambiguous");
    return refuseAmbiguousKey(policy);
  }
  if (policy.policy.store === "node") return decideByNode(settings.headers, policy, keyValues);
  if (policy.policy.store === "leased" && decideByLease(settings, policy, keyValues)) return;
  return decideByRedis(settings, policy, keyValues);
}

function decideByNode(style: HeaderStyle, policy: CompiledPolicy, keyValues: string): undefined {
  const chargedAt = policy.policy.holdsSlots ? [] : chargedAtOfLast;
  const merged = takeMerged();
  merged.quiet = style === "none" && !areLogged();
  const allowed = decideOnNode(policy, policy.limits, keyValues, merged, chargedAt);
  // Safe to release: nothing takes it before this request is answered or sleeps.
  releaseMerged(merged);
  if (allowed && merged.delayUs > 0 && refuseIfFull(merged, policy)) {
    refundLater(chargeOf(policy, keyValues, chargedAt.slice(0, policy.limits.length), "node"));
  } else if (allowed && policy.policy.holdsSlots) {
    holdSlots(chargeOf(policy, keyValues, chargedAt, "node"));
  }
  return respond(style, policy, keyValues, merged, undefined);
}

/** Decides from the units of a lease, or by what is known to be left of the limit. @returns false: Redis is to be asked */
function decideByLease({ headers: style, redis }: Settings, policy: CompiledPolicy, keyValues: string): boolean {
  if (redis === undefined) return false;
  const merged = takeMerged();
  merged.quiet = style === "none" && !areLogged();
  const allowed = spendLease(policy, keyValues, merged);
  releaseMerged(merged);
  if (allowed === undefined) return false;
  respond(style, policy, keyValues, merged, undefined);
  return true;
}

function decideByRedis({ headers: style }: Settings, policy: CompiledPolicy, keyValues: string): undefined {
  const redis = configuredRedis();
  if (redis === undefined || policy.policy.store === "leased" || policy.policy.holdsSlots || policy.limits.length > 1) {
    return decideByStores(style, newCheck(policy, keyValues, true), true);
  }
  const merged = takeMerged();
  merged.quiet = false;
  const [allowed, failure, unanswered] = decideOneInRedis(redis, policy, keyValues, merged);
  if (allowed === undefined) {
    const check = newCheck(policy, keyValues, true);
    check.unanswered = unanswered;
    if (failure === byChoice) check.overloaded = true;
    else warnSparingly("Redis did not decide", failure);
    return decideByStores(style, check, false);
  }
  // Safe to release: nothing takes it before this request is answered or sleeps.
  releaseMerged(merged);
  if (allowed && merged.delayUs > 0 && refuseIfFull(merged, policy)) {
    refundLater(chargeOf(policy, keyValues, chargedAtByLast(), "exact"));
  }
  return respond(style, policy, keyValues, merged, undefined);
}

/** @param withRedis false: Redis has not decided */
function decideByStores(style: HeaderStyle, check: Check, withRedis: boolean): undefined {
  const { policy, keyValues } = check;
  const outcome = newOutcome();
  const { merged, charges } = outcome;
  const allowed = withRedis ? admit(check, outcome) : admitWithoutRedis(check, outcome);
  if (outcome.denial !== undefined) {
    countDecision(policy, "refused", keyValues);
    if (areLogged()) logDenial(policy, outcome.denial.reason, outcome);
    return refuseUndecided(policy);
  }
  if (allowed && merged.delayUs > 0 && refuseIfFull(merged, policy)) {
    for (const charge of charges) refundLater(charge);
  } else {
    if (allowed && policy.policy.holdsSlots) for (const charge of charges) holdSlots(charge);
    chargeForGood(charges);
  }
  return respond(style, policy, keyValues, merged, outcome);
}

function chargeOf(policy: CompiledPolicy, keyValues: string, chargedAt: number[], store: Charge["store"]): Charge {
  return { policy, limits: policy.limits, keyValues, chargedAt, store };
}

/** @param withoutRedis the outcome, if Redis did not decide */
function respond(
  style: HeaderStyle,
  policy: CompiledPolicy,
  keyValues: string,
  merged: MergedDecision,
  withoutRedis: Outcome | undefined,
): undefined {
  if (areLogged()) logMerged(policy, merged, withoutRedis);
  if (!merged.allowed) {
    countDecision(policy, "refused", keyValues);
    return answerOverLimit(style, merged);
  }
  countDecision(policy, "allowed", keyValues);
  noteDecided(policy);
  if (style !== "none") setHeaders(style, merged);
  if (merged.delayUs > 0) {
    countDecision(policy, "delayed", undefined);
    waitUs(merged.delayUs, policy);
  }
}

function takeMerged(): MergedDecision {
  if (idleCount === 0) return newMergedDecision();
  idleCount -= 1;
  const merged = idleMerged[idleCount] as MergedDecision;
  clearMerged(merged);
  return merged;
}

function releaseMerged(merged: MergedDecision): undefined {
  idleMerged[idleCount] = merged;
  idleCount += 1;
}

// Charges what policies take for a request, on this node or in Redis, and gives it back where it was charged.

import type { LastKnown } from "../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { type Call, callScripts, groupOf, isReachable } from "../redis/script-call.ts";
import { oddReply } from "../redis/script-reply.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { runSoon, runUntilDone } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { reportMissingRedis } from "../runtime/missing-parts.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import type { Charge, Charged, Check, Owed, Unanswered } from "../stores/check.ts";
import { chargeLeased, chargeUnspent, lastKnownOfLease, refundLeased } from "../stores/lease/leases.ts";
import { beginShareOnNode, mustAgree, refundOnNode } from "../stores/node/node-store.ts";
import { noteOwed, retractOwed } from "../stores/redis/debts.ts";
import { mostCountersAtOnce, refundCall, refundInRedis } from "../stores/redis/redis-store.ts";
import { lastRefusal } from "../stores/redis/refusal-cache.ts";
import { roundTrips } from "../stores/redis/renewals.ts";
import { firstKey } from "../stores/redis/slot-groups.ts";
import { nodeShare } from "../stores/share/node-share.ts";
import { admitInRedis, admitOnNode } from "./deferred-charges.ts";

/**
 * @param charges has the charge afterwards, where the request is allowed
 * @returns whether it is
 */
export function chargeOnNode(
  { policy, keyValues, chargedAt }: Check,
  limits: readonly CompiledLimit[],
  merged: MergedDecision | undefined,
  charges: Charge[],
): boolean {
  const allowed = admitOnNode(policy, limits, keyValues, merged, chargedAt);
  if (allowed) charges.push({ policy, limits, keyValues, chargedAt, redis: undefined });
  return allowed;
}

/**
 * All of these or none. Leased policies are decided one by one, first; the others by one call to Redis, unless they have very
 * many limits: then by several. What was charged when a later one refuses is among the charges. Yields.
 *
 * @param redis undefined: none is configured
 * @param verdict hears the limits of checks that have no verdict of their own
 * @param charges has the charges afterwards
 * @returns whether the request is allowed; undefined when Redis did not decide
 */
export function chargeInRedis(
  redis: RedisSettings | undefined,
  checks: readonly Check[],
  merged: MergedDecision,
  charges: Charge[],
): boolean | undefined {
  if (redis === undefined) {
    reportMissingRedis();
    return undefined;
  }
  const first = checks[0] as Check;
  if (checks.length === 1 && !first.policy.leased) return chargeByOneCall(redis, checks, merged, charges);
  const before = charges.length;
  let exact = checks;
  let allAllowed = true;
  if (hasLeased(checks)) {
    exact = checks.filter(({ policy }) => !policy.leased);
    for (const check of checks) {
      if (!check.policy.leased) continue;
      const allowed = chargeLeased(redis, check, merged, charges);
      if (allowed === undefined) return undecided(checks, charges, before);
      if (!allowed) allAllowed = false;
      // After a refusal only those are asked whose caller is told of each check.
      if (!allowed && check.merged === undefined) return false;
    }
  }
  const allowed = chargeExactly(redis, exact, merged, charges);
  if (allowed === undefined) return undecided(checks, charges, before);
  return allowed && allAllowed;
}

function hasLeased(checks: readonly Check[]): boolean {
  for (const { policy } of checks) {
    if (policy.leased) return true;
  }
  return false;
}

/** A request that Redis did not decide as a whole has been decided without it after that, in nearly all cases. */
const decidedAfterMs = 50;

/**
 * Each of the checks is decided again, without Redis. What was spent of leases goes back at once. What Redis has charged stays
 * charged where the request goes on, and goes back otherwise.
 */
function undecided(checks: readonly Check[], charges: Charge[], before: number): undefined {
  const charged: Charged[] = [];
  while (charges.length > before) {
    const charge = charges.pop() as Charge;
    const check = checks.find(({ chargedAt }) => chargedAt === charge.chargedAt);
    if (charge.spent !== undefined || check === undefined) {
      refundLater(charge);
    } else {
      // Whoever decides now fills the check's receipt anew.
      check.charged = { charge: { ...charge, chargedAt: [...charge.chargedAt] }, wentOn: false };
      charged.push(check.charged);
    }
  }
  if (charged.length === 0) return undefined;
  const failure = runSoon(() => {
    sleepMs(decidedAfterMs);
    for (const { charge, wentOn } of charged) if (!wentOn) refundLater(charge);
  });
  if (failure !== undefined) warnSparingly(stayCharged, failure);
  return undefined;
}

function chargeExactly(
  redis: RedisSettings,
  checks: readonly Check[],
  merged: MergedDecision,
  charges: Charge[],
): boolean | undefined {
  let from = 0;
  while (from < checks.length) {
    const end = endOfCall(checks, from);
    const together = end - from === checks.length ? checks : checks.slice(from, end);
    const allowed = chargeByOneCall(redis, together, merged, charges);
    if (allowed !== true) return allowed;
    from = end;
  }
  return true;
}

function chargeByOneCall(
  redis: RedisSettings,
  checks: readonly Check[],
  merged: MergedDecision,
  charges: Charge[],
): boolean | undefined {
  const [allowed, failure] = admitInRedis(redis, checks, merged);
  if (allowed === undefined) warnSparingly("Redis did not decide", failure);
  if (allowed !== true) return allowed;
  if (checks.length === 1) {
    charges.push(chargeOf(checks[0] as Check, redis));
    return true;
  }
  for (const check of checks) charges.push(chargeOf(check, redis));
  return true;
}

function chargeOf({ policy, keyValues, chargedAt }: Check, redis: RedisSettings): Charge {
  return { policy, limits: policy.limits, keyValues, chargedAt, redis };
}

/** Where those end that one call can take. */
function endOfCall(checks: readonly Check[], from: number): number {
  let end = from;
  let counters = 0;
  while (end < checks.length) {
    counters += (checks[end] as Check).policy.limits.length;
    if (counters > mostCountersAtOnce) break;
    end += 1;
  }
  return end;
}

/**
 * What becomes of a check that Redis did not decide. What is left of a lease is spent first; then onStoreFailure decides, with
 * `local` by this node's share of the limits, which the verdict hears. The share begins where Redis left off, as far as this
 * node knows: a key of which it knows nothing has its whole share.
 *
 * @returns whether the request may go on
 */
export function chargeWithoutRedis(
  redis: RedisSettings | undefined,
  check: Check,
  merged: MergedDecision,
  charges: Charge[],
): boolean {
  const { policy } = check;
  const { onStoreFailure } = policy.policy;
  if (policy.leased && redis !== undefined && chargeUnspent(redis, check, merged, charges)) return true;
  if (onStoreFailure === "deny") return false;
  let limits: readonly CompiledLimit[] = [];
  if (onStoreFailure === "local") {
    limits = nodeShare(policy);
    const known = redis === undefined ? undefined : lastKnown(redis, check);
    if (known !== undefined) beginShareOnNode(policy, limits, check.keyValues, known);
    if (!admitOnNode(policy, limits, check.keyValues, merged, check.chargedAt)) return false;
  }
  const { keyValues, chargedAt, charged } = check;
  // Who goes on without Redis holds no slots there.
  if (charged !== undefined && !policy.holdsSlots) {
    charged.wentOn = true;
    charges.push({ policy, limits, keyValues, chargedAt, redis: undefined }, charged.charge);
    return true;
  }
  const owed = redis === undefined ? undefined : oweFor(redis, check);
  charges.push({ policy, limits, keyValues, chargedAt, redis: undefined, owed });
  return true;
}

/** What Redis is to be told of a request that goes on without it, unless Redis has charged it meanwhile. */
function oweFor(redis: RedisSettings, { policy, keyValues, unanswered }: Check): Owed {
  const owed: Owed = { redis, policy, keyValues, wentOn: true, noted: false };
  // What the response takes, it owes then.
  if (policy.deferred) return owed;
  if (unanswered === undefined || unanswered.lost === false) noteOwed(owed);
  else if (unanswered.abandoned && unanswered.lost === undefined) oweWhenReplied(unanswered, owed);
  return owed;
}

/** Redis has not replied yet, or just has. */
function oweWhenReplied(unanswered: Unanswered, owed: Owed): void {
  // What Redis had charged has been refunded by now.
  if (unanswered.reconciled) noteOwed(owed);
  else if (unanswered.owed === undefined) unanswered.owed = [owed];
  else unanswered.owed.push(owed);
}

function lastKnown(redis: RedisSettings, check: Check): LastKnown | undefined {
  return check.policy.leased ? lastKnownOfLease(redis, check) : lastRefusal(check.policy, firstKey(check));
}

/** Gives back all of these: what is in Redis, by one call or few. Yields. */
export function refundAll(charges: readonly Charge[]): void {
  let redis: RedisSettings | undefined;
  const inRedis: Charge[] = [];
  for (const charge of charges) {
    // Of its response nothing is charged yet.
    if (charge.policy.deferred) continue;
    if (charge.owed !== undefined) retractOwed(charge.owed);
    if (charge.spent !== undefined) {
      refundLeased(charge.redis as RedisSettings, charge, charge.spent);
    } else if (charge.redis === undefined) {
      refundOnNode(charge.policy, charge.limits, charge.keyValues, charge.chargedAt);
    } else {
      redis = charge.redis;
      inRedis.push(charge);
    }
  }
  if (redis === undefined) return;
  let from = 0;
  while (from < inRedis.length) {
    const end = endOfCall(inRedis, from);
    const failure = refundInRedis(redis, inRedis.slice(from, end));
    if (failure !== undefined) warnSparingly(stayCharged, failure);
    from = end;
  }
}

const stayCharged = "units stay charged, and slots until their time to live is over";
let late: Charge[] = [];

/** The same in the log phase, where nothing may yield: what needs a lock or Redis is given back by one timer for all. */
export function refundLater(charge: Charge): void {
  // Of its response nothing is charged yet.
  if (charge.policy.deferred) return;
  if (charge.spent !== undefined || (charge.redis === undefined && !mustAgree())) {
    refundAll([charge]);
    return;
  }
  late.push(charge);
  if (late.length > 1) return;
  const failure = runSoon(() => {
    const charges = late;
    late = [];
    for (const each of charges) if (each.redis === undefined) orWarn(refundAll, [each]);
    for (const together of roundTrips(charges)) orWarn(refundTogether, together);
  });
  if (failure === undefined) return;
  late = [];
  warnSparingly(stayCharged, failure);
}

/** What goes wrong with some is not the others'. */
function orWarn(how: (this: void, charges: readonly Charge[]) => void, charges: readonly Charge[]): void {
  const [done, defect] = pcall(how, charges);
  if (!done) warnSparingly(stayCharged, `${defect}`);
}

/** @param charges in Redis, at one server, one or more */
function refundTogether(charges: readonly Charge[]): void {
  const calls = charges.map((charge) => refundCall([charge]));
  const [called, defect] = pcall(callScripts, (charges[0] as Charge).redis as RedisSettings, calls);
  if (!called && calls.length === 1) error(defect, 0);
  for (let i = 0; i < calls.length; i++) {
    const { reply, failure, mayHaveRun } = calls[i] as Call;
    if (failure !== undefined && mayHaveRun === false) postpone(charges[i] as Charge, failure);
    else if (failure !== undefined) warnSparingly(stayCharged, failure);
    else if (reply === undefined) orWarn(refundTogether, [charges[i] as Charge]);
    else if (type(reply) !== "number") warnSparingly(stayCharged, oddReply);
  }
}

/** What Redis could not be told, because it is away. */
interface Postponed {
  readonly charge: Charge;
  readonly untilSeconds: number;
}

const mostPostponed = 1000;
/** After that, what counted then counts no longer in most limits, and slots have come back by themselves. */
const postponedForSeconds = 60;
const tryAgainEveryMs = 100;
let postponed: Postponed[] = [];
let trying = false;

function postpone(charge: Charge, failure: string): void {
  if (postponed.length >= mostPostponed || ngx.worker.exiting()) {
    warnSparingly(stayCharged, failure);
    return;
  }
  postponed.push({ charge, untilSeconds: stopwatchSeconds() + postponedForSeconds });
  if (trying) return;
  const notBegun = runUntilDone(refundPostponed);
  if (notBegun === undefined) trying = true;
  else warnSparingly(stayCharged, notBegun);
}

/** @returns whether to try once more */
function refundPostponed(): boolean {
  sleepMs(tryAgainEveryMs);
  const before = postponed;
  const now = stopwatchSeconds();
  const ready: Charge[] = [];
  postponed = [];
  for (const each of before) {
    const { charge, untilSeconds } = each;
    const redis = charge.redis as RedisSettings;
    if (isReachable(redis, groupOf(redis, firstKey(charge)))) ready.push(charge);
    else if (now < untilSeconds) postponed.push(each);
    else warnSparingly(stayCharged, "Redis has been away for too long");
  }
  for (const together of roundTrips(ready)) orWarn(refundTogether, together);
  trying = postponed.length > 0 && !ngx.worker.exiting();
  return trying;
}

/** What was charged for a request that is not decided and waits. */
const undecidedField = newRequestField<readonly Charge[]>((charges) => {
  for (const charge of charges) refundLater(charge);
});

/** Before the current request waits for more: should its client go away meanwhile, these are refunded. */
export function keepInMind(charges: readonly Charge[]): void {
  keepForRequest(undecidedField, charges);
}

/** The current request is decided. */
export function forgetUndecided(): void {
  takeFromRequest(undecidedField);
}

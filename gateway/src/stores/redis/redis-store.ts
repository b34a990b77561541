// Counts in Redis for the whole fleet: all cluster policies of a request are charged by one script call, all or none.
//
// Redis Cluster runs no script over several slots. There, a call for each slot charges one after the other, and what was
// charged is given back when a later one refuses: for about the time of the calls, others may be refused for it.

import { type Decision, emptyDecision, never } from "../../../../limiter/src/algorithms/decision.ts";
import type { Algorithm } from "../../../../limiter/src/algorithms/limit.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import {
  type MergedDecision,
  mergeLimit,
  mergeTarget,
  newMergedDecision,
} from "../../../../limiter/src/compiled/merged-decision.ts";
import { longestWaitMs, newPatience } from "../../redis/patience.ts";
import { type Call, callScript, groupOf, isReachable } from "../../redis/script-call.ts";
import { callForNumber } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Charge, Check, Owed } from "../check.ts";
import {
  beginDirect,
  endDirect,
  forgetPending,
  hasReply,
  joinCall,
  joinSharedCall,
  keepPending,
  type Numbers,
  newPendingCheck,
  numbersPerCounter,
  type PendingCheck,
  queueOf,
  reconcileSoon,
  takeReply,
} from "./batcher.ts";
import { noteOwed } from "./debts.ts";
import { recallRefusal, rememberRefusal } from "./refusal-cache.ts";
import { keyOf, pushNumbers, whole } from "./script-arguments.ts";
import { firstKey, type Group, groupsOf } from "./slot-groups.ts";

/** Each is a key of Redis and at most six arguments: with more, Lua could not pass them all in one call. */
export const mostCountersAtOnce = 1000;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
/** Work space: nothing yields between writing and hearing it. */
const oneDecision = emptyDecision();
const { charge, refund } = scripts as Record<"charge" | "refund", Script>;
export const deferredScript = scripts["charge_deferred"] as Script;
const tooMany = "too many requests wait for Redis";
/** For counters of one limit. */
const chargeBatch = byAlgorithm("charge_");

function byAlgorithm(prefix: string): Readonly<Record<Algorithm, Script>> {
  return {
    "token-bucket": scripts[`${prefix}token_bucket`] as Script,
    "fixed-window": scripts[`${prefix}fixed_window`] as Script,
    "sliding-window": scripts[`${prefix}sliding_window`] as Script,
    "sliding-log": scripts[`${prefix}sliding_log`] as Script,
    "leaky-bucket": scripts[`${prefix}leaky_bucket`] as Script,
    concurrency: scripts[`${prefix}concurrency`] as Script,
  };
}

/**
 * Decides these checks in Redis: all are charged or none. Yields.
 *
 * @param checks have at most `mostCountersAtOnce` limits together
 * @param verdict hears every limit when Redis decided, of checks that have none of their own
 * @returns whether the request is allowed; or undefined and what failed, when Redis did not decide
 */
export function decideInRedis(
  settings: RedisSettings,
  checks: readonly Check[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const first = checks[0] as Check;
  const key = firstKey(first);
  if (checks.length > 1) return decideSeveral(settings, checks, key, merged);
  if (recall(first, key, first.merged ?? merged)) return $multi(false, undefined);
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  if (first.policy.limits.length === 1) return $multi(readOne(pending, first, merged), undefined);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/** Of requests that have their reply: used again, because tables are half of what a decision costs beyond the wire. */
const idlePending: SinglePendingCheck[] = [];
/** Work space: of the request that was decided last by itself. */
let lastChargedAt = 0;
/** More are under way at once only where Redis is late. */
const mostIdlePending = 1024;

interface SinglePendingCheck extends PendingCheck {
  readonly checks: [LoneCheck];
}

interface LoneCheck extends Check {
  policy: CompiledPolicy;
  keyValues: string;
  allowed: boolean;
}

/** The same for one policy of one limit, which holds no slots: the commonest by far. */
export function decideOneInRedis(
  settings: RedisSettings,
  policy: CompiledPolicy,
  keyValues: string,
  merged: MergedDecision,
): LuaMultiReturn<[allowed: boolean | undefined, failure: string | undefined, unanswered: PendingCheck | undefined]> {
  const key = keyOf(policy, policy.limits[0] as CompiledLimit, keyValues);
  if (recallRefusal(policy, key, merged)) return $multi(false, undefined, undefined);
  const pending = idlePending.pop() ?? newSinglePending(policy, keyValues);
  const check = pending.checks[0];
  check.policy = policy;
  check.keyValues = keyValues;
  pending.submittedAtSeconds = wallSeconds();
  pending.numbers = undefined;
  pending.at = 0;
  pending.failure = undefined;
  submitOne(settings, pending, policy, key);
  // A question that was given up stays with whoever reconciles it.
  if (!hasReply(pending)) return $multi(undefined, pending.failure, pending);
  const allowed = readOne(pending, check, merged);
  lastChargedAt = check.chargedAt[0] as number;
  // They are those of a whole batch.
  pending.numbers = undefined;
  if (idlePending.length < mostIdlePending) idlePending.push(pending);
  return $multi(allowed, undefined, undefined);
}

/** What a refund asks for of the charge that `decideOneInRedis` has just told of: to be read before anything yields. */
export function chargedAtByLast(): number[] {
  return [lastChargedAt];
}

function newSinglePending(policy: CompiledPolicy, keyValues: string): SinglePendingCheck {
  const check: LoneCheck = { policy, keyValues, chargedAt: [0], allowed: false };
  return newPendingCheck<[LoneCheck]>([check], 0);
}

function decideSeveral(
  settings: RedisSettings,
  checks: readonly Check[],
  key: string,
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  if (recallAny(checks, merged)) return $multi(false, undefined);
  if (settings.deployment.kind === "cluster") return decideGroups(settings, groupsOf(settings, checks), merged);
  const pending = submit(settings, checks, key);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  return $multi(readReply(pending, checks, merged, false), undefined);
}

/** Whether a check is refused without asking. */
function recall(check: Check, key: string, merged: MergedDecision): boolean {
  if (!recallRefusal(check.policy, key, merged)) return false;
  check.allowed = false;
  return true;
}

/** Not where each check's caller is told of each. */
function recallAny(checks: readonly Check[], merged: MergedDecision): boolean {
  for (const check of checks) {
    if (check.merged === undefined && recall(check, firstKey(check), merged)) return true;
  }
  return false;
}

/** Asks about checks of one group. @param key of the first counter @returns with numbers, or with what failed */
function submit(settings: RedisSettings, checks: readonly Check[], key: string): PendingCheck {
  const pending: PendingCheck = newPendingCheck(checks, wallSeconds());
  const { policy } = checks[0] as Check;
  if (checks.length === 1 && policy.limits.length === 1) submitOne(settings, pending, policy, key);
  else submitAll(settings, pending, key);
  const unanswered = hasReply(pending) ? undefined : pending;
  for (const check of checks) check.unanswered = unanswered;
  return pending;
}

/** The longest that a request waits for Redis, in ms. */
export function waitLimitMs({ deadlineMs }: RedisSettings, { maxStoreWaitUs }: CompiledPolicy["policy"]): number {
  const longestMs = longestWaitMs(deadlineMs);
  return maxStoreWaitUs === undefined ? longestMs : math.min(longestMs, maxStoreWaitUs / 1000);
}

/** By the script of its limit's algorithm. */
function submitOne(settings: RedisSettings, pending: PendingCheck, policy: CompiledPolicy, key: string): void {
  const limit = policy.limits[0] as CompiledLimit;
  const queue = queueOf(settings, groupOf(settings, key), reconcile);
  const kept = policy.holdsSlots;
  // A reply that is waited for no longer is read by the lane's thread.
  const inQueue = kept || policy.policy.maxStoreWaitUs !== undefined;
  const limitMs = waitLimitMs(settings, policy.policy);
  if (beginDirect(queue, inQueue)) {
    callDirectly(settings, callForOne(policy, limit, key), pending, limitMs);
    endDirect(queue);
    return;
  }
  if (kept) keepPending(queue, pending);
  const { cost } = policy.policy;
  if (!joinSharedCall(queue, limit, cost, chargeBatch[limit.rate.algorithm], key, pending, limitMs))
    refuseTooMany(pending);
  if (kept) forgetPending();
}

function refuseTooMany(pending: PendingCheck): void {
  pending.failure = tooMany;
  pending.lost = false;
}

/** By the script for any counters. */
function submitAll(settings: RedisSettings, pending: PendingCheck, key: string): void {
  const { checks } = pending;
  const queue = queueOf(settings, groupOf(settings, key), reconcile);
  const kept = holdSlots(checks);
  const limitMs = shortestWaitMs(settings, checks);
  const inQueue = kept || limitMs < longestWaitMs(settings.deadlineMs);
  if (beginDirect(queue, inQueue)) {
    callDirectly(settings, callForAll(checks), pending, limitMs);
    endDirect(queue);
    return;
  }
  if (kept) keepPending(queue, pending);
  if (!joinCall(queue, callForAll(checks), pending, limitMs)) refuseTooMany(pending);
  if (kept) forgetPending();
}

function shortestWaitMs(settings: RedisSettings, checks: readonly Check[]): number {
  let shortest = longestWaitMs(settings.deadlineMs);
  for (const { policy } of checks) shortest = math.min(shortest, waitLimitMs(settings, policy.policy));
  return shortest;
}

function callDirectly(
  settings: RedisSettings,
  { script, keyCount, keysAndArgs }: Call,
  pending: PendingCheck,
  limitMs: number,
): void {
  const patience = newPatience(settings.deadlineMs, limitMs);
  const [reply, failure, mayHaveRun] = callScript(settings, script, keyCount, keysAndArgs, patience);
  pending.failure = failure;
  if (reply !== undefined) takeReply(pending, reply, keyCount);
  if (pending.numbers === undefined) pending.lost = reply !== undefined || mayHaveRun;
}

function holdSlots(checks: readonly Check[]): boolean {
  for (const { policy } of checks) {
    if (policy.holdsSlots) return true;
  }
  return false;
}

/** One limit, as most requests have. */
function callForOne({ policy }: CompiledPolicy, limit: CompiledLimit, key: string): Call {
  const keysAndArgs = [key];
  pushNumbers(keysAndArgs, limit, policy.cost);
  return { script: chargeBatch[limit.rate.algorithm], keyCount: 1, keysAndArgs, reply: undefined, failure: undefined };
}

function callForAll(checks: readonly Check[]): Call {
  const keysAndArgs: string[] = [];
  for (const { policy, keyValues } of checks) {
    for (const limit of policy.limits) keysAndArgs.push(keyOf(policy, limit, keyValues));
  }
  const keyCount = keysAndArgs.length;
  for (const { policy } of checks) {
    for (const limit of policy.limits) {
      keysAndArgs.push(limit.rate.algorithm);
      pushNumbers(keysAndArgs, limit, policy.policy.cost);
    }
  }
  return { script: charge, keyCount, keysAndArgs, reply: undefined, failure: undefined };
}

/** A request that was released has been decided after that, in nearly all cases. */
const decidedAfterMs = 50;
/** A server that has replied late is soon asked again, or away for good. */
const mostTries = 40;

/**
 * Deals with what Redis was asked for requests that did not wait for the reply. What went on stays charged, and is charged where
 * Redis has not done so; the rest is refunded. The last first: each counter is then found as its charge left it.
 */
function reconcile(settings: RedisSettings, pendingChecks: readonly PendingCheck[]): void {
  sleepMs(decidedAfterMs);
  const refunds: Refund[] = [];
  for (let i = pendingChecks.length - 1; i >= 0; i--) {
    const pending = pendingChecks[i] as PendingCheck;
    pending.reconciled = true;
    const { checks, numbers, at, owed = [], lost } = pending;
    if (numbers === undefined || !allAllow(numbers, at, checks)) {
      if (numbers !== undefined || lost === false) for (const each of owed) noteOwed(each);
      continue;
    }
    for (const one of refundsOf(checks, numbers, at)) {
      const back = wentOn(owed, one) ? slotsOf(one) : one;
      if (back.limits.length > 0) refunds.push(back);
    }
  }
  if (refunds.length === 0) return;
  const group = groupOf(settings, firstKey(refunds[0] as Refund));
  for (let tries = 0; tries < mostTries && !isReachable(settings, group); tries++) sleepMs(decidedAfterMs);
  const failure = refundGroup(settings, refunds);
  if (failure !== undefined) warnSparingly("units of requests that did not wait stay charged", failure);
}

/** Who goes on without Redis holds no slots there: nobody would renew them, or give them back. */
function slotsOf({ policy, limits, keyValues, chargedAt }: Refund): Refund {
  const slots: CompiledLimit[] = [];
  const takenAtUs: number[] = [];
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    if (limit.rate.algorithm !== "concurrency") continue;
    slots.push(limit);
    takenAtUs.push(chargedAt[i] as number);
  }
  return { policy, limits: slots, keyValues, chargedAt: takenAtUs };
}

function wentOn(owed: readonly Owed[], { policy, keyValues }: Refund): boolean {
  for (const each of owed) {
    if (each.wentOn && each.policy === policy && each.keyValues === keyValues) return true;
  }
  return false;
}

/** Nothing is heard before all have replied: where Redis fails half-way, the verdict is as it was. */
function decideGroups(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  merged: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const pendingChecks: PendingCheck[] = [];
  let allowed = true;
  for (const group of groups) {
    const checks = group.members;
    // After a refusal only those are asked whose caller is told of each check.
    if (!allowed && (checks[0] as Check).merged === undefined) break;
    const pending = submit(settings, checks, firstKey(checks[0] as Check));
    if (!hasReply(pending)) {
      for (let i = pendingChecks.length - 1; i >= 0; i--) {
        forgetPending();
        const { id, members } = groups[i] as Group<Check>;
        const replied = pendingChecks[i] as PendingCheck;
        for (const check of members) check.unanswered = replied;
        reconcileSoon(queueOf(settings, id, reconcile), [replied]);
      }
      return $multi(undefined, pending.failure);
    }
    pendingChecks.push(pending);
    keepPending(queueOf(settings, group.id, reconcile), pending);
    if (!allAllow(pending.numbers as Numbers, pending.at, checks)) allowed = false;
  }
  if (!allowed) refundGroups(settings, groups, pendingChecks);
  for (let i = 0; i < pendingChecks.length; i++) {
    if (allowed) forgetPending();
    readReply(pendingChecks[i] as PendingCheck, (groups[i] as Group<Check>).members, merged, !allowed);
  }
  return $multi(allowed, undefined);
}

/** The last first: each counter is then found as its charge left it. Those that are kept are so until their turn. */
function refundGroups(
  settings: RedisSettings,
  groups: readonly Group<Check>[],
  pendingChecks: readonly PendingCheck[],
): void {
  for (let i = pendingChecks.length - 1; i >= 0; i--) {
    forgetPending();
    const { numbers, at } = pendingChecks[i] as PendingCheck;
    const checks = (groups[i] as Group<Check>).members;
    if (!allAllow(numbers as Numbers, at, checks)) continue;
    const failure = refundGroup(settings, refundsOf(checks, numbers as Numbers, at));
    if (failure !== undefined) warnSparingly("units of a refused request stay charged", failure);
  }
}

/** What gives these back, by the moments that a reply told. */
function refundsOf(checks: readonly Check[], numbers: Numbers, from: number): Refund[] {
  let at = from + numbersPerCounter - 1;
  const refunds: Refund[] = [];
  for (const { policy, keyValues } of checks) {
    const { limits } = policy;
    const chargedAt: number[] = [];
    for (let i = 0; i < limits.length; i++) {
      chargedAt.push(numbers.get(at));
      at += numbersPerCounter;
    }
    refunds.push({ policy, limits, keyValues, chargedAt });
  }
  return refunds;
}

function allAllow(numbers: Numbers, from: number, checks: readonly Check[]): boolean {
  let at = from;
  for (const { policy } of checks) {
    for (let i = 0; i < policy.limits.length; i++) {
      if (numbers.get(at) !== 1) return false;
      at += numbersPerCounter;
    }
  }
  return true;
}

/**
 * Gives back what these charges took, in one call, or one a slot with Redis Cluster.
 *
 * @param charges of at most `mostCountersAtOnce` limits
 * @returns what failed last
 */
export function refundInRedis(settings: RedisSettings, charges: readonly Charge[]): string | undefined {
  let failure: string | undefined;
  for (const group of groupsOf(settings, charges)) failure = refundGroup(settings, group.members) ?? failure;
  return failure;
}

type Refund = Pick<Charge, "policy" | "limits" | "keyValues" | "chargedAt">;

function refundGroup(settings: RedisSettings, refunds: readonly Refund[]): string | undefined {
  const { script, keyCount, keysAndArgs } = refundCall(refunds);
  return callForNumber(settings, script, keyCount, keysAndArgs)[1];
}

/** @param refunds of one group. The script replies a number */
export function refundCall(refunds: readonly Refund[]): Call {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, limits, keyValues, chargedAt } of refunds) {
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as CompiledLimit;
      keys.push(keyOf(policy, limit, keyValues));
      args.push(limit.rate.algorithm);
      pushNumbers(args, limit, policy.policy.cost);
      args.push(whole(chargedAt[i] as number));
    }
  }
  return {
    script: refund,
    keyCount: keys.length,
    keysAndArgs: [...keys, ...args],
    reply: undefined,
    failure: undefined,
  };
}

/** The same for one limit: loops that turn once cost LuaJIT a trace each. */
function readOne(pending: PendingCheck, check: Check, mergedOfAll: MergedDecision): boolean {
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

function rememberOne(
  check: Check,
  { name, rate }: CompiledLimit,
  decision: Decision,
  submittedAtSeconds: number,
): void {
  if (rate.algorithm === "concurrency") return;
  const remembered = newMergedDecision();
  mergeLimit(remembered, check.policy, name, decision);
  rememberRefusal(check.policy, firstKey(check), remembered, decision.retryAfterUs, submittedAtSeconds);
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

/** Where a reply is read. */
export type ReplyPlace = Pick<PendingCheck, "numbers" | "at" | "submittedAtSeconds">;

/** @param givenBack what it charged was given back: what is told to be left has it again */
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
    /** Undefined: nobody knows. */
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
        if (limit.rate.algorithm === "concurrency") retryAfterUs = undefined;
        else if (retryAfterUs !== undefined) retryAfterUs = longerWait(retryAfterUs, decision.retryAfterUs);
      }
      // In its place, not behind what was there: a request that waits for its units asks more than once.
      chargedAt[i] = numbers.get(at + 5);
      at += numbersPerCounter;
    }
    // Of leased policies, leases remember what there is to be had.
    if (!check.allowed && retryAfterUs !== undefined && !policy.leased) {
      rememberRefusal(policy, firstKey(check), remembered, retryAfterUs, pending.submittedAtSeconds);
    }
  }
  return all;
}

function longerWait(a: number, b: number): number {
  return a === never || b === never ? never : math.max(a, b);
}

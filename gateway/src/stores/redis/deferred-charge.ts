// Charges of units that were used already, in Redis: see limiter/src/algorithms/deferred-charge.ts. A debt is stored beside its counter, in
// the same hash slot.

import { type Decision, emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit, mergeReported } from "../../../../limiter/src/compiled/merged-decision.ts";
import { addPending, type Event } from "../../metrics/counts.ts";
import { configuredRedis, theRedis } from "../../redis/redis-settings.ts";
import { type Call, callScripts } from "../../redis/script-call.ts";
import { areNumbers, oddReply } from "../../redis/script-reply.ts";
import { reportMissingRedis } from "../../runtime/missing-parts.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check, DeferredCharge } from "../store.ts";
import { deferredScript, numbersPerDeferred, pushDeferredKeys, scriptOf } from "./deferred-scripts.ts";
import { isDecidedHere } from "./overload.ts";
import { hasReply } from "./pending-check.ts";
import { pushNumbers } from "./script-arguments.ts";
import { type Group, groupsOf } from "./slot-groups.ts";
import { roundTrips } from "./slot-renewals.ts";
import { callInBatch, callSurely, waitLimitMs } from "./submit.ts";

/**
 * Redis does nothing else while it executes these. Each has two keys and five arguments; with many more counters, Lua could not pass all
 * of them in one call.
 */
const mostCountersTogether = 200;

/**
 * Returns whether a request may pass whose charge is deferred. Charges nothing.
 *
 * @param mergedOfAll receives every limit if Redis decided, unless the check has a merged decision of its own
 * @returns undefined and the error message if Redis did not decide
 */
export function admitDeferredInRedis(
  settings: RedisSettings,
  check: Check,
  mergedOfAll: MergedDecision,
): LuaMultiReturn<[boolean | undefined, string | undefined]> {
  const { policy, keyValues, merged } = check;
  const keys: string[] = [];
  const args: string[] = [];
  push(keys, args, policy, keyValues, 0);
  const count = policy.limits.length * numbersPerDeferred;
  const limitMs = waitLimitMs(settings, policy, check.asksRedis === true);
  const [reply, failure] = callInBatch(settings, deferredScript, keys, args, count, limitMs);
  if (reply === undefined) return $multi(undefined, failure);
  const decision = emptyDecision();
  let allowed = true;
  for (let i = 0; i < policy.limits.length; i++) {
    const { name } = policy.limits[i] as CompiledLimit;
    readDecision(policy, reply, i, decision);
    if (!decision.allowed) allowed = false;
    mergeLimit(merged ?? mergedOfAll, policy, name, decision);
  }
  return $multi(allowed, undefined);
}

function readDecision({ limits }: CompiledPolicy, reply: readonly number[], place: number, decision: Decision): void {
  const at = place * numbersPerDeferred;
  decision.allowed = reply[at] === 1;
  decision.limit = capacity((limits[place] as CompiledLimit).rate);
  decision.remaining = reply[at + 1] as number;
  decision.retryAfterUs = reply[at + 2] as number;
  decision.resetAfterUs = reply[at + 3] as number;
}

/**
 * Charges units that were used, whether the limits have them or not, in a batch with the checks of other requests. Yields.
 *
 * @param check gets what Redis was sent, if it did not reply
 * @param merged receives every limit if Redis replied
 * @returns as `Store.report`
 */
export function reportInRedis(this: void, check: Check, units: number, merged: MergedDecision): number | undefined {
  const redis = configuredRedis();
  if (redis === undefined) {
    reportMissingRedis();
    return undefined;
  }
  if (redis.overload !== undefined && isDecidedHere(redis.overload, [check])) {
    check.overloaded = true;
    return undefined;
  }
  const { policy, keyValues } = check;
  const { limits } = policy;
  const keys: string[] = [];
  const args: string[] = [];
  push(keys, args, policy, keyValues, units);
  const limitMs = waitLimitMs(redis, policy, check.asksRedis === true);
  const pending = callSurely(redis, scriptOf(policy), keys, args, limits.length * numbersPerDeferred, limitMs);
  if (!hasReply(pending)) {
    check.unanswered = pending;
    warnSparingly("Redis did not say that a report is charged", pending.failure);
    return undefined;
  }
  return readReport(policy, pending.numbers as unknown as readonly number[], merged);
}

function readReport(policy: CompiledPolicy, reply: readonly number[], merged: MergedDecision): number {
  const decision = emptyDecision();
  let most = 0;
  for (let i = 0; i < policy.limits.length; i++) {
    readDecision(policy, reply, i, decision);
    mergeReported(merged, policy, (policy.limits[i] as CompiledLimit).name, decision);
    most = math.max(most, reply[i * numbersPerDeferred + numbersPerDeferred - 1] as number);
  }
  return most;
}

/**
 * Charges responses, by round trips of a bounded size, and with Redis Cluster by a call for each slot. A call that failed may have been
 * executed, so its charges are not repeated.
 *
 * @param notCharged is called, after its call, for each charge that was certainly not made
 */
export function chargeDeferredInRedis(
  this: void,
  charges: readonly DeferredCharge[],
  notCharged: (this: void, charge: DeferredCharge) => void,
): void {
  for (const together of roundTrips(charges, mostCountersTogether)) chargeTogether(together, notCharged);
}

function chargeTogether(
  charges: readonly DeferredCharge[],
  notCharged: (this: void, charge: DeferredCharge) => void,
): void {
  const redis = theRedis();
  const groups = groupsOf(redis, charges);
  const calls = groups.map(({ members }) => chargeCall(members));
  callScripts(redis, calls);
  for (let i = 0; i < calls.length; i++) {
    const { keyCount, reply, failure, mayHaveRun } = calls[i] as Call;
    if (areNumbers(reply, (keyCount / 2) * numbersPerDeferred)) continue;
    warnSparingly("responses were not charged at once", failure ?? oddReply);
    for (const charge of (groups[i] as Group<DeferredCharge>).members) {
      if (failure === undefined || mayHaveRun) countUncharged(charge.responses);
      else notCharged(charge);
    }
  }
}

/** @param charges of one group */
function chargeCall(charges: readonly DeferredCharge[]): Call {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, keyValues, units } of charges) push(keys, args, policy, keyValues, units);
  const keysAndArgs = keys.concat(args);
  return { script: deferredScript, keyCount: keys.length, keysAndArgs, reply: undefined, failure: undefined };
}

/** Counts responses that stay uncharged. */
export function countUncharged(responses: number): void {
  addPending("unsettled-responses" satisfies Event, responses);
}

function push(keys: string[], args: string[], policy: CompiledPolicy, keyValues: string, units: number): void {
  for (const limit of policy.limits) {
    pushDeferredKeys(keys, policy, limit, keyValues);
    args.push(limit.rate.algorithm);
    pushNumbers(args, limit, units);
  }
}

// Submits checks to Redis, and returns when there is a reply or the request has waited for long enough.

import type { Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { longestWaitMs, patienceSeconds } from "../../redis/patience.ts";
import { type Call, groupOf } from "../../redis/script-call.ts";
import type { Script } from "../../redis/script-request.ts";
import { stopwatchSeconds, wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check } from "../store.ts";
import { type BatchQueue, queueOf, submitTo } from "./batcher.ts";
import { mustAskRedis, noteWait, probeLimitMs } from "./overload.ts";
import { hasReply, newPendingCheck, type PendingCheck, type PendingCounter } from "./pending-check.ts";
import { reconcile } from "./reconcile.ts";
import { noteAsked, noteUnanswered } from "./refusal-cache.ts";
import { pushNumbers } from "./script-arguments.ts";
import { firstKey } from "./slot-groups.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const { charge } = scripts as Record<"charge", Script>;
/** Scripts for counters of one limit. */
const chargeScripts = byAlgorithm("charge_");

function byAlgorithm(prefix: string): Readonly<Record<Rate["algorithm"], Script>> {
  return {
    "token-bucket": scripts[`${prefix}token_bucket`] as Script,
    "fixed-window": scripts[`${prefix}fixed_window`] as Script,
    "calendar-window": scripts[`${prefix}calendar_window`] as Script,
    "sliding-window": scripts[`${prefix}sliding_window`] as Script,
    "sliding-log": scripts[`${prefix}sliding_log`] as Script,
    "leaky-bucket": scripts[`${prefix}leaky_bucket`] as Script,
    concurrency: scripts[`${prefix}concurrency`] as Script,
    "shaped-bucket": scripts[`${prefix}shaped_bucket`] as Script,
  };
}

/** Submits checks of one group. @param key of the first counter @returns with numbers, or with what failed */
export function submit(settings: RedisSettings, checks: readonly Check[], key: string): PendingCheck {
  const { policy } = checks[0] as Check;
  const isOne = checks.length === 1 && policy.limits.length === 1;
  const pending: PendingCheck = isOne
    ? newPendingCheck(checks, counterOf(policy, key), undefined)
    : newPendingCheck(checks, undefined, callForAll(checks));
  // Slots live long; and callers of the check API, whose checks have a decision of their own, leave whenever they like.
  for (const check of checks) {
    if (check.policy.policy.holdsSlots || check.merged !== undefined || check.isOneOfMany) pending.mustKeep = true;
  }
  for (const check of checks) noteAsked(check.policy, firstKey(check));
  submitPending(settings, pending, key, shortestWaitMs(settings, checks));
  const unanswered = hasReply(pending) ? undefined : pending;
  for (const check of checks) {
    check.unanswered = unanswered;
    if (unanswered !== undefined) noteUnanswered(firstKey(check));
  }
  return pending;
}

/** @param key of the first counter @param limitMs the longest that the request waits */
export function submitPending(settings: RedisSettings, pending: PendingCheck, key: string, limitMs: number): void {
  pending.limitMs = limitMs;
  if (pending.mustKeep || limitMs < longestWaitMs(settings.deadlineMs)) pending.inQueue = true;
  submitMeasured(settings, queueOf(settings, groupOf(settings, key), reconcile), pending);
}

/**
 * Calls a script in a batch with the checks of other requests. Calls of their own would take all connections of a worker. Yields.
 *
 * @param count how many numbers the script replies: one number, or a list
 * @param limitMs the longest to wait
 * @returns the numbers; or undefined and the error message
 */
export function callInBatch(
  settings: RedisSettings,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  count: number,
  limitMs: number = longestWaitMs(settings.deadlineMs),
): LuaMultiReturn<[readonly number[] | undefined, string | undefined]> {
  const pending = pendingCall(script, keys, args, count);
  submitPending(settings, pending, keys[0] as string, limitMs);
  if (!hasReply(pending)) return $multi(undefined, pending.failure);
  return $multi(pending.numbers as unknown as readonly number[], undefined);
}

/**
 * Does the same for a call that is made even if the request's client goes away meanwhile.
 *
 * @returns with the numbers, or with what failed
 */
export function callSurely(
  settings: RedisSettings,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  count: number,
  limitMs: number,
): PendingCheck {
  const pending = pendingCall(script, keys, args, count);
  pending.inQueue = true;
  submitPending(settings, pending, keys[0] as string, limitMs);
  return pending;
}

function pendingCall(script: Script, keys: readonly string[], args: readonly string[], count: number): PendingCheck {
  const keysAndArgs = keys.concat(args);
  const call = { script, keyCount: keys.length, keysAndArgs, numbers: count, reply: undefined, failure: undefined };
  return newPendingCheck([], undefined, call);
}

/**
 * Submits the check of one counter that holds no slots.
 *
 * @param pending used before: everything about the earlier check is replaced
 */
export function submitAgain(
  settings: RedisSettings,
  pending: PendingCheck,
  policy: CompiledPolicy,
  key: string,
): undefined {
  const limit = policy.limits[0] as CompiledLimit;
  const counter = pending.counter as PendingCounter;
  counter.key = key;
  counter.limit = limit;
  counter.cost = policy.policy.cost;
  counter.script = chargeScripts[limit.rate.algorithm];
  pending.submittedAtSeconds = wallSeconds();
  pending.limitMs = waitLimitMs(settings, policy, false);
  pending.inQueue = pending.limitMs < longestWaitMs(settings.deadlineMs);
  pending.numbers = undefined;
  pending.at = 0;
  pending.failure = undefined;
  noteAsked(policy, key);
  return submitMeasured(settings, queueOf(settings, groupOf(settings, key), reconcile), pending);
}

/** A tail call, as are calls of it: after a wait, LuaJIT interprets the return to each frame. */
function submitMeasured({ overload }: RedisSettings, queue: BatchQueue, pending: PendingCheck): undefined {
  if (overload === undefined) return submitTo(queue, pending);
  const beganAtSeconds = stopwatchSeconds();
  const patienceBeganAtSeconds = patienceSeconds();
  submitTo(queue, pending);
  noteWait(overload, beganAtSeconds, patienceBeganAtSeconds, hasReply(pending));
}

/** Returns the counter of a policy's only limit. */
export function counterOf({ limits, policy }: CompiledPolicy, key: string): PendingCounter {
  const limit = limits[0] as CompiledLimit;
  return { key, limit, cost: policy.cost, script: chargeScripts[limit.rate.algorithm] };
}

/** The longest that a request waits for Redis, in ms. @param asksRedis as in the check: it is no probe */
export function waitLimitMs(
  { deadlineMs, overload }: RedisSettings,
  policy: CompiledPolicy,
  asksRedis: boolean,
): number {
  const { maxStoreWaitUs } = policy.policy;
  let longestMs = longestWaitMs(deadlineMs);
  if (overload !== undefined && !asksRedis) {
    longestMs = math.min(longestMs, probeLimitMs(overload, policy) ?? longestMs);
  }
  return maxStoreWaitUs === undefined ? longestMs : math.min(longestMs, maxStoreWaitUs / 1000);
}

function shortestWaitMs(settings: RedisSettings, checks: readonly Check[]): number {
  const asksRedis = settings.overload !== undefined && mustAskRedis(checks);
  let shortest = longestWaitMs(settings.deadlineMs);
  for (const { policy } of checks) shortest = math.min(shortest, waitLimitMs(settings, policy, asksRedis));
  return shortest;
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

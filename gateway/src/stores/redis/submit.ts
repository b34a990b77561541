// Sends checks to Redis and waits for the reply: by a call of the request's own while no other request waits, else in a batch.

import type { Algorithm } from "../../../../limiter/src/algorithms/limit.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { longestWaitMs, newPatience } from "../../redis/patience.ts";
import { type Call, callScript, groupOf } from "../../redis/script-call.ts";
import type { Script } from "../../redis/script-request.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import type { Check } from "../store.ts";
import { beginDirect, endDirect, forgetPending, joinCall, joinSharedCall, keepPending, queueOf } from "./batcher.ts";
import { hasReply, newPendingCheck, type PendingCheck, takeReply } from "./pending-check.ts";
import { reconcile } from "./reconcile.ts";
import { keyOf, pushNumbers } from "./script-arguments.ts";

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const { charge } = scripts as Record<"charge", Script>;
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

/** Submits checks of one group. @param key of the first counter @returns with numbers, or with an error message */
export function submit(settings: RedisSettings, checks: readonly Check[], key: string): PendingCheck {
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

/** Submits a check by the script of its limit's algorithm. */
export function submitOne(settings: RedisSettings, pending: PendingCheck, policy: CompiledPolicy, key: string): void {
  const limit = policy.limits[0] as CompiledLimit;
  const queue = queueOf(settings, groupOf(settings, key), reconcile);
  const kept = policy.holdsSlots;
  // If the request stops waiting for the reply, the queue's thread reads it.
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

/** Submits checks by the script for any counters. */
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

/** For one limit, as most requests have. */
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

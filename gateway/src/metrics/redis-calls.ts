// Durations and failures of calls to Redis.

import { addNow, addPending, flushedCount } from "./counts.ts";

/**
 * Failures of calls:
 * - connect: no connection was available.
 * - timeout: no reply came within the deadline.
 * - closed: the connection broke.
 * - error: Redis replied with an error.
 *
 * Failures of requests that share calls:
 * - late: their deadline came before the reply, or too many requests waited already.
 */
export type RedisFailure = "connect" | "timeout" | "closed" | "error" | "late";

export const redisFailures: readonly RedisFailure[] = ["connect", "timeout", "closed", "error", "late"];

/** Upper bounds in seconds, as Prometheus expects them. */
export const callBuckets: readonly string[] = ["0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.1", "0.5"];

const bounds = callBuckets.map((bound) => tonumber(bound) as number);
const bucketKeys = [...callBuckets, "+Inf"].map((bound) => `redis-call:${bound}`);
const sumKey = "redis-call-seconds";
const batchesKey = "redis-batches";
const batchedKey = "redis-batched-counters";
const recalledKey = "redis-refusals-remembered";
const failureKey = "redis-failure:";
const lateUnitsKey = "redis-late-units";
const forgottenUnitsKey = "redis-forgotten-units";

export function observeRedisCall(seconds: number): void {
  let bucket = 0;
  while (bucket < bounds.length && seconds > (bounds[bucket] as number)) bucket += 1;
  addPending(bucketKeys[bucket] as string, 1);
  addPending(sumKey, seconds);
}

/** Counts a batch of counters that were checked together. */
export function countBatch(counters: number): void {
  addPending(batchesKey, 1);
  addPending(batchedKey, counters);
}

/** Counts a request that was refused without Redis: Redis has refused the same before, and nothing can have changed. */
export function countRecalled(): void {
  addPending(recalledKey, 1);
}

export function recalledCount(): number {
  return flushedCount(recalledKey);
}

export function batchCount(): number {
  return flushedCount(batchesKey);
}

export function batchedCounters(): number {
  return flushedCount(batchedKey);
}

/** @param failure as lua-resty-redis reported it */
export function countRedisFailure(during: "connect" | "call" | "reply", failure: string | undefined): void {
  addPending(failureKey + kindOf(during, failure), 1);
}

/** Counts a request that shares calls with others and was not decided in time. */
export function countLate(): void {
  addPending(`${failureKey}late`, 1);
}

/** Counts units that were taken without Redis and have been reported to it since. */
export function countLateUnits(units: number): void {
  addPending(lateUnitsKey, units);
}

/** Counts units that were taken without Redis and will never be reported to it. This is rare, and happens in workers that end. */
export function countForgottenUnits(units: number): void {
  addNow(forgottenUnitsKey, units);
}

export function lateUnits(): number {
  return flushedCount(lateUnitsKey);
}

export function forgottenUnits(): number {
  return flushedCount(forgottenUnitsKey);
}

function kindOf(during: "connect" | "call" | "reply", failure: string | undefined): RedisFailure {
  if (during === "connect") return "connect";
  if (during === "reply") return "error";
  return failure === "timeout" ? "timeout" : "closed";
}

export function redisFailureCount(kind: RedisFailure): number {
  return flushedCount(failureKey + kind);
}

/** @returns for each bucket the calls in it alone, not cumulated; the last one has those above every bound */
export function redisCallCounts(): number[] {
  return bucketKeys.map((key) => flushedCount(key));
}

export function redisCallSeconds(): number {
  return flushedCount(sumKey);
}

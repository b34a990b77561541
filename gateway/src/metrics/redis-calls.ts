// How long calls to Redis take, and how they fail.

import { addNow, addPending, flushedCount } from "./counts.ts";

/**
 * Of calls: connect: no connection was to be had. timeout: no reply within the deadline. closed: the connection broke. error:
 * Redis replied with one. Of requests that share calls: late: their deadline came before the reply, or too many waited already.
 */
export type RedisFailure = "connect" | "timeout" | "closed" | "error" | "late";

export const redisFailures: readonly RedisFailure[] = ["connect", "timeout", "closed", "error", "late"];

/** Upper bounds, in seconds, as Prometheus is told them. */
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

/** Counters that were asked about together. */
export function countBatch(counters: number): void {
  addPending(batchesKey, 1);
  addPending(batchedKey, counters);
}

/** A request that Redis need not be asked about: it has refused the same, and nothing can have changed. */
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

/** @param failure as lua-resty-redis told it */
export function countRedisFailure(during: "connect" | "call" | "reply", failure: string | undefined): void {
  addPending(failureKey + kindOf(during, failure), 1);
}

/** A request that shares calls with others, and was not decided in time. */
export function countLate(): void {
  addPending(`${failureKey}late`, 1);
}

/** Units that were taken without Redis, and told to it since. */
export function countLateUnits(units: number): void {
  addPending(lateUnitsKey, units);
}

/** Units that were taken without Redis, and of which it will not hear. Seldom, and of workers that end. */
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

/** @returns of each bucket, how many calls it has by itself; the last has those above every bound */
export function redisCallCounts(): number[] {
  return bucketKeys.map((key) => flushedCount(key));
}

export function redisCallSeconds(): number {
  return flushedCount(sumKey);
}

// Detects whether Redis still is the same instance. If Redis was emptied, or replaced by one that knows less, it does not have
// the epoch that gateways have stored in it, or has another one. Then what a worker remembers of the old instance is worthless.
// While Redis cannot be reached, what the worker remembers is the best information there is. With Redis Cluster, where each slot
// fails on its own, nothing follows from it.
//
// The epoch is also the identity of Redis that the gateway reports: another gateway with another epoch uses another Redis.

import { noteRedisIdentity } from "../metrics/redis-health.ts";
import { runEvery, runInTimer } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { stopwatchSeconds, wallSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, discard, keep, type RedisServer } from "./connection.ts";
import { slotOf } from "./hash-slot.ts";
import { serverFor } from "./script-call.ts";

const epochKey = "sluice:epoch";
const lookEverySeconds = 1;
/** So often it is read in any case, for the report. */
const reportEverySeconds = 10;
/** No reply comes later than this. */
const longestCheckSeconds = 60;

let known: string | undefined;
let instance = 1;
/** By the wall clock. */
let instanceSinceSeconds = 0;
let lookedAtSeconds = 0;
let looking = false;
let isDoubted = false;
let forgetAll: () => void = () => {};

/**
 * Called when a worker starts. The epoch is read at once, before anything is remembered. From then on, everything remembered
 * belongs to the Redis with this epoch, or is forgotten. If Redis is away at the start, replies that arrive before the epoch is
 * first read, within a second, are assumed to come from the same instance.
 *
 * @param wanted whether anything is remembered: if not, the epoch is read less often once it is known
 * @param forget called when Redis is another instance or has no epoch. May be called needlessly
 */
export function watchEpoch(settings: RedisSettings, wanted: () => boolean, forget: () => void): void {
  forgetAll = forget;
  const look = (premature: boolean) => {
    if (premature || looking) return;
    if (known !== undefined && !wanted() && stopwatchSeconds() - lookedAtSeconds < reportEverySeconds) return;
    looking = true;
    lookedAtSeconds = stopwatchSeconds();
    const [looked, epoch] = pcall(readEpoch, settings);
    looking = false;
    if (!looked) noteDefect("redis", "the epoch of Redis was not read", epoch);
    const now = looked ? (epoch as string | undefined) : undefined;
    if (now === undefined) return;
    isDoubted = isOther(now);
    if (isDoubted) forget();
    else learn(settings, now);
  };
  runInTimer(() => look(false));
  runEvery(lookEverySeconds, look);
}

function isOther(epoch: string): boolean {
  return known !== undefined && epoch !== known;
}

/**
 * Returns whether a connection led to another instance than the worker has known until then. Its other connections may still lead
 * to that one, so all of them are renewed before the worker goes by the new one.
 */
export function isRedisDoubted(): boolean {
  return isDoubted;
}

/** @param epoch "" if Redis has none */
function learn({ deployment }: RedisSettings, epoch: string): void {
  const hasChanged = isOther(epoch);
  if (epoch === "" || hasChanged) forgetAll();
  isDoubted = false;
  known = epoch;
  const isNew = epoch !== "" && noteRedisIdentity(epoch);
  if (!hasChanged || deployment.kind === "cluster") return;
  instance += 1;
  instanceSinceSeconds = wallSeconds();
  if (isNew) ngx.log(ngx.ERR, "sluice: Redis is another one now, or was emptied: counters begin with what it has");
}

/** Returns a number that changes when Redis is another instance: charges note it. */
export function redisInstance(): number {
  return instance;
}

/**
 * Returns whether a charge was made in the Redis that is used now. In another one, its units must not be refunded nor its slots be
 * released: they would be those of other requests. Calls that were under way when the worker changed over may be noted wrongly.
 *
 * @param redis the number that it noted; undefined: the charge is not made in Redis, or was made just now
 */
export function isInThisRedis({ redis }: { readonly redis?: number | undefined }): boolean {
  return redis === undefined || redis === instance;
}

/** The same for a check by when it was submitted, in seconds since the epoch. One that seems much older was sent after the clock had stepped back. */
export function isSentToThisRedis(submittedAtSeconds: number): boolean {
  return submittedAtSeconds >= instanceSinceSeconds || submittedAtSeconds < instanceSinceSeconds - longestCheckSeconds;
}

/**
 * Called before the worker begins to use a new connection, which may lead to another Redis.
 *
 * @returns the error message if the epoch could not be read
 */
export function learnEpochFrom(
  redis: RedisConnection,
  server: RedisServer,
  settings: RedisSettings,
): string | undefined {
  const [expected] = serverFor(settings, groupOfEpoch(settings), 0);
  if (server !== expected) return undefined;
  const epoch = epochOn(redis);
  if (epoch === undefined) return "no reply";
  learn(settings, epoch);
  return undefined;
}

function groupOfEpoch({ deployment }: RedisSettings): number {
  return deployment.kind === "cluster" ? slotOf(epochKey) : 0;
}

/** @returns "" if Redis has no epoch, undefined if Redis cannot be reached */
function readEpoch(settings: RedisSettings): string | undefined {
  const [server] = serverFor(settings, groupOfEpoch(settings));
  if (server === undefined || server.breaker.open) return undefined;
  const [redis] = connectTo(server, settings.deadlineMs);
  if (redis === undefined) return undefined;
  const epoch = epochOn(redis);
  if (epoch === undefined) discard(redis);
  else keep(redis);
  return epoch;
}

/** @returns "" if Redis has no epoch, undefined if it does not reply */
function epochOn(redis: RedisConnection): string | undefined {
  let [reply] = redis.get(epochKey);
  if (reply !== undefined && type(reply) !== "string") {
    // The first gateway to get here chooses the epoch.
    redis.set(epochKey, `${wallSeconds()}-${math.random()}`, "NX");
    [reply] = redis.get(epochKey);
  }
  if (reply === undefined) return undefined;
  return type(reply) === "string" ? (reply as string) : "";
}

// Detects whether Redis still is the same instance. If Redis was emptied, or replaced by one that knows less, it does not have
// the epoch that gateways have stored in it, or has another one. Then what a worker remembers of the old instance is worthless.
// While Redis cannot be reached, what the worker remembers is the best information there is. With Redis Cluster, where each slot
// fails on its own, nothing follows from it.
//
// The epoch is also the identity of Redis that the gateway reports: another gateway with another epoch uses another Redis.

import { noteRedisIdentity } from "../metrics/redis-health.ts";
import { runEvery, runInTimer } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, discard, keep } from "./connection.ts";
import { slotOf } from "./hash-slot.ts";
import { serverFor } from "./script-call.ts";

const epochKey = "sluice:epoch";
const lookEverySeconds = 1;
/** So often it is read in any case, for the report. */
const reportEverySeconds = 10;

let known: string | undefined;
let lookedAt = 0;
let looking = false;

/**
 * Called when a worker starts. The epoch is read at once, before anything is remembered. From then on, everything remembered
 * belongs to the Redis with this epoch, or is forgotten. If Redis is away at the start, replies that arrive before the epoch is
 * first read, within a second, are assumed to come from the same instance.
 *
 * @param wanted whether anything is remembered: if not, the epoch is read less often once it is known
 * @param forget called when Redis is another instance or has no epoch. May be called needlessly
 */
export function watchEpoch(settings: RedisSettings, wanted: () => boolean, forget: () => void): void {
  const look = (premature: boolean) => {
    if (premature || looking) return;
    if (known !== undefined && !wanted() && ngx.now() - lookedAt < reportEverySeconds) return;
    looking = true;
    lookedAt = ngx.now();
    const [looked, epoch] = pcall(readEpoch, settings);
    looking = false;
    if (!looked) noteDefect("redis", "the epoch of Redis was not read", epoch);
    const now = looked ? (epoch as string | undefined) : undefined;
    if (now === undefined) return;
    if (now === "" || (known !== undefined && now !== known)) forget();
    known = now;
    if (now !== "") noteRedisIdentity(now);
  };
  runInTimer(() => look(false));
  runEvery(lookEverySeconds, look);
}

/** @returns "" if Redis has no epoch, undefined if Redis cannot be reached */
function readEpoch(settings: RedisSettings): string | undefined {
  const [server] = serverFor(settings, settings.deployment.kind === "cluster" ? slotOf(epochKey) : 0);
  if (server === undefined || server.breaker.open) return undefined;
  const [redis] = connectTo(server, settings.deadlineMs);
  if (redis === undefined) return undefined;
  let [reply] = redis.get(epochKey);
  if (reply !== undefined && type(reply) !== "string") {
    // The first gateway to get here chooses the epoch.
    redis.set(epochKey, `${ngx.now()}-${math.random()}`, "NX");
    [reply] = redis.get(epochKey);
  }
  if (reply === undefined) discard(redis);
  else keep(redis);
  if (reply === undefined) return undefined;
  return type(reply) === "string" ? (reply as string) : "";
}

// Gives connections to Redis a greatest age. nginx looks a name up only when it connects, and a busy worker never does: it would go
// on using a server whose name leads to another one by now. So each worker makes new connections from time to time, to where the
// name leads now, and uses them once their server has shown that it can decide. No request waits for them, and a call that is
// under way ends where it began. If the new connections fail, the old ones stay in use.

import { isDividedOverRedis } from "../metrics/redis-health.ts";
import { runEvery } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import {
  beginRenewal,
  connectTo,
  discard,
  newestOptions,
  type RedisServer,
  refusalToWrite,
  useConnections,
} from "./connection.ts";
import { isRedisDoubted, learnEpochFrom } from "./epoch.ts";
import { newPatience } from "./patience.ts";
import { askForPrimary } from "./sentinel.ts";
import { askForSlots } from "./slot-map.ts";

/** A random part of it is taken off each time, so that workers and gateways do not all connect at the same moment. */
const greatestAgeSeconds = 30;
const randomPart = 1 / 3;
/** After a failure, and while connections of this worker or others of this nginx lead to different servers. */
const shortAgeSeconds = 5;
const lookEverySeconds = 1;
/** Longer than that of a request, because no request waits. */
const deadlineMs = 1000;
/** As many as the batches of a worker use at a time. Requests make further ones when they need them. */
const mostPrepared = 4;
const stayInUse = "connections to Redis were not renewed, and stay in use";

/** Called when a worker starts. */
export function limitConnectionAge(settings: RedisSettings): void {
  const patient = { ...settings, deadlineMs };
  let renewedAtSeconds = stopwatchSeconds();
  let ageSeconds = randomAge();
  let renewing = false;
  runEvery(lookEverySeconds, (premature) => {
    const passedSeconds = stopwatchSeconds() - renewedAtSeconds;
    if (premature || renewing || passedSeconds < shortAgeSeconds) return;
    if (passedSeconds < ageSeconds && !isRedisDoubted() && !isDividedOverRedis()) return;
    renewing = true;
    const [ran, failure] = pcall(renewAll, patient);
    renewing = false;
    if (!ran) noteDefect("redis", stayInUse, failure);
    else if (failure !== undefined) warnSparingly(stayInUse, failure);
    renewedAtSeconds = stopwatchSeconds();
    ageSeconds = ran && failure === undefined ? randomAge() : shortAgeSeconds;
  });
}

function randomAge(): number {
  return greatestAgeSeconds * (1 - randomPart * math.random());
}

/** @returns the last error message */
function renewAll(this: void, settings: RedisSettings): string | undefined {
  const { deployment } = settings;
  let failure: string | undefined;
  for (const server of beginRenewal()) failure = renew(server, settings) ?? failure;
  // Sentinels and nodes may be others now as well, and name others.
  if (deployment.kind === "sentinel") return askForPrimary(deployment, deadlineMs) ?? failure;
  if (deployment.kind === "cluster") return askForSlots(deployment, deadlineMs) ?? failure;
  return failure;
}

/** @returns the error message */
function renew(server: RedisServer, settings: RedisSettings): string | undefined {
  // The probes of a server that fails make new connections anyway.
  if (server.breaker.open) return undefined;
  const options = newestOptions(server.access, server.address);
  const prepared: RedisConnection[] = [];
  // No request waits for these: the next query connects.
  const isOnlyAsked = server.access.role === "sentinel" || server.replacedAtSeconds !== undefined;
  const count = isOnlyAsked ? 0 : math.min(server.made, mostPrepared);
  let failure: string | undefined;
  while (prepared.length < count && failure === undefined) {
    const [redis, connectFailure] = connectTo(server, deadlineMs, newPatience(deadlineMs), options);
    if (redis !== undefined) prepared.push(redis);
    failure = connectFailure;
  }
  const [first] = prepared;
  if (first !== undefined) failure ??= refusalToWrite(first);
  // Nothing yields between this and the use of the new connections.
  if (first !== undefined) failure ??= learnEpochFrom(first, server, settings);
  if (failure === undefined) {
    useConnections(server, prepared, options);
    return undefined;
  }
  for (const redis of prepared) discard(redis);
  return `${server.address.host}:${server.address.port}: ${failure}`;
}

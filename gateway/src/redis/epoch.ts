// Whether Redis still is the one that it was: emptied, or followed by one that knows less, it does not have the epoch that
// gateways have put there, or has another. What a worker remembers of the old one is then worth nothing. While it cannot be
// asked, what is remembered is all that anybody knows.
//
// Not with Redis Cluster, where each slot has a fate of its own.

import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, discard, keep } from "./connection.ts";
import { serverFor } from "./script-call.ts";

const epochKey = "sluice:epoch";
const lookEverySeconds = 1;

let known: string | undefined;
let looking = false;

/**
 * For each worker's start.
 *
 * @param wanted whether anything is remembered: otherwise nobody looks
 * @param forget is called when Redis is another, or does not tell its epoch. May be called for nothing
 */
export function watchEpoch(settings: RedisSettings, wanted: () => boolean, forget: () => void): void {
  ngx.timer.every(lookEverySeconds, (premature) => {
    if (premature || looking || !wanted()) return;
    looking = true;
    const [looked, epoch] = pcall(readEpoch, settings);
    looking = false;
    if (!looked) warnSparingly("the epoch of Redis was not read", `${epoch}`);
    const now = looked ? (epoch as string | undefined) : undefined;
    if (now === undefined) return;
    if (now === "" || now !== known) forget();
    known = now;
  });
}

/** @returns "" when Redis does not tell one, undefined when it cannot be asked */
function readEpoch(settings: RedisSettings): string | undefined {
  const [server] = serverFor(settings, 0);
  if (server === undefined || server.breaker.open) return undefined;
  const [redis] = connectTo(server, settings.deadlineMs);
  if (redis === undefined) return undefined;
  let [reply] = redis.get(epochKey);
  if (reply !== undefined && type(reply) !== "string") {
    // Whoever is first names it.
    redis.set(epochKey, `${ngx.now()}-${math.random()}`, "NX");
    [reply] = redis.get(epochKey);
  }
  if (reply === undefined) discard(redis);
  else keep(redis);
  if (reply === undefined) return undefined;
  return type(reply) === "string" ? (reply as string) : "";
}

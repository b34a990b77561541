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
 * For each worker's start. The epoch is read at once, before anything is remembered: what is heard from then on is of the
 * Redis that has it, or is forgotten. Where Redis is away at the start, what is heard until the epoch is first read, within a
 * second, is taken to be of the same one.
 *
 * @param wanted whether anything is remembered: otherwise nobody looks, once the epoch is known
 * @param forget is called when Redis is another, or does not tell its epoch. May be called for nothing
 */
export function watchEpoch(settings: RedisSettings, wanted: () => boolean, forget: () => void): void {
  const look = (premature: boolean) => {
    if (premature || looking || (known !== undefined && !wanted())) return;
    looking = true;
    const [looked, epoch] = pcall(readEpoch, settings);
    looking = false;
    if (!looked) warnSparingly("the epoch of Redis was not read", `${epoch}`);
    const now = looked ? (epoch as string | undefined) : undefined;
    if (now === undefined) return;
    if (now === "" || (known !== undefined && now !== known)) forget();
    known = now;
  };
  ngx.timer.at(0, look);
  ngx.timer.every(lookEverySeconds, look);
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

// How a worker learns what sentinels or the nodes of a Redis Cluster know: from the first that answers, and seldom: many
// requests that want to know the same thing at once have it asked once.

import type { Access, Address } from "../../../limiter/src/protocol/redis-url.ts";
import { runUntilDone } from "../runtime/background.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { connectTo, discard, keep, serverAt } from "./connection.ts";

/** Between two times that a worker asks the same thing: what has failed seldom changes sooner. */
const pauseSeconds = 0.1;

/** Something that is asked for again and again. */
export interface Discovery {
  running: boolean;
  begunAtSeconds: number;
  /** What those wait for who came while it runs. */
  done: Semaphore | undefined;
  againAtSeconds: number;
  /** What failed the last time. */
  failure: string | undefined;
}

export function newDiscovery(): Discovery {
  return { running: false, begunAtSeconds: 0, done: undefined, againAtSeconds: 0, failure: undefined };
}

/**
 * Has `ask` run, unless it just was: for all who come meanwhile, and in the background, where it is run again until it succeeds.
 * nginx ends what runs for a request when its client leaves, and nobody would ever ask again.
 *
 * The caller waits until it has been run once, but for no inquiry that is older than the deadline, and not while the last thing
 * that is known is that it failed: then nobody who could tell answers, and each request would wait for that.
 *
 * @param waitMs the longest that the caller waits
 * @param ask @returns what failed. Yields
 */
export function discover(
  discovery: Discovery,
  deadlineMs: number,
  waitMs: number,
  query: () => string | undefined,
): void {
  if (!discovery.running && stopwatchSeconds() >= discovery.againAtSeconds) begin(discovery, query);
  if (!discovery.running || discovery.failure !== undefined) return;
  const leftMs = math.min(waitMs, deadlineMs - (stopwatchSeconds() - discovery.begunAtSeconds) * 1000);
  if (leftMs > 0) discovery.done?.wait(leftMs / 1000);
}

function begin(discovery: Discovery, query: () => string | undefined): void {
  discovery.running = true;
  discovery.begunAtSeconds = stopwatchSeconds();
  discovery.done = semaphoreLibrary.new(0);
  const failure = runUntilDone(() => queryOnce(discovery, query));
  if (failure === undefined) return;
  warnSparingly("nobody is asked where Redis is", failure);
  end(discovery, failure);
}

/** @returns whether to ask once more */
function queryOnce(discovery: Discovery, query: () => string | undefined): boolean {
  const [ran, answer] = pcall(query);
  const failure = ran ? answer : tostring(answer);
  if (failure === undefined || ngx.worker.exiting()) {
    end(discovery, failure);
    return false;
  }
  wakeWaiting(discovery, failure);
  ngx.sleep(pauseSeconds);
  return true;
}

function end(discovery: Discovery, failure: string | undefined): void {
  discovery.againAtSeconds = stopwatchSeconds() + pauseSeconds;
  discovery.running = false;
  wakeWaiting(discovery, failure);
}

/** Those who still wait: a request whose client went away does no longer. */
function wakeWaiting(discovery: Discovery, failure: string | undefined): void {
  discovery.failure = failure;
  const waiting = -(discovery.done?.count() ?? 0);
  if (waiting > 0) discovery.done?.post(waiting);
}

/**
 * Asks these servers one after the other until one answers. Each has a deadline of its own for each step: with one for all, a
 * first that is dead would use it up, and the others were never asked. No request waits for all of that.
 *
 * @param first the index of the one to begin with
 * @param question sends a command; an answer that tells nothing is a failure
 * @returns the answer and the index of who gave it; or what failed last
 */
export function queryFirstAnswering<Discovered>(
  access: Access,
  addresses: readonly Address[],
  first: number,
  deadlineMs: number,
  query: (redis: RedisConnection, source: Address) => LuaMultiReturn<[Discovered | undefined, string | undefined]>,
): LuaMultiReturn<[Discovered | undefined, number, string | undefined]> {
  let lastFailure: string | undefined;
  for (let i = 0; i < addresses.length; i++) {
    const index = (first + i) % addresses.length;
    const source = addresses[index] as Address;
    const server = serverAt(access, source);
    const [redis, connectFailure] = connectTo(server, deadlineMs);
    let failure = connectFailure;
    if (redis !== undefined) {
      const [answer, queryFailure] = query(redis, source);
      if (answer !== undefined) {
        keep(redis);
        return $multi(answer, index, undefined);
      }
      discard(redis);
      failure = queryFailure;
    }
    lastFailure = `${source.host}:${source.port}: ${failure}`;
  }
  return $multi(undefined, first, lastFailure);
}

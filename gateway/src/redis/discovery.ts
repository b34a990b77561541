// How a worker learns the topology that sentinels or the nodes of a Redis Cluster know. It queries them one after the other until
// one answers, and seldom: if many requests need the same information at once, one query serves them all.

import type { Access, Address } from "../../../limiter/src/protocol/redis-url.ts";
import { runUntilDone } from "../runtime/background.ts";
import { noteDefect } from "../runtime/defects.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { connectTo, discard, keep, serverAt } from "./connection.ts";

/** The pause between two runs of the same query. What failed a moment ago will probably fail again. */
const pauseSeconds = 0.1;

/** A piece of information that is queried again and again. */
export interface Discovery {
  running: boolean;
  begunAtSeconds: number;
  /** Requests that arrive during a run wait for this. */
  done: Semaphore | undefined;
  againAtSeconds: number;
  /** The error message of the last run. */
  failure: string | undefined;
}

export function newDiscovery(): Discovery {
  return { running: false, begunAtSeconds: 0, done: undefined, againAtSeconds: 0, failure: undefined };
}

/**
 * Runs `query` once for all callers that arrive meanwhile, unless it has just run. It runs in the background and is repeated
 * until it succeeds: nginx ends the work of a request when its client leaves, and then no request would ever run the query again.
 *
 * The caller waits until the query has run once. But it does not wait for a run that is older than the deadline, nor if the last
 * run failed: then no source answers, and each request would wait for that.
 *
 * @param waitMs the longest that the caller waits
 * @param query @returns its error message. Yields
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
  warnSparingly("discovery of the Redis servers could not start", failure);
  end(discovery, failure);
}

/** @returns whether to run it again */
function queryOnce(discovery: Discovery, query: () => string | undefined): boolean {
  const [ran, answer] = pcall(query);
  if (!ran) noteDefect("redis", "discovery of the Redis servers broke off", answer);
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

/** Wakes only the requests that still wait: one whose client went away does not wait any more. */
function wakeWaiting(discovery: Discovery, failure: string | undefined): void {
  discovery.failure = failure;
  const waiting = -(discovery.done?.count() ?? 0);
  if (waiting > 0) discovery.done?.post(waiting);
}

/**
 * Queries these servers one after the other until one answers. Each server has a deadline of its own for each step: a single
 * deadline for all would be used up by a dead first server, and the others would never be queried. No request waits for all of
 * that.
 *
 * @param first the index of the server to begin with
 * @param query sends a command; a reply without the information is a failure
 * @returns the answer and the index of the server that gave it; or the last error message
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

// How a worker learns what sentinels or the nodes of a Redis Cluster know: from the first that answers, and seldom: many
// requests that want to know the same thing at once have it asked once.

import { runSoon } from "../runtime/background.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { connectTo, discard, keep, serverAt } from "./connection.ts";
import type { Access, Address } from "./deployment.ts";

/** Between two times that a worker asks the same thing: what has failed seldom changes sooner. */
const pauseSeconds = 0.1;

/** Something that is asked for again and again. */
export interface Inquiry {
  running: boolean;
  /** What those wait for who came while it runs. */
  done: Semaphore | undefined;
  againAtSeconds: number;
  /** What failed the last time. */
  failure: string | undefined;
}

export function newInquiry(): Inquiry {
  return { running: false, done: undefined, againAtSeconds: 0, failure: undefined };
}

/**
 * Waits until `ask` has been run, unless it just was. It is run for all who come meanwhile, and in the background: nginx ends
 * what runs for a request when its client leaves, and nobody would ever ask again.
 *
 * @param waitMs the longest that the caller waits
 * @param ask @returns what failed. Yields
 */
export function inquire(inquiry: Inquiry, waitMs: number, ask: () => string | undefined): void {
  if (!inquiry.running && ngx.now() >= inquiry.againAtSeconds) begin(inquiry, ask);
  if (inquiry.running) inquiry.done?.wait(waitMs / 1000);
}

function begin(inquiry: Inquiry, ask: () => string | undefined): void {
  const failure = runSoon(() => {
    const [ran, answer] = pcall(ask);
    end(inquiry, ran ? answer : tostring(answer));
  });
  if (failure === undefined) {
    inquiry.running = true;
    inquiry.done = semaphoreLibrary.new(0);
    return;
  }
  warnSparingly("nobody is asked where Redis is", failure);
  end(inquiry, failure);
}

function end(inquiry: Inquiry, failure: string | undefined): void {
  inquiry.failure = failure;
  inquiry.againAtSeconds = ngx.now() + pauseSeconds;
  inquiry.running = false;
  // Those who still wait: a request whose client went away does no longer.
  const waiting = -(inquiry.done?.count() ?? 0);
  if (waiting > 0) inquiry.done?.post(waiting);
}

/**
 * Asks these servers one after the other until one answers.
 *
 * @param first the index of the one to begin with
 * @param question sends a command; an answer that tells nothing is a failure
 * @returns the answer and the index of who gave it; or what failed last
 */
export function askAround<Answer>(
  access: Access,
  addresses: readonly Address[],
  first: number,
  deadlineMs: number,
  question: (redis: RedisConnection, teller: Address) => LuaMultiReturn<[Answer | undefined, string | undefined]>,
): LuaMultiReturn<[Answer | undefined, number, string | undefined]> {
  let lastFailure: string | undefined;
  for (let i = 0; i < addresses.length; i++) {
    const index = (first + i) % addresses.length;
    const teller = addresses[index] as Address;
    const server = serverAt(access, teller);
    const [redis, connectFailure] = connectTo(server, deadlineMs);
    let failure = connectFailure;
    if (redis !== undefined) {
      const [answer, questionFailure] = question(redis, teller);
      if (answer !== undefined) {
        keep(redis);
        return $multi(answer, index, undefined);
      }
      discard(redis);
      failure = questionFailure;
    }
    lastFailure = `${teller.host}:${teller.port}: ${failure}`;
  }
  return $multi(undefined, first, lastFailure);
}

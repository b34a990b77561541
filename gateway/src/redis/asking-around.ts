// How a worker learns what sentinels or the nodes of a Redis Cluster know: from the first that answers, and seldom: many
// requests that want to know the same thing at once have it asked once.

import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { connectTo, discard, keep, serverAt } from "./connection.ts";
import type { Access, Address } from "./deployment.ts";

/** Between two times that a worker asks the same thing: what has failed seldom changes sooner. */
const pauseSeconds = 0.1;

/** Something that is asked for again and again. */
export interface Inquiry {
  running: boolean;
  waiting: number;
  done: Semaphore | undefined;
  againAtSeconds: number;
  /** What failed the last time. */
  failure: string | undefined;
}

export function newInquiry(): Inquiry {
  return { running: false, waiting: 0, done: undefined, againAtSeconds: 0, failure: undefined };
}

/**
 * Runs `ask`, unless it just ran. Who comes while it runs waits for it.
 *
 * @param waitMs the longest that such a one waits
 * @param ask @returns what failed
 */
export function inquire(inquiry: Inquiry, waitMs: number, ask: () => string | undefined): void {
  if (inquiry.running) {
    waitFor(inquiry, waitMs);
    return;
  }
  if (ngx.now() < inquiry.againAtSeconds) return;
  inquiry.running = true;
  const [ran, failure] = pcall(ask);
  inquiry.failure = ran ? failure : tostring(failure);
  inquiry.againAtSeconds = ngx.now() + pauseSeconds;
  inquiry.running = false;
  if (inquiry.waiting > 0) inquiry.done?.post(inquiry.waiting);
  inquiry.waiting = 0;
}

function waitFor(inquiry: Inquiry, waitMs: number): void {
  inquiry.done ??= semaphoreLibrary.new(0);
  inquiry.waiting += 1;
  const [woken] = inquiry.done.wait(waitMs / 1000);
  if (!woken) inquiry.waiting -= 1;
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

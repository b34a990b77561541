// Requests that wait for units (onLimit: delay). Each sleeps until its turn by what the limit says and by how many wait
// before it, then asks again. Only it waits: the worker serves others meanwhile.
//
// A place is given up in the log phase at the latest: nginx ends the request of a client that is gone.

import { type Decision, never } from "../../../limiter/src/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { Delay } from "../../../limiter/src/policy/on-limit.ts";
import { requestAddress } from "../runtime/lua-modules.ts";

/** Of a limit that cannot say when it is worth asking again: a slot of concurrency comes back at any moment. */
const askAgainSeconds = 0.01;

interface Place {
  readonly policy: string;
  readonly counter: string;
}

/** On this worker, by policy, and by policy and key values. */
const waitingFor: Record<string, number | undefined> = {};
const queued: Record<string, number | undefined> = {};
/** By request. */
const places: Record<string, Place | undefined> = {};
let waiting = 0;

/**
 * Waits until the policy's units are there. Yields.
 *
 * @param decision what the policy said; `ask` fills it anew
 * @param ask charges the request if it may go on now
 * @returns whether it may; false when the wait would be too long, or too many wait already
 */
export function waitForUnits(
  policy: CompiledPolicy,
  keyValues: string,
  { maxDelayUs, maxWaiting }: Delay,
  decision: Decision,
  ask: () => boolean,
): boolean {
  const name = policy.counterPrefix;
  const counter = name + keyValues;
  if ((waitingFor[name] ?? 0) >= maxWaiting) return false;
  const ahead = queued[counter] ?? 0;
  const untilSeconds = ngx.now() + maxDelayUs / 1_000_000;
  let wait = secondsOf(decision) + ahead * slowest(policy);
  const request = requestAddress();
  places[request] = { policy: name, counter };
  waitingFor[name] = (waitingFor[name] ?? 0) + 1;
  queued[counter] = ahead + 1;
  waiting += 1;
  let allowed = false;
  while (decision.retryAfterUs !== never && ngx.now() + wait <= untilSeconds) {
    ngx.sleep(wait);
    allowed = ask();
    if (allowed) break;
    wait = secondsOf(decision);
  }
  leave(request);
  return allowed;
}

/** In the log phase, for a request that ended while it waited. */
export function leavePlace(): void {
  if (waiting > 0) leave(requestAddress());
}

function leave(request: string): void {
  const place = places[request];
  if (place === undefined) return;
  places[request] = undefined;
  waiting -= 1;
  waitingFor[place.policy] = oneLess(waitingFor[place.policy]);
  queued[place.counter] = oneLess(queued[place.counter]);
}

/** Nothing instead of 0, so that what nobody waits for is not kept. */
function oneLess(count: number | undefined): number | undefined {
  return count === undefined || count <= 1 ? undefined : count - 1;
}

/** What one request's units take to come back under the slowest of the policy's limits, in seconds. */
function slowest({ policy, limits }: CompiledPolicy): number {
  let seconds = 0;
  for (const { rate } of limits) {
    seconds = math.max(seconds, (policy.cost * rate.windowUs) / rate.quota / 1_000_000);
  }
  return seconds;
}

/** A started ms counts whole: nginx's clock has no parts of one. */
function secondsOf({ retryAfterUs }: Decision): number {
  return retryAfterUs > 0 ? math.ceil(retryAfterUs / 1000) / 1000 : askAgainSeconds;
}

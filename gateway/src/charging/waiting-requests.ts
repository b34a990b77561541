// How many requests wait on this worker, for units (onLimit: delay) and for their turn (leaky-bucket): each holds memory of nginx, and
// a client may open as many as it likes. Beyond a bound for all policies together a request is refused instead. Apps share the places.

import { emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, type MergedDecision, mergeLimit } from "../../../limiter/src/compiled/merged-decision.ts";
import { countEvent } from "../metrics/counts.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { hasPlace, leavePlace, newPlaces, takePlace } from "../runtime/app-places.ts";
import { unwatchClient, watchClient } from "../runtime/client-watch.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { sleepAtLeastUs } from "../runtime/stopwatch.ts";
import { publishState } from "../runtime/worker-states.ts";
import type { Charge } from "../stores/store.ts";

interface Waiting {
  readonly app: string;
  /** Where it is counted among those of its policy. */
  readonly policy: string;
  /** Whether nginx watches its client because it waits. */
  readonly watched: boolean;
  /** Its places. */
  readonly size: number;
  /** How many it counts of those of its policy. */
  readonly ofPolicy: number;
}

/** Who waits keeps what was charged, and it is refunded if they leave: so many limits take one more place. */
const limitsOfOnePlace = 16;

const waitingField = newRequestField<Waiting>(leave);
const places = newPlaces();
let waitingRequests = 0;

/**
 * How many of them wait because of a policy, by its prefix. Checks of callers take no places from requests of the same policy, and are counted with the
 * places that each has.
 */
const ofPolicies: Record<string, number | undefined> = {};
let mostWaiting = math.huge;

/** For each worker's start. */
export function boundWaiting(most: number): void {
  mostWaiting = most;
  publishState("waiting", waitingRequests);
}

function leave(this: void, { app, policy, size, ofPolicy }: Waiting): void {
  leavePlace(places, app, size);
  waitingRequests -= 1;
  const others = (ofPolicies[policy] as number) - ofPolicy;
  ofPolicies[policy] = others > 0 ? others : undefined;
  publishState("waiting", waitingRequests);
}

/** Requests that wait on this worker. */
export function waitingCount(): number {
  return waitingRequests;
}

/** How many places the checks of one policy may have: the rest is for others, and for the gateway's own requests. */
export function mostOfOnePolicy(): number {
  return mostWaiting / 2;
}

/**
 * Returns whether one more may wait. Callers ask before `beginWaiting`, and nothing yields between the two.
 *
 * @param policy that would have it wait
 * @param most how many of its kind may wait because of that policy
 * @param caller the app of the caller whose check waits; undefined: a request of the gateway
 */
export function mayWait(policy: CompiledPolicy, most = math.huge, caller?: string): boolean {
  if ((ofPolicies[kindOf(policy, caller)] ?? 0) >= most) return false;
  if (hasPlace(places, caller ?? policy.app, mostWaiting)) return true;
  countEvent("waiting-refusals");
  warnSparingly("requests are refused, because too many wait already", `${policy.app}/${policy.name}`);
  return false;
}

/**
 * Counts the current request in, until `endWaiting` or its end: it ends if its client leaves.
 *
 * @param charges what it has been charged already; undefined: by one policy
 * @param caller see `mayWait`
 */
export function beginWaiting(policy: CompiledPolicy, charges?: readonly Charge[], caller?: string): void {
  const app = caller ?? policy.app;
  const kind = kindOf(policy, caller);
  let kept = 0;
  if (charges !== undefined) for (const { limits } of charges) kept += limits.length;
  const size = 1 + math.floor(kept / limitsOfOnePlace);
  const ofPolicy = caller === undefined ? 1 : size;
  keepForRequest(waitingField, { app, policy: kind, watched: watchClient(), size, ofPolicy });
  takePlace(places, app, size);
  waitingRequests += 1;
  ofPolicies[kind] = (ofPolicies[kind] ?? 0) + ofPolicy;
  publishState("waiting", waitingRequests);
}

function kindOf({ counterPrefix }: CompiledPolicy, caller: string | undefined): string {
  return caller === undefined ? counterPrefix : `${caller} ${counterPrefix}`;
}

export function endWaiting(): void {
  const waiting = takeFromRequest(waitingField);
  if (waiting === undefined) return;
  leave(waiting);
  if (waiting.watched) unwatchClient();
}

/** For a leaky-bucket: the request goes on when its turn comes. Only it waits. @param policy that has it wait @param charges see `beginWaiting` @param caller see `mayWait` */
export function waitUs(us: number, policy: CompiledPolicy, charges?: readonly Charge[], caller?: string): void {
  beginWaiting(policy, charges, caller);
  sleepAtLeastUs(us);
  endWaiting();
}

/** Refuses a request that would have to wait, if too many wait already. @returns whether it did */
export function refuseIfFull(merged: MergedDecision, policy: CompiledPolicy): boolean {
  if (mayWait(policy)) return false;
  refuseToWait(merged, policy);
  return true;
}

/** Refuses a request that was not decided, because others are before it. @param merged empty */
export function refuseUnasked(merged: MergedDecision, policy: CompiledPolicy, retryAfterUs: number): undefined {
  const { name, rate } = policy.limits[0] as CompiledLimit;
  const decision = emptyDecision();
  decision.allowed = false;
  decision.limit = capacity(rate);
  decision.remaining = 0;
  decision.retryAfterUs = retryAfterUs;
  decision.resetAfterUs = retryAfterUs;
  mergeLimit(merged, policy, name, decision);
}

/**
 * Refuses a request that a leaky-bucket would have wait: its client is to come back when the request would have gone on.
 *
 * @param merged allows, and says how long the request would have waited; it refuses afterwards
 */
export function refuseToWait(merged: MergedDecision, policy: CompiledPolicy): undefined {
  const { delayUs } = merged;
  clearMerged(merged);
  for (const { name, rate } of policy.limits) {
    if (rate.algorithm !== "leaky-bucket") continue;
    const decision = emptyDecision();
    decision.allowed = false;
    decision.limit = capacity(rate);
    decision.remaining = 0;
    decision.retryAfterUs = delayUs;
    decision.resetAfterUs = delayUs;
    mergeLimit(merged, policy, name, decision);
  }
}

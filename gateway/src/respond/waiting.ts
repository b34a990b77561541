// How many requests wait on this worker, for units (onLimit: delay) and for their turn (leaky-bucket): each holds memory of nginx, and
// a client may open as many as it likes. Beyond a bound for all policies together a request is refused instead.
//
// A request is counted out when its wait is over, and in the log phase where it ended meanwhile. Where the operator left
// `sluice.log()` out, a look each second finds that it lives no longer.

import { capacity } from "../../../limiter/src/algorithms/rate.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { clearMerged, mergeLimit, type MergedDecision } from "../../../limiter/src/verdict.ts";
import { countEvent } from "../metrics/counts.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { reportMissingLog } from "../runtime/missing-parts.ts";
import { currentLife, hasEnded, type Life } from "../runtime/request-life.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { sleepAtLeastUs } from "../runtime/stopwatch.ts";

interface Waiter {
  /** Undefined: there was no memory for it, and the log phase alone will tell. */
  readonly life: Life | undefined;
  /** What is to be done should the request end while it waits. */
  readonly leave: Leave | undefined;
}

type Leave = (this: void, request: string) => void;

const lookEverySeconds = 1;

/** By request. */
const waiters: Record<string, Waiter | undefined> = {};
let waiting = 0;
let mostWaiting = math.huge;

/** For each worker's start. */
export function boundWaiting(most: number): void {
  mostWaiting = most;
  ngx.timer.every(lookEverySeconds, () => {
    if (waiting === 0) return;
    for (const request in waiters) forgetIfEnded(request);
  });
}

/** Whether one more may wait: to be asked before `beginWaiting`, with nothing that yields between. @param policy that would have it wait */
export function mayWait({ app, policy }: CompiledPolicy): boolean {
  // Its address may be that of one that ended without its log phase.
  if (waiting > 0) forgetIfEnded(requestAddress());
  if (waiting < mostWaiting) return true;
  countEvent("waiting-refusals");
  warnSparingly("requests are refused, because too many wait already", `${app}/${policy.name}`);
  return false;
}

/** Counts the current request in. @param leave called should it end before `endWaiting` */
export function beginWaiting(leave: Leave | undefined): void {
  waiters[requestAddress()] = { life: currentLife(), leave };
  waiting += 1;
}

export function endWaiting(): void {
  forget(requestAddress());
}

/** For a leaky-bucket: the request goes on when its turn comes. Only it waits. */
export function waitUs(us: number): void {
  beginWaiting(undefined);
  sleepAtLeastUs(us);
  endWaiting();
}

/** In the log phase, for a request that ended while it waited. */
export function leaveWaiting(): void {
  if (waiting > 0) giveUp(requestAddress());
}

/**
 * What a request is told whom a leaky-bucket would have had wait: to come back when it would have gone on.
 *
 * @param verdict allows, and says how long it would have waited; it refuses afterwards
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

function forgetIfEnded(request: string): void {
  const life = waiters[request]?.life;
  if (life === undefined || !hasEnded(life)) return;
  reportMissingLog();
  giveUp(request);
}

function giveUp(request: string): void {
  const leave = waiters[request]?.leave;
  forget(request);
  if (leave !== undefined) leave(request);
}

function forget(request: string): void {
  if (waiters[request] === undefined) return;
  waiters[request] = undefined;
  waiting -= 1;
}

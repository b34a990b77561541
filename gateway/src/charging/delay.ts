// Requests that wait for units (onLimit: delay). Each worker has a queue for each counter: the first request sleeps until the
// limit has units again and is then decided anew. The others sleep until it is their turn, and a request that arrives while
// others wait is decided after them. So nobody is overtaken, and a long queue causes no more decisions than a short one. Only the
// requests wait: the worker serves others meanwhile.
//
// A request leaves its queue when it ends at the latest: nginx ends the request of a client that has gone.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import {
  clearMerged,
  type MergedDecision,
  mergeAll,
  newMergedDecision,
} from "../../../limiter/src/compiled/merged-decision.ts";
import type { Delay } from "../../../limiter/src/document/on-limit.ts";
import { countDecision } from "../metrics/counts.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { nowMs, sleepMs } from "../runtime/clock.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import type { Outcome } from "../stores/store.ts";
import { beginWaiting, endWaiting, mayWait } from "./waiting-requests.ts";

/** The pause between decisions if the limit cannot say when it has units again: a concurrency slot may be freed at any moment. */
const decideAgainMs = 10;

interface QueuedRequest {
  readonly queue: Queue;
  readonly turn: Semaphore;
  before: QueuedRequest | undefined;
  behind: QueuedRequest | undefined;
}

/** The requests that wait for one counter of one policy. */
interface Queue {
  readonly policy: string;
  readonly counter: string;
  /** The last decision of the first request. */
  readonly refusal: MergedDecision;
  /** When the first request is decided again. */
  nextAtMs: number;
  length: number;
  first: QueuedRequest | undefined;
  last: QueuedRequest | undefined;
}

/** How many requests wait on this worker, by policy. */
const waitingFor: Record<string, number | undefined> = {};
/** By policy and key values. */
const queues: Record<string, Queue | undefined> = {};
/** When the request ends, the next one has its turn. */
const queuedField = newRequestField<QueuedRequest>(leave);

/**
 * Charges the request, now or when it is its turn. Yields.
 *
 * @param outcome its merged decision is empty; it receives that of the policy, and stays empty if the policy cannot decide
 * @param decide charges the request if it is allowed now, and fills the outcome anew
 * @returns whether it is allowed; false: the wait would be too long, or too many requests wait already, of this policy or of all
 */
export function admitInTurn(
  policy: CompiledPolicy,
  keyValues: string,
  { maxDelayUs, maxWaiting }: Delay,
  outcome: Outcome,
  decide: () => boolean,
): boolean {
  const { merged: own } = outcome;
  const name = policy.counterPrefix;
  const counter = name + keyValues;
  const refusal = queues[counter]?.refusal;
  // A refusal by the policy of a former snapshot is not reported under this policy's name.
  if (refusal?.policy?.limits === policy.limits) {
    mergeAll(own, refusal);
  } else {
    if (decide()) return true;
    if (own.policy === undefined) return false;
  }
  if ((waitingFor[name] ?? 0) >= maxWaiting || !mayWait(policy)) return false;
  const queue = queues[counter] ?? beginQueue(name, counter, own);
  const untilMs = nowMs() + maxDelayUs / 1000;
  const turnAtMs = math.max(queue.nextAtMs, nowMs()) + queue.length * slowestMs(policy);
  if (own.decision.retryAfterUs === never || turnAtMs > untilMs) {
    if (queue.length === 0) queues[counter] = undefined;
    return false;
  }
  beginWaiting();
  const beganMs = nowMs();
  const queued = enter(queue);
  keepForRequest(queuedField, queued);
  const allowed = waitIn(queued, own, untilMs, decide);
  endWaiting();
  outcome.waitedUs = (nowMs() - beganMs) * 1000;
  takeFromRequest(queuedField);
  leave(queued);
  if (allowed) countDecision(policy, "delayed", undefined);
  return allowed;
}

function waitIn(queued: QueuedRequest, own: MergedDecision, untilMs: number, decide: () => boolean): boolean {
  const { queue, turn } = queued;
  if (queue.first === queued) {
    sleepMs(queue.nextAtMs - nowMs());
  } else {
    turn.wait((untilMs - nowMs()) / 1000);
    if (queue.first !== queued) return false;
  }
  while (!decide()) {
    if (own.policy === undefined) return false;
    noteRefusal(queue, own);
    if (own.decision.retryAfterUs === never || queue.nextAtMs > untilMs) return false;
    sleepMs(queue.nextAtMs - nowMs());
  }
  return true;
}

function beginQueue(policy: string, counter: string, own: MergedDecision): Queue {
  const queue: Queue = {
    policy,
    counter,
    refusal: newMergedDecision(),
    nextAtMs: 0,
    length: 0,
    first: undefined,
    last: undefined,
  };
  noteRefusal(queue, own);
  queues[counter] = queue;
  return queue;
}

/** Rounds up to whole ms, because nginx's clock has no parts of one. */
function noteRefusal(queue: Queue, own: MergedDecision): void {
  const { retryAfterUs } = own.decision;
  clearMerged(queue.refusal);
  mergeAll(queue.refusal, own);
  queue.nextAtMs = nowMs() + (retryAfterUs > 0 ? math.ceil(retryAfterUs / 1000) : decideAgainMs);
}

function enter(queue: Queue): QueuedRequest {
  const queued: QueuedRequest = { queue, turn: semaphoreLibrary.new(0), before: queue.last, behind: undefined };
  if (queue.last === undefined) queue.first = queued;
  else queue.last.behind = queued;
  queue.last = queued;
  queue.length += 1;
  waitingFor[queue.policy] = (waitingFor[queue.policy] ?? 0) + 1;
  return queued;
}

function leave(this: void, queued: QueuedRequest): void {
  const { queue, before, behind } = queued;
  if (behind === undefined) queue.last = before;
  else behind.before = before;
  if (before === undefined) queue.first = behind;
  else before.behind = behind;
  // The request that had its turn leaves, so it is the next one's turn.
  if (before === undefined && behind !== undefined) behind.turn.post(1);
  queue.length -= 1;
  // An entry without waiting requests is removed, so that nothing is kept of keys that are gone.
  if (queue.length === 0) queues[queue.counter] = undefined;
  const others = (waitingFor[queue.policy] as number) - 1;
  waitingFor[queue.policy] = others > 0 ? others : undefined;
}

/**
 * How long the slowest limit of the policy needs to refill the units of one request, in ms. For concurrency slots, this is not
 * known.
 */
function slowestMs({ policy, limits }: CompiledPolicy): number {
  let ms = 0;
  for (const { rate } of limits) {
    if (rate.algorithm === "concurrency") continue;
    ms = math.max(ms, (policy.cost * rate.windowUs) / rate.quota / 1000);
  }
  return ms;
}

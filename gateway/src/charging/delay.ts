// Requests that wait for units (onLimit: delay). Each worker has a queue for each key and its limits, so that requests of another plan, or from
// before an edit of the limits, have another queue. The first request of a queue sleeps until the limit has units again and is then decided anew.
// The other requests of the queue sleep until it is their turn, and a request that arrives while they wait is decided after them. So nobody is
// overtaken, and a long queue causes no more decisions than a short one. Only the requests wait: the worker serves others meanwhile. The queues of several workers go by the order of arrival (line-of-workers.ts).
//
// A request leaves its queue when it ends at the latest: nginx ends the request of a client that has gone. All times here are by the stopwatch:
// requests wait for no longer when the machine's clock steps back.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import { capacity, type Rate } from "../../../limiter/src/algorithms/rate.ts";
import { type CompiledPolicy, isEverHeld } from "../../../limiter/src/compiled/compile.ts";
import {
  clearMerged,
  type MergedDecision,
  mergeAll,
  newMergedDecision,
} from "../../../limiter/src/compiled/merged-decision.ts";
import type { Delay } from "../../../limiter/src/document/on-limit.ts";
import { countDecision } from "../metrics/counts.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { type AppPlaces, leavePlace, newPlaces, takePlace } from "../runtime/app-places.ts";
import { sleepMs } from "../runtime/clock.ts";
import { semaphoreLibrary } from "../runtime/lua-modules.ts";
import { stopwatchMs } from "../runtime/stopwatch.ts";
import { weakTable } from "../runtime/tables.ts";
import type { Outcome } from "../stores/store.ts";
import {
  arrival,
  awaitTurn,
  hasOtherWorkers,
  isOthersTurn,
  othersWait,
  passTurnOn,
  sayAgainMs,
  sayFirst,
  sayNone,
} from "./line-of-workers.ts";
import { beginWaiting, endWaiting, mayWait, refuseUnasked } from "./waiting-requests.ts";

/**
 * The pause between decisions if the limit cannot say when it has units again: a concurrency slot may be freed at any moment. It grows with the
 * number of queues of its app and of its policy.
 */
const decideAgainMs = 10;
/** The longest pause: units come back earlier than the limit said if the request that took them is refused by another policy. It grows alike. */
const longestPauseMs = 100;
/** What a request hears that waits behind others, and has not been decided when its time is over. */
const unaskedRetryUs = 1_000;

interface QueuedRequest {
  readonly queue: Queue;
  readonly turn: Semaphore;
  readonly cost: number;
  /** When it came, in µs. */
  readonly arrivedUs: number;
  before: QueuedRequest | undefined;
  behind: QueuedRequest | undefined;
}

/** The requests that wait for the counters of one key, under the same limits. */
interface Queue {
  readonly name: string;
  readonly app: string;
  /** Its prefix. */
  readonly policy: string;
  /** The last decision of the first request. */
  readonly refusal: MergedDecision;
  /** Whether the limits have decided it. Otherwise it has only been behind those of other workers. */
  isDecided: boolean;
  /** When the first request is decided again. */
  nextAtMs: number;
  length: number;
  /** What all of them cost together. */
  cost: number;
  first: QueuedRequest | undefined;
  last: QueuedRequest | undefined;
}

const limitsNames = weakTable<CompiledPolicy, string>();
/** By policy, key values and limits. */
const queues: Record<string, Queue | undefined> = {};
/** How many there are, by their apps and by their policies. */
const [linesOfApps, linesOfPolicies] = [newPlaces(), newPlaces()];
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
  { maxDelayUs, maxWaiting, caller }: Pick<Delay, "maxDelayUs" | "maxWaiting"> & { readonly caller?: string },
  outcome: Outcome,
  decide: () => boolean,
): boolean {
  const { merged: own } = outcome;
  const name = queueName(policy, keyValues);
  const known = queues[name];
  const isBehind = known !== undefined || othersWait(name);
  // A cost that no limit ever holds is refused at once, even behind others.
  const isDecided = !isBehind || !isEverHeld(policy);
  if (isDecided) {
    if (decide()) return true;
    if (own.policy === undefined) return false;
  } else if (known !== undefined) {
    mergeAll(own, known.refusal);
    own.policy = policy;
  } else {
    // Those before have not been refused here.
    refuseUnasked(own, policy, unaskedRetryUs);
  }
  if (!mayWait(policy, maxWaiting, caller)) return false;
  let queue = queues[name];
  if (queue === undefined) {
    queue = beginQueue(name, policy, own, isDecided);
    // It is decided as soon as those of other workers have had their turns.
    if (isBehind) queue.nextAtMs = stopwatchMs();
  }
  const untilMs = stopwatchMs() + maxDelayUs / 1000;
  if (own.decision.retryAfterUs === never || turnAtMs(queue, policy, own) > untilMs) {
    if (queue.length === 0) endQueue(queue);
    return false;
  }
  beginWaiting(policy, outcome.charges, caller);
  const beganMs = stopwatchMs();
  const queued = enter(queue, policy.policy.cost);
  keepForRequest(queuedField, queued);
  const allowed = waitIn(queued, own, untilMs, decide);
  endWaiting();
  outcome.waitedUs = (stopwatchMs() - beganMs) * 1000;
  takeFromRequest(queuedField);
  leave(queued);
  if (allowed) countDecision(policy, "delayed", undefined);
  return allowed;
}

function waitIn(queued: QueuedRequest, own: MergedDecision, untilMs: number, decide: () => boolean): boolean {
  const { queue, turn } = queued;
  if (queue.first === queued) {
    sleepAsFirst(queued);
  } else {
    turn.wait(math.max(untilMs - stopwatchMs(), 0) / 1000);
    if (queue.first !== queued) return false;
  }
  for (;;) {
    if (!awaitOtherWorkers(queued, untilMs)) return false;
    const { nextAtMs } = queue;
    const isEarly = stopwatchMs() < nextAtMs;
    if (decide()) return true;
    if (own.policy === undefined) return false;
    noteRefusal(queue, own);
    queue.isDecided = true;
    // The limit rounds its time anew at each decision, so the time that it named before stays good.
    if (isEarly) queue.nextAtMs = math.min(queue.nextAtMs, nextAtMs);
    if (own.decision.retryAfterUs === never || queue.nextAtMs > untilMs) return false;
    sleepAsFirst(queued);
  }
}

/** Other workers know all the time that this request waits. */
function sleepAsFirst({ queue, arrivedUs }: QueuedRequest): void {
  const atMs = math.min(queue.nextAtMs, stopwatchMs() + math.max(longestPauseMs, fairPauseMs(queue)));
  for (;;) {
    sayFirst(queue.name, arrivedUs);
    const leftMs = atMs - stopwatchMs();
    sleepMs(hasOtherWorkers() ? math.min(leftMs, sayAgainMs) : leftMs);
    if (stopwatchMs() >= atMs) return;
  }
}

/** @returns false: those of other workers that came before did not have their turns in time */
function awaitOtherWorkers({ queue, turn, arrivedUs }: QueuedRequest, untilMs: number): boolean {
  if (!hasOtherWorkers()) return true;
  let sayAtMs = 0;
  for (;;) {
    if (stopwatchMs() >= sayAtMs) {
      sayFirst(queue.name, arrivedUs);
      sayAtMs = stopwatchMs() + sayAgainMs;
    }
    if (!isOthersTurn(queue.name, arrivedUs)) return true;
    const nowMs = stopwatchMs();
    if (nowMs > untilMs) return false;
    // Others forget in time what is not said again, and nobody waits for longer than it may.
    awaitTurn(queue.name, arrivedUs, turn, math.min(sayAtMs - nowMs, untilMs - nowMs + 1));
  }
}

/**
 * Names the limits, too, with what they allow: whoever has others would wait for units that it does not need. The values come last, because
 * clients write them.
 */
function queueName(policy: CompiledPolicy, keyValues: string): string {
  return `${policy.counterPrefix}${limitsName(policy)}:${keyValues}`;
}

/** Short, whatever the limits are called: it lies in shared memory. */
function limitsName(policy: CompiledPolicy): string {
  const known = limitsNames.get(policy);
  if (known !== undefined) return known;
  let text = "";
  for (const { counterSuffix, rate } of policy.limits) text += `${counterSuffix}:${rate.quota}:${capacity(rate)}`;
  const name = ngx.md5(text);
  limitsNames.set(policy, name);
  return name;
}

function beginQueue(
  name: string,
  { app, counterPrefix: policy }: CompiledPolicy,
  own: MergedDecision,
  isDecided: boolean,
): Queue {
  const queue: Queue = {
    name,
    app,
    policy,
    isDecided,
    refusal: newMergedDecision(),
    nextAtMs: 0,
    length: 0,
    cost: 0,
    first: undefined,
    last: undefined,
  };
  takePlace(linesOfApps, app);
  takePlace(linesOfPolicies, policy);
  noteRefusal(queue, own);
  queues[name] = queue;
  return queue;
}

/**
 * Returns the pause with which all lines together are decided at most two times in a millisecond. Apps have equal shares, and so have policies: the
 * lines of others hardly slow a line down.
 */
function fairPauseMs({ app, policy }: Queue): number {
  return math.min(linesBeside(linesOfApps, app), linesBeside(linesOfPolicies, policy));
}

function linesBeside({ ofApps, apps }: AppPlaces, name: string): number {
  return (ofApps[name] as number) * apps;
}

/** Rounds up to whole ms, because nginx's timers have no parts of one. */
function noteRefusal(queue: Queue, own: MergedDecision): void {
  const { retryAfterUs } = own.decision;
  clearMerged(queue.refusal);
  mergeAll(queue.refusal, own);
  queue.nextAtMs =
    stopwatchMs() + (retryAfterUs > 0 ? math.ceil(retryAfterUs / 1000) : math.max(decideAgainMs, fairPauseMs(queue)));
}

/** Nothing is kept of keys that are gone. */
function endQueue(queue: Queue): void {
  if (queues[queue.name] !== queue) return;
  queues[queue.name] = undefined;
  leavePlace(linesOfApps, queue.app);
  leavePlace(linesOfPolicies, queue.policy);
  sayNone(queue.name);
  passTurnOn(queue.name);
}

function enter(queue: Queue, cost: number): QueuedRequest {
  const turn = semaphoreLibrary.new(0);
  const queued: QueuedRequest = { queue, turn, cost, arrivedUs: arrival(), before: queue.last, behind: undefined };
  if (queue.last === undefined) queue.first = queued;
  else queue.last.behind = queued;
  queue.last = queued;
  queue.length += 1;
  queue.cost += cost;
  return queued;
}

function leave(this: void, queued: QueuedRequest): void {
  const { queue, before, behind } = queued;
  if (behind === undefined) queue.last = before;
  else behind.before = before;
  if (before === undefined) queue.first = behind;
  else before.behind = behind;
  // The request that had its turn leaves, so it is the next one's turn.
  if (before === undefined && behind !== undefined) {
    sayFirst(queue.name, behind.arrivedUs);
    passTurnOn(queue.name, behind.arrivedUs);
    behind.turn.post(1);
  }
  queue.length -= 1;
  queue.cost -= queued.cost;
  if (queue.length === 0) endQueue(queue);
}

/**
 * Returns when it will be the newcomer's turn, as far as that is known: when the first is decided again, and after that the buckets that refused
 * have refilled for all others before it.
 */
function turnAtMs(
  { nextAtMs, first, cost, isDecided }: Queue,
  { policy, limits }: CompiledPolicy,
  { violated }: MergedDecision,
): number {
  const atMs = math.max(nextAtMs, stopwatchMs());
  // It is not known yet which limit refuses those before.
  if (first === undefined || !isDecided) return atMs;
  let unitMs = 0;
  for (const { name, rate } of limits) {
    if (!refills(rate) || !violated.includes(name)) continue;
    unitMs = math.max(unitMs, rate.windowUs / rate.quota / 1000);
  }
  return atMs + (cost - first.cost + policy.cost) * unitMs;
}

/** Windows have all of their units again at once, and slots at any moment. */
function refills({ algorithm }: Rate): boolean {
  return algorithm === "token-bucket" || algorithm === "shaped-bucket" || algorithm === "leaky-bucket";
}

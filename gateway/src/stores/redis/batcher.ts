// Group commit: the checks that many requests submit at the same time go to Redis together. While one light thread of the worker
// waits for replies, requests add their checks to the batch that it sends next; nothing waits for a batch to fill. A request that
// comes while no other request waits calls Redis itself. If Redis is slow, a few batches are in flight at a time: a request waits
// for at most one reply, and not also for the one before its own.
//
// A request waits as long as Redis answers anything. Once Redis has been silent for a whole deadline, all waiting requests are
// released and decided without it. The reply is still read, because it shows what was charged.
//
// With Redis Cluster there is a batch queue for each node. No script may be given keys of several slots, so a batch has a call for each
// slot, and all of them go in one round trip. A slot that moves has a queue of its own, and so has one whose node is unknown or known to be away:
// what waits for that slot delays no other.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import { countBatch, countLate } from "../../metrics/redis-calls.ts";
import type { RedisServer } from "../../redis/connection.ts";
import {
  endWatch,
  keepTicking,
  longestWaitMs,
  mostLimits,
  newPatience,
  type Patience,
  patienceSeconds,
  watchedPatience,
} from "../../redis/patience.ts";
import { type Call, callAtNode, callScript, callScripts, noteSilentServer } from "../../redis/script-call.ts";
import { oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { knownServerOfSlot } from "../../redis/slot-map.ts";
import { keepForRequest, newRequestField, ofRequest, takeFromRequest } from "../../request/request-state.ts";
import { inOneTimer, runSoon } from "../../runtime/background.ts";
import { nowMs } from "../../runtime/clock.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { semaphoreLibrary } from "../../runtime/lua-modules.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../../runtime/stopwatch.ts";
import { weakTable } from "../../runtime/tables.ts";
import type { RedisSettings } from "../../settings.ts";
import { stayCharged } from "../store.ts";
import { numbersPerCounter, type PendingCheck, type PendingCounter, takeReply, unpacked } from "./pending-check.ts";
import { pushNumbers } from "./script-arguments.ts";

/** Counters of one limit and one group at one cost, which one script charges one after the other. */
interface SharedCall {
  readonly group: number;
  readonly cost: number;
  readonly script: Script;
  /** The same for all: quota, window, size, cost. */
  readonly numbers: readonly string[];
  readonly keys: string[];
  readonly pendingChecks: PendingCheck[];
}

interface Batch {
  readonly ready: Semaphore;
  readonly sharedCalls: SharedCall[];
  /** By group: the calls that are being filled with counters of a limit. */
  readonly callsOfGroup: Record<number, LuaTable<CompiledLimit, SharedCall> | undefined>;
  /** Checks that have a call of their own. */
  readonly callers: PendingCheck[];
  counters: number;
  waiting: number;
  /** Undefined until it is sent. */
  patience: Patience | undefined;
  /** No request waits for it any more, though its reply is still read. */
  released: boolean;
}

/** Processes checks whose requests did not wait: refunds what was charged in vain. Yields. */
type Reconcile = (this: void, settings: RedisSettings, pendingChecks: readonly PendingCheck[]) => void;

export interface BatchQueue {
  readonly settings: RedisSettings;
  /** Whether it has the slots of a node, and not one group. */
  readonly isOfNode: boolean;
  readonly reconcile: Reconcile;
  /** Batches that wait to be sent, in this order; requests join the last. */
  batches: Batch[];
  /** Whether the queue's thread lives. */
  running: boolean;
  idle: boolean;
  readonly work: Semaphore;
  /** Additional threads, which live as long as there is something to send. */
  beside: number;
  /** Whether one of them has not started yet. */
  coming: boolean;
  /** Requests that are calling Redis themselves, and when the last of them began. */
  direct: number;
  directAtMs: number;
}

/** Redis does nothing else while it executes a batch, which takes about a millisecond. */
const mostCountersPerBatch = 256;
/** For each queue. Redis does not decide checks beyond this. */
const mostBatchesWaiting = 32;
/** Each thread is a running timer, of which nginx allows 256 by default. */
const mostThreads = 64;
const lingerSeconds = 0.05;
/** A batch that has not been sent after this time is sent by an additional thread. */
const besideAfterSeconds = 0.005;
const mostBeside = 3;
const shortestWaitSeconds = 0.001;
const silent = "no reply within the deadline";
const tooMany = "too many requests wait for Redis";
/** nginx frees what a thread's connections allocated only when the thread ends. */
const mostFlushesPerThread = 10_000;

/** By group. */
const queues: Record<number, BatchQueue | undefined> = {};
/** By node of a Redis Cluster. */
const queuesOfNodes = weakTable<RedisServer, BatchQueue>();
let threads = 0;
/** In all batches of all queues. A request that is gone counts until its batch ends. */
let waiting = 0;

/** How many requests of this worker wait for Redis in batches, sent and not yet sent. */
export function waitingRequests(): number {
  return waiting;
}

/** @param group of the counters */
export function queueOf(settings: RedisSettings, group: number, reconcile: Reconcile): BatchQueue {
  const node = settings.deployment.kind === "cluster" ? knownServerOfSlot(group) : undefined;
  if (node === undefined || node.breaker.open) return queueOfGroup(settings, group, reconcile);
  const queue = queuesOfNodes.get(node) ?? newQueue(settings, reconcile, true);
  queuesOfNodes.set(node, queue);
  return queue;
}

function queueOfGroup(settings: RedisSettings, group: number, reconcile: Reconcile): BatchQueue {
  const queue = queues[group] ?? newQueue(settings, reconcile, false);
  queues[group] = queue;
  return queue;
}

function newQueue(settings: RedisSettings, reconcile: Reconcile, isOfNode: boolean): BatchQueue {
  return {
    settings,
    isOfNode,
    reconcile,
    batches: [],
    running: false,
    idle: false,
    work: semaphoreLibrary.new(0),
    beside: 0,
    coming: false,
    direct: 0,
    directAtMs: 0,
  };
}

/**
 * Sends a check, and waits for the reply: by a call of the request's own while no other request calls Redis, else in a batch. Yields. The
 * check has its numbers afterwards, or what failed.
 */
export function submitTo(queue: BatchQueue, pending: PendingCheck): undefined {
  if (mayCallDirectly(queue, pending.inQueue)) {
    return callDirectly(queue, pending);
  }
  if (pending.mustKeep) keepPending(queue, pending);
  submitInBatch(queue, pending);
  if (pending.mustKeep) forgetPending(pending);
}

function submitInBatch(queue: BatchQueue, pending: PendingCheck): undefined {
  const beganAtSeconds = patienceSeconds();
  const batch = openBatch(queue, pending.call?.keyCount ?? 1);
  if (batch === undefined) {
    pending.failure = tooMany;
    pending.lost = false;
  } else {
    join(batch, pending);
    awaitReply(queue, batch, pending);
    if (pending.isElsewhere && !pending.abandoned) submitElsewhere(queue, pending, beganAtSeconds);
  }
}

function submitElsewhere(
  { settings, reconcile }: BatchQueue,
  pending: PendingCheck,
  beganAtSeconds: number,
): undefined {
  pending.isElsewhere = false;
  pending.lost = undefined;
  pending.limitMs = math.max(pending.limitMs - (patienceSeconds() - beganAtSeconds) * 1000, 1);
  const queue = queueOfGroup(settings, pending.group, reconcile);
  if (mayCallDirectly(queue, pending.inQueue)) return callDirectly(queue, pending);
  return submitInBatch(queue, pending);
}

/** @param inQueue the queue's thread has to read the reply, if a thread can be had */
function mayCallDirectly(queue: BatchQueue, inQueue: boolean): boolean {
  if (queue.running || (inQueue && startThread(queue))) return false;
  const now = nowMs();
  // A request whose client went away during its call never ended it. If the clock steps, a call more goes beside it.
  if (queue.direct > 0 && math.abs(now - queue.directAtMs) > 2 * longestWaitMs(queue.settings.deadlineMs))
    queue.direct = 0;
  if (queue.direct > 0 && startThread(queue)) return false;
  queue.direct += 1;
  queue.directAtMs = now;
  return true;
}

function callDirectly(queue: BatchQueue, pending: PendingCheck): undefined {
  const { settings } = queue;
  const patience = newPatience(settings.deadlineMs, pending.limitMs);
  const call = pending.call ?? callFor(pending.counter as PendingCounter);
  const { script, keyCount, keysAndArgs } = call;
  const [reply, failure, mayHaveRun] = callScript(settings, script, keyCount, keysAndArgs, patience);
  pending.failure = failure;
  if (reply !== undefined) takeReply(pending, reply, call);
  if (pending.numbers === undefined) pending.lost = reply !== undefined || mayHaveRun;
  if (queue.direct > 0) queue.direct -= 1;
}

function callFor({ key, limit, cost, script }: PendingCounter): Call {
  const keysAndArgs = [key];
  pushNumbers(keysAndArgs, limit, cost);
  return { script, keyCount: 1, keysAndArgs, reply: undefined, failure: undefined };
}

function join(batch: Batch, pending: PendingCheck): void {
  const { counter } = pending;
  if (counter === undefined) {
    batch.callers.push(pending);
    return;
  }
  const { limit, cost, script } = counter;
  const { group } = pending;
  const callOfLimit = batch.callsOfGroup[group] ?? new LuaTable<CompiledLimit, SharedCall>();
  batch.callsOfGroup[group] = callOfLimit;
  let shared = callOfLimit.get(limit);
  if (shared === undefined || shared.cost !== cost) {
    const numbers: string[] = [];
    pushNumbers(numbers, limit, cost);
    shared = { group, cost, script, numbers, keys: [], pendingChecks: [] };
    callOfLimit.set(limit, shared);
    batch.sharedCalls.push(shared);
  }
  shared.keys.push(counter.key);
  shared.pendingChecks.push(pending);
}

/** Returns the batch that is sent next and still has room. */
function openBatch(queue: BatchQueue, counters: number): Batch | undefined {
  const { batches } = queue;
  let batch = batches[batches.length - 1];
  if (batch === undefined || batch.counters + counters > mostCountersPerBatch) {
    if (batches.length >= mostBatchesWaiting) {
      countLate();
      return undefined;
    }
    batch = {
      ready: semaphoreLibrary.new(0),
      sharedCalls: [],
      callsOfGroup: {},
      callers: [],
      counters: 0,
      waiting: 0,
      patience: undefined,
      released: false,
    };
    batches.push(batch);
  }
  batch.counters += counters;
  return batch;
}

function awaitReply(queue: BatchQueue, batch: Batch, pending: PendingCheck): void {
  batch.waiting += 1;
  waiting += 1;
  if (queue.idle) {
    queue.idle = false;
    queue.work.post(1);
  }
  const limitSeconds = pending.limitMs / 1000;
  const firstSeconds = math.min(besideAfterSeconds, limitSeconds);
  const [ready] = batch.ready.wait(firstSeconds);
  if (!ready) awaitLateReply(queue, batch, pending, limitSeconds - firstSeconds);
}

function awaitLateReply(queue: BatchQueue, batch: Batch, pending: PendingCheck, limitSeconds: number): void {
  sendBeside(queue);
  const beganAtSeconds = patienceSeconds();
  const endsAtSeconds = stopwatchSeconds() + limitSeconds * mostLimits;
  let leftSeconds = limitSeconds;
  while (leftSeconds > 0) {
    keepTicking(leftSeconds);
    // For less than a ms nginx does not wait at all: the patience clock would stand still, and this loop spin.
    const [ready] = batch.ready.wait(math.max(leftSeconds, shortestWaitSeconds));
    // A reply that came at the same moment counts.
    if (ready || pending.numbers !== undefined || pending.failure !== undefined || pending.isElsewhere) return;
    leftSeconds = limitSeconds - (patienceSeconds() - beganAtSeconds);
    if (stopwatchSeconds() >= endsAtSeconds) break;
  }
  giveUp(pending);
}

function giveUp(pending: PendingCheck): void {
  pending.abandoned = true;
  pending.failure = silent;
  countLate();
}

interface Kept {
  readonly queue: BatchQueue;
  readonly pending: PendingCheck;
}

/** The checks that a request has submitted and must not lose, in the order of submission. */
const pendingField = newRequestField<Kept[]>((kept) => {
  for (const { queue, pending } of kept) {
    // The queue's thread refunds checks that have no reply yet.
    if (pending.numbers === undefined) pending.abandoned = true;
    else reconcileSoon(queue, [pending]);
  }
});

/** For a check that must not be lost with its request: if the client goes away during the wait, its charge is refunded. */
export function keepPending(queue: BatchQueue, pending: PendingCheck): void {
  const kept = ofRequest(pendingField);
  if (kept === undefined) keepForRequest(pendingField, [{ queue, pending }]);
  else kept.push({ queue, pending });
}

/** The request's threads have their replies in any order. */
export function forgetPending(pending: PendingCheck): void {
  const kept = ofRequest(pendingField) as Kept[];
  const last = kept.pop() as Kept;
  const place = last.pending === pending ? -1 : kept.findIndex((each) => each.pending === pending);
  if (place >= 0) kept[place] = last;
  if (kept.length === 0) takeFromRequest(pendingField);
}

/** Runs in a thread of its own, so that no request that waits for Redis waits for this. */
export function reconcileSoon(queue: BatchQueue, pendingChecks: readonly PendingCheck[]): void {
  for (const pending of pendingChecks) pending.abandoned = true;
  lastQueue = queue;
  const failure = reconcileTogether(pendingChecks);
  if (failure !== undefined) warnSparingly(stayCharged, failure);
}

/** All queues reconcile in the same way. */
let lastQueue: BatchQueue;

const reconcileTogether = inOneTimer<PendingCheck>((pendingChecks) => {
  lastQueue.reconcile(lastQueue.settings, pendingChecks);
});

function startThread(queue: BatchQueue): boolean {
  if (threads >= mostThreads) return false;
  const failure = runSoon(() => serve(queue));
  if (failure !== undefined) {
    warnSparingly("requests call Redis one by one, because a thread for batches could not start", failure);
    return false;
  }
  threads += 1;
  queue.running = true;
  return true;
}

/** The thread of a queue. It ends when nothing has been submitted for a while. */
function serve(queue: BatchQueue): void {
  for (let flushes = 0; flushes < mostFlushesPerThread; flushes++) {
    if (queue.batches.length === 0) {
      queue.idle = true;
      queue.work.wait(lingerSeconds);
      queue.idle = false;
      if (queue.batches.length === 0) break;
    }
    if (!sendNext(queue, false)) return;
  }
  threads -= 1;
  queue.running = false;
  if (queue.batches.length > 0) startThread(queue);
}

/** Sends waiting batches although replies to earlier batches are still outstanding. */
function sendBeside(queue: BatchQueue): void {
  if (queue.batches.length === 0 || queue.coming || queue.beside >= mostBeside || threads >= mostThreads) return;
  if (runSoon(() => serveBeside(queue)) !== undefined) return;
  queue.coming = true;
  queue.beside += 1;
  threads += 1;
}

function serveBeside(queue: BatchQueue): void {
  queue.coming = false;
  for (let flushes = 0; flushes < mostFlushesPerThread && queue.batches.length > 0; flushes++) {
    if (!sendNext(queue, true)) return;
  }
  threads -= 1;
  queue.beside -= 1;
}

/** @returns false: the queue went on without this thread, because Redis was silent for so long */
function sendNext(queue: BatchQueue, beside: boolean): boolean {
  const batch = queue.batches.shift() as Batch;
  const { settings } = queue;
  const patience = watchedPatience(settings.deadlineMs, () => release(queue, batch, beside));
  batch.patience = patience;
  const [flushed, failure] = pcall(flush, queue, batch, patience);
  endWatch(patience);
  if (!flushed) noteDefect("redis", "a defect in Sluice left a batch of requests undecided by Redis", failure);
  // Before a request with a reply goes on: it may reuse its pending check for another one.
  const abandoned = abandonedOf(batch, flushed);
  if (batch.released) threads -= 1;
  else wakeAll(batch);
  if (abandoned.length > 0) reconcileSoon(queue, abandoned);
  return !batch.released;
}

/** Called when Redis has been silent for a whole deadline. */
function release(queue: BatchQueue, batch: Batch, beside: boolean): void {
  noteSilentServer(queue.settings, batch.patience as Patience);
  batch.released = true;
  for (const { pendingChecks } of batch.sharedCalls) giveUpAll(pendingChecks);
  giveUpAll(batch.callers);
  wakeAll(batch);
  if (beside) {
    queue.beside -= 1;
    return;
  }
  queue.running = false;
  if (queue.batches.length > 0) startThread(queue);
}

function wakeAll(batch: Batch): void {
  waiting -= batch.waiting;
  batch.ready.post(batch.waiting);
}

function giveUpAll(pendingChecks: readonly PendingCheck[]): void {
  for (const pending of pendingChecks) {
    if (pending.numbers === undefined && !pending.abandoned) giveUp(pending);
  }
}

function flush({ settings, isOfNode }: BatchQueue, batch: Batch, patience: Patience): void {
  const calls: Call[] = [];
  let counters = 0;
  for (const shared of batch.sharedCalls) {
    const keysAndArgs = keysOf(shared);
    const keyCount = keysAndArgs.length;
    if (keyCount === 0) continue;
    counters += keyCount;
    for (const number of shared.numbers) keysAndArgs.push(number);
    const { group, script } = shared;
    calls.push({ group, script, keyCount, keysAndArgs, reply: undefined, failure: undefined });
  }
  const sharedCalls = calls.length;
  for (const pending of batch.callers) {
    if (pending.abandoned) continue;
    const call = pending.call as Call;
    counters += call.keyCount;
    calls.push(call);
  }
  if (calls.length === 0) return;
  countBatch(counters);
  if (isOfNode) callAtNode(settings, calls, patience);
  else callScripts(settings, calls, patience);
  let next = 0;
  for (const shared of batch.sharedCalls) {
    if (next >= sharedCalls) break;
    if (takeReplies(shared, calls[next] as Call)) next += 1;
  }
  for (const pending of batch.callers) {
    const call = pending.call as Call;
    const { reply, failure, mayHaveRun } = call;
    pending.isElsewhere = isElsewhere(call);
    if (reply !== undefined) takeReply(pending, reply, call);
    if (pending.numbers === undefined) pending.lost = reply !== undefined || mayHaveRun === true;
    pending.failure ??= failure;
  }
}

/** Returns the keys of the checks whose requests still wait. */
function keysOf({ keys, pendingChecks }: SharedCall): string[] {
  const sent: string[] = [];
  for (let i = 0; i < keys.length; i++) {
    const pending = pendingChecks[i] as PendingCheck;
    if (pending.abandoned) {
      pending.at = -1;
      continue;
    }
    pending.at = sent.length * numbersPerCounter;
    sent.push(keys[i] as string);
  }
  return sent;
}

/** Returns whether it was certainly not executed, and nobody has followed it. */
function isElsewhere({ reply, failure }: Call): boolean {
  return reply === undefined && failure === undefined;
}

/** @returns false if none of these checks was sent */
function takeReplies({ pendingChecks }: SharedCall, call: Call): boolean {
  const { keyCount, reply, failure, mayHaveRun } = call;
  let sent = false;
  const numbers = unpacked(reply, keyCount);
  const failed = failure ?? oddReply;
  for (const pending of pendingChecks) {
    if (pending.at < 0) continue;
    sent = true;
    pending.numbers = numbers;
    pending.isElsewhere = isElsewhere(call);
    if (numbers !== undefined || pending.isElsewhere) continue;
    pending.failure ??= failed;
    pending.lost = reply !== undefined || mayHaveRun === true;
  }
  return sent;
}

/** Returns the checks whose requests gave up. @param flushed whether the result of every call that was sent is known */
function abandonedOf({ sharedCalls, callers }: Batch, flushed: boolean): PendingCheck[] {
  const abandoned: PendingCheck[] = [];
  for (const { pendingChecks } of sharedCalls) addAbandoned(abandoned, pendingChecks, flushed);
  addAbandoned(abandoned, callers, flushed);
  return abandoned;
}

function addAbandoned(abandoned: PendingCheck[], pendingChecks: readonly PendingCheck[], flushed: boolean): void {
  for (const pending of pendingChecks) {
    if (!pending.abandoned) continue;
    if (pending.numbers === undefined) pending.lost ??= !flushed;
    abandoned.push(pending);
  }
}

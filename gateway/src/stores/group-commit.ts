// Group commit: what many requests ask of Redis at the same time goes there together. While one light thread of the worker
// waits for replies, requests put what they ask into the batch that it sends next; nothing waits for a batch to fill. A
// request that comes when nobody else is asking calls Redis itself. Where Redis takes long, a few batches are under way at a
// time: a request waits for one reply at most, not for the one before its own as well.
//
// A request waits as long as Redis answers anybody. Once Redis has been silent for a whole deadline, all who wait are released
// and decided without it. The reply is read all the same: it tells what was charged.
//
// With Redis Cluster there is a lane for each slot, because no script may be given keys of several.

import type { CompiledLimit } from "../../../limiter/src/policy/compile.ts";
import { countBatch, countLate } from "../metrics/redis-calls.ts";
import {
  endWatch,
  keepTicking,
  longestWaitMs,
  mostLimits,
  type Patience,
  patienceSeconds,
  watchedPatience,
} from "../redis/patience.ts";
import { type Call, callScripts, noteSilentServer } from "../redis/script-call.ts";
import { oddReply } from "../redis/script-reply.ts";
import { runSoon } from "../runtime/background.ts";
import { nowMs } from "../runtime/clock.ts";
import { requestAddress, semaphoreLibrary } from "../runtime/lua-modules.ts";
import { ffi } from "../runtime/packed-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import type { Owed } from "./debts.ts";
import type { Check } from "./redis-store.ts";
import { numbersOf } from "./script-arguments.ts";

/** Where the numbers are that a script replied: a table, or packed memory. */
export type Numbers = LuaTable<number, number>;

/** Whether there is a reply for whoever asked: one that came after the asker was released is dealt with by others. */
export function isAnswered({ numbers, abandoned }: Question): boolean {
  return numbers !== undefined && !abandoned;
}

/** What one request asks. */
export interface Question {
  readonly checks: readonly Check[];
  /** Since the epoch. */
  askedAtSeconds: number;
  /** Undefined until there is a reply. */
  numbers: Numbers | undefined;
  /** Where those of this question begin. */
  at: number;
  failure: string | undefined;
  /** Whoever asked does not wait any more. */
  abandoned: boolean;
  /** Without a reply: whether Redis may have run it all the same. Undefined: a reply may still come. */
  lost: boolean | undefined;
  /** The asker went on without the reply, and owes Redis for these policies unless it has charged them. */
  owed: Owed[] | undefined;
  /** What was charged for an asker that did not wait has been dealt with. */
  settled: boolean;
}

export function newQuestion<Checks extends readonly Check[]>(checks: Checks, askedAtSeconds: number) {
  return {
    checks,
    askedAtSeconds,
    numbers: undefined as Numbers | undefined,
    at: 0,
    failure: undefined as string | undefined,
    abandoned: false,
    lost: undefined as boolean | undefined,
    owed: undefined as Owed[] | undefined,
    settled: false,
  };
}

/** Counters of one limit at one cost, which one script charges one after the other. */
interface Run {
  readonly batch: Batch;
  readonly cost: number;
  readonly script: Call["script"];
  /** Of all: quota, window, size, cost. */
  readonly numbers: readonly string[];
  readonly keys: string[];
  readonly questions: Question[];
}

interface Batch {
  readonly ready: Semaphore;
  readonly runs: Run[];
  /** Of questions that no run can take. */
  readonly calls: Call[];
  readonly callers: Question[];
  counters: number;
  waiting: number;
  /** While it is under way. */
  patience: Patience | undefined;
  /** Nobody waits for it any more, though its reply is still read. */
  released: boolean;
}

/** Deals with questions, at most a batch's, that nobody waited for: what was charged in vain goes back. Yields. */
type Reconcile = (this: void, settings: RedisSettings, questions: readonly Question[]) => void;

interface Lane {
  readonly settings: RedisSettings;
  readonly group: number;
  readonly reconcile: Reconcile;
  /** Those that wait to be sent, in this order; requests join the last. */
  batches: Batch[];
  /** Whether the thread lives. */
  running: boolean;
  idle: boolean;
  readonly work: Semaphore;
  /** Threads that live besides, as long as there is something to send. */
  beside: number;
  /** Whether one of them has not begun yet. */
  coming: boolean;
  /** Requests that are calling Redis themselves, and when the last of them began. */
  direct: number;
  directAtMs: number;
}

/** Limits know the run that is being filled with their counters. */
type RunningLimit = CompiledLimit & { run?: Run | undefined };

/** What a script replies of each: see redis-scripts/charge-run.ts. */
export const numbersPerCounter = 6;
const bytesPerNumber = 8;
/** Redis does nothing else meanwhile: about a ms. */
const mostCountersPerBatch = 256;
/** Of a lane. What a request asks beyond is not decided by Redis. */
const mostBatchesWaiting = 32;
/** Each is a running timer, of which nginx allows 256 unless told otherwise. */
const mostThreads = 64;
const lingerSeconds = 0.05;
/** What has not been sent after that is sent by a thread beside the lane's. */
const besideAfterSeconds = 0.005;
const mostBeside = 3;
const silent = "no reply within the deadline";
/** nginx frees what a thread's connections took only when the thread ends. */
const mostFlushesPerThread = 10_000;

const lanes: Record<number, Lane | undefined> = {};
let threads = 0;

export function laneOf(settings: RedisSettings, group: number, reconcile: Reconcile): Lane {
  return lanes[group] ?? newLane(settings, group, reconcile);
}

function newLane(settings: RedisSettings, group: number, reconcile: Reconcile): Lane {
  const lane: Lane = {
    settings,
    group,
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
  lanes[group] = lane;
  return lane;
}

/**
 * Whether the caller is to ask Redis itself: nobody else is asking. It then calls `endDirect` with the reply.
 *
 * @param kept what it is charged must not be lost with its request: the lane's thread hears the reply in any case
 */
export function beginDirect(lane: Lane, kept: boolean): boolean {
  if (lane.running || (kept && startThread(lane))) return false;
  const now = nowMs();
  // A request whose client went away in the middle of its call never ended it.
  if (lane.direct > 0 && now - lane.directAtMs > 2 * longestWaitMs(lane.settings.deadlineMs)) lane.direct = 0;
  if (lane.direct > 0 && startThread(lane)) return false;
  lane.direct += 1;
  lane.directAtMs = now;
  return true;
}

export function endDirect(lane: Lane): void {
  if (lane.direct > 0) lane.direct -= 1;
}

/**
 * Asks about one counter, together with whoever asks about others of the same limit.
 *
 * @param limitMs the longest that the request waits
 * @returns false when too much waits already
 */
export function joinRun(
  lane: Lane,
  limit: CompiledLimit,
  cost: number,
  script: Call["script"],
  key: string,
  question: Question,
  limitMs: number,
): boolean {
  const batch = openBatch(lane, 1);
  if (batch === undefined) return false;
  const running = limit as RunningLimit;
  let run = running.run;
  if (run === undefined || run.batch !== batch || run.cost !== cost) {
    run = { batch, cost, script, numbers: numbersOf(limit, cost), keys: [], questions: [] };
    running.run = run;
    batch.runs.push(run);
  }
  run.keys.push(key);
  run.questions.push(question);
  return awaitReply(lane, batch, question, limitMs);
}

/** The same by a script call of its own, sent together with those of others. @returns false when too much waits already */
export function joinCall(lane: Lane, call: Call, question: Question, limitMs: number): boolean {
  const batch = openBatch(lane, call.keyCount);
  if (batch === undefined) return false;
  batch.calls.push(call);
  batch.callers.push(question);
  return awaitReply(lane, batch, question, limitMs);
}

/** The batch that is sent next and still has room. */
function openBatch(lane: Lane, counters: number): Batch | undefined {
  const { batches } = lane;
  let batch = batches[batches.length - 1];
  if (batch === undefined || batch.counters + counters > mostCountersPerBatch) {
    if (batches.length >= mostBatchesWaiting) {
      countLate();
      return undefined;
    }
    batch = {
      ready: semaphoreLibrary.new(0),
      runs: [],
      calls: [],
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

function awaitReply(lane: Lane, batch: Batch, question: Question, limitMs: number): boolean {
  batch.waiting += 1;
  if (lane.idle) {
    lane.idle = false;
    lane.work.post(1);
  }
  const limitSeconds = limitMs / 1000;
  const firstSeconds = math.min(besideAfterSeconds, limitSeconds);
  const [ready] = batch.ready.wait(firstSeconds);
  if (!ready) awaitLateReply(lane, batch, question, limitSeconds - firstSeconds);
  return true;
}

function awaitLateReply(lane: Lane, batch: Batch, question: Question, limitSeconds: number): void {
  sendBeside(lane);
  const beganAtSeconds = patienceSeconds();
  const endsAtSeconds = stopwatchSeconds() + limitSeconds * mostLimits;
  let leftSeconds = limitSeconds;
  while (leftSeconds > 0) {
    keepTicking(leftSeconds);
    const [ready] = batch.ready.wait(leftSeconds);
    // Where the reply came in the same moment, it counts.
    if (ready || question.numbers !== undefined || question.failure !== undefined) return;
    leftSeconds = limitSeconds - (patienceSeconds() - beganAtSeconds);
    if (stopwatchSeconds() >= endsAtSeconds) break;
  }
  giveUp(question);
}

function giveUp(question: Question): void {
  question.abandoned = true;
  question.failure = silent;
  countLate();
}

interface Kept {
  readonly lane: Lane;
  readonly question: Question;
}

/** By request: what it asked last comes last. */
const asking: Record<string, Kept[] | undefined> = {};
let askingCount = 0;

/** For one that must not be lost with its request: should the client go away while it waits, what it was charged goes back. */
export function keepAsked(lane: Lane, question: Question): void {
  const request = requestAddress();
  const kept = asking[request];
  if (kept !== undefined) {
    kept.push({ lane, question });
    return;
  }
  asking[request] = [{ lane, question }];
  askingCount += 1;
}

/** What the current request asked last. */
export function forgetAsked(): void {
  const request = requestAddress();
  const kept = asking[request] as Kept[];
  kept.pop();
  if (kept.length === 0) forgetRequest(request);
}

function forgetRequest(request: string): void {
  asking[request] = undefined;
  askingCount -= 1;
}

/** In the log phase. */
export function abandonAsked(): void {
  if (askingCount === 0) return;
  const request = requestAddress();
  const kept = asking[request];
  if (kept === undefined) return;
  forgetRequest(request);
  for (const { lane, question } of kept) {
    // The lane's thread gives back what there is no reply to yet.
    if (question.numbers === undefined) question.abandoned = true;
    else reconcileSoon(lane, [question]);
  }
}

/** In a thread of its own: nobody who waits for Redis waits for it. */
export function reconcileSoon({ settings, reconcile }: Lane, questions: readonly Question[]): void {
  for (const question of questions) question.abandoned = true;
  const failure = runSoon(() => reconcile(settings, questions));
  if (failure !== undefined) warnSparingly("units stay charged, and slots until their time to live is over", failure);
}

function startThread(lane: Lane): boolean {
  if (threads >= mostThreads) return false;
  const failure = runSoon(() => serve(lane));
  if (failure !== undefined) {
    warnSparingly("requests ask Redis one by one", failure);
    return false;
  }
  threads += 1;
  lane.running = true;
  return true;
}

/** The thread of a lane. It ends when nobody has asked for a while. */
function serve(lane: Lane): void {
  for (let flushes = 0; flushes < mostFlushesPerThread; flushes++) {
    if (lane.batches.length === 0) {
      lane.idle = true;
      lane.work.wait(lingerSeconds);
      lane.idle = false;
      if (lane.batches.length === 0) break;
    }
    if (!sendNext(lane, false)) return;
  }
  threads -= 1;
  lane.running = false;
  if (lane.batches.length > 0) startThread(lane);
}

/** Sends what waits although replies to what went before are still to come. */
function sendBeside(lane: Lane): void {
  if (lane.batches.length === 0 || lane.coming || lane.beside >= mostBeside || threads >= mostThreads) return;
  if (runSoon(() => serveBeside(lane)) !== undefined) return;
  lane.coming = true;
  lane.beside += 1;
  threads += 1;
}

function serveBeside(lane: Lane): void {
  lane.coming = false;
  for (let flushes = 0; flushes < mostFlushesPerThread && lane.batches.length > 0; flushes++) {
    if (!sendNext(lane, true)) return;
  }
  threads -= 1;
  lane.beside -= 1;
}

/** @returns false: the lane went on without this thread, because Redis was silent for so long */
function sendNext(lane: Lane, beside: boolean): boolean {
  const batch = lane.batches.shift() as Batch;
  const { settings } = lane;
  const patience = watchedPatience(settings.deadlineMs, () => release(lane, batch, beside));
  batch.patience = patience;
  const [flushed, failure] = pcall(flush, settings, batch, patience);
  endWatch(patience);
  if (!flushed) warnSparingly("a batch was not decided", `${failure}`);
  // Before anybody who has his reply goes on: his question may then be another's.
  const abandoned = abandonedOf(batch, flushed);
  if (batch.released) threads -= 1;
  else batch.ready.post(batch.waiting);
  if (abandoned.length > 0) reconcileSoon(lane, abandoned);
  return !batch.released;
}

/** Redis has been silent for a whole deadline. */
function release(lane: Lane, batch: Batch, beside: boolean): void {
  noteSilentServer(lane.settings, batch.patience as Patience, lane.group);
  batch.released = true;
  for (const { questions } of batch.runs) giveUpAll(questions);
  giveUpAll(batch.callers);
  batch.ready.post(batch.waiting);
  if (beside) {
    lane.beside -= 1;
    return;
  }
  lane.running = false;
  if (lane.batches.length > 0) startThread(lane);
}

function giveUpAll(questions: readonly Question[]): void {
  for (const question of questions) {
    if (question.numbers === undefined && !question.abandoned) giveUp(question);
  }
}

function flush(settings: RedisSettings, batch: Batch, patience: Patience): void {
  const calls: Call[] = [];
  let counters = 0;
  for (const run of batch.runs) {
    const keysAndArgs = keysOf(run);
    const keyCount = keysAndArgs.length;
    if (keyCount === 0) continue;
    counters += keyCount;
    for (const number of run.numbers) keysAndArgs.push(number);
    calls.push({ script: run.script, keyCount, keysAndArgs, reply: undefined, failure: undefined });
  }
  const runs = calls.length;
  for (let i = 0; i < batch.calls.length; i++) {
    const call = batch.calls[i] as Call;
    if ((batch.callers[i] as Question).abandoned) continue;
    counters += call.keyCount;
    calls.push(call);
  }
  if (calls.length === 0) return;
  countBatch(counters);
  callScripts(settings, calls, patience);
  let next = 0;
  for (const run of batch.runs) {
    if (next >= runs) break;
    if (takeReplies(run, calls[next] as Call)) next += 1;
  }
  for (let i = 0; i < batch.calls.length; i++) {
    const { reply, failure, mayHaveRun, keyCount } = batch.calls[i] as Call;
    const question = batch.callers[i] as Question;
    if (reply !== undefined) takeReply(question, reply, keyCount);
    if (question.numbers === undefined) question.lost = reply !== undefined || mayHaveRun === true;
    question.failure ??= failure;
  }
}

/** Of those whose asker still waits. */
function keysOf({ keys, questions }: Run): string[] {
  const asked: string[] = [];
  for (let i = 0; i < keys.length; i++) {
    const question = questions[i] as Question;
    if (question.abandoned) {
      question.at = -1;
      continue;
    }
    question.at = asked.length * numbersPerCounter;
    asked.push(keys[i] as string);
  }
  return asked;
}

/** The reply to a question that had a script call of its own. */
export function takeReply(question: Question, reply: unknown, counters: number): void {
  question.numbers = unpacked(reply, counters) ?? listed(reply, counters);
  if (question.numbers === undefined) question.failure = oddReply;
  // What a table of Lua holds begins at 1, and there with whether all allow.
  else if (typeof reply !== "string") question.at = 2;
}

/** @returns undefined where it is no such reply: what lies behind a shorter one is not Redis' */
function unpacked(reply: unknown, counters: number): Numbers | undefined {
  if (typeof reply !== "string" || reply.length !== counters * numbersPerCounter * bytesPerNumber) return undefined;
  const numbers = ffi.new("double[?]", counters * numbersPerCounter);
  ffi.copy(numbers, reply, counters * numbersPerCounter * bytesPerNumber);
  return numbers;
}

function listed(reply: unknown, counters: number): Numbers | undefined {
  if (type(reply) !== "table") return undefined;
  const count = counters * numbersPerCounter + 1;
  const list = reply as readonly number[];
  return list.length === count && type(list[count - 1]) === "number" ? (reply as Numbers) : undefined;
}

/** @returns false when nothing of it was asked */
function takeReplies({ questions }: Run, { keyCount, reply, failure, mayHaveRun }: Call): boolean {
  let asked = false;
  const numbers = unpacked(reply, keyCount);
  const failed = failure ?? oddReply;
  for (const question of questions) {
    if (question.at < 0) continue;
    asked = true;
    question.numbers = numbers;
    if (numbers !== undefined) continue;
    question.failure ??= failed;
    question.lost = reply !== undefined || mayHaveRun === true;
  }
  return asked;
}

/** Those whose asker gave up. @param flushed whether it is known what became of each that was sent */
function abandonedOf({ runs, callers }: Batch, flushed: boolean): Question[] {
  const abandoned: Question[] = [];
  for (const { questions } of runs) addAbandoned(abandoned, questions, flushed);
  addAbandoned(abandoned, callers, flushed);
  return abandoned;
}

function addAbandoned(abandoned: Question[], questions: readonly Question[], flushed: boolean): void {
  for (const question of questions) {
    if (!question.abandoned) continue;
    if (question.numbers === undefined) question.lost ??= !flushed;
    abandoned.push(question);
  }
}

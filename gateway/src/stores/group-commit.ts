// Group commit: what many requests ask of Redis at the same time goes there together. While one light thread of the worker
// waits for replies, requests put what they ask into the batch that it sends next; nothing waits for a batch to fill. A
// request that comes when nobody else is asking calls Redis itself. Where Redis takes long, a few batches are under way at a
// time: a request waits for one reply at most, not for the one before its own as well.
//
// With Redis Cluster there is a lane for each slot, because no script may be given keys of several.

import type { CompiledLimit } from "../../../limiter/src/policy/compile.ts";
import { countBatch, countLate } from "../metrics/redis-calls.ts";
import { type Call, callScripts } from "../redis/script-call.ts";
import { oddReply } from "../redis/script-reply.ts";
import { runSoon } from "../runtime/background.ts";
import { nowMs } from "../runtime/clock.ts";
import { requestAddress, semaphoreLibrary } from "../runtime/lua-modules.ts";
import { ffi } from "../runtime/packed-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import type { RedisSettings } from "../settings.ts";
import type { Check } from "./redis-store.ts";
import { numbersOf } from "./script-arguments.ts";

/** Where the numbers are that a script replied: a table, or packed memory. */
export type Numbers = LuaTable<number, number>;

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
}

type GiveBack = (this: void, settings: RedisSettings, questions: readonly Question[]) => void;

interface Lane {
  readonly settings: RedisSettings;
  /** Gives back what was charged for questions, at most a batch's, that nobody waits for any more. Yields. */
  readonly giveBack: GiveBack;
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
/** Of the deadline: what has not been sent after that is sent by a thread beside the lane's. */
const patience = 0.25;
/** With the lane's own, one after the other, they fill a deadline. */
const mostBeside = 3;
/** nginx frees what a thread's connections took only when the thread ends. */
const mostFlushesPerThread = 10_000;

const lanes: Record<number, Lane | undefined> = {};
let threads = 0;

export function laneOf(settings: RedisSettings, group: number, giveBack: GiveBack): Lane {
  return lanes[group] ?? newLane(settings, group, giveBack);
}

function newLane(settings: RedisSettings, group: number, giveBack: GiveBack): Lane {
  const lane: Lane = {
    settings,
    giveBack,
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
  if (lane.direct > 0 && now - lane.directAtMs > 2 * lane.settings.deadlineMs) lane.direct = 0;
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
 * @returns false when too much waits already
 */
export function joinRun(
  lane: Lane,
  limit: CompiledLimit,
  cost: number,
  script: Call["script"],
  key: string,
  question: Question,
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
  return awaitReply(lane, batch, question);
}

/** Asks by a script call of its own, sent together with those of others. @returns false when too much waits already */
export function joinCall(lane: Lane, call: Call, question: Question): boolean {
  const batch = openBatch(lane, call.keyCount);
  if (batch === undefined) return false;
  batch.calls.push(call);
  batch.callers.push(question);
  return awaitReply(lane, batch, question);
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
    batch = { ready: semaphoreLibrary.new(0), runs: [], calls: [], callers: [], counters: 0, waiting: 0 };
    batches.push(batch);
  }
  batch.counters += counters;
  return batch;
}

function awaitReply(lane: Lane, batch: Batch, question: Question): boolean {
  batch.waiting += 1;
  if (lane.idle) {
    lane.idle = false;
    lane.work.post(1);
  }
  const deadlineSeconds = lane.settings.deadlineMs / 1000;
  const [ready] = batch.ready.wait(deadlineSeconds * patience);
  if (!ready) awaitLateReply(lane, batch, question, deadlineSeconds * (1 - patience));
  return true;
}

function awaitLateReply(lane: Lane, batch: Batch, question: Question, seconds: number): void {
  sendBeside(lane);
  const [ready] = batch.ready.wait(seconds);
  // Unless the reply came in the same moment: then it counts, and nothing is given back.
  if (ready || question.numbers !== undefined) return;
  question.abandoned = true;
  question.failure = "no reply within the deadline";
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
    else giveBackSoon(lane, [question]);
  }
}

/** In a thread of its own: nobody who waits for Redis waits for it. */
export function giveBackSoon({ settings, giveBack }: Lane, questions: readonly Question[]): void {
  const failure = runSoon(() => giveBack(settings, questions));
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
    sendNext(lane);
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
  for (let flushes = 0; flushes < mostFlushesPerThread && lane.batches.length > 0; flushes++) sendNext(lane);
  threads -= 1;
  lane.beside -= 1;
}

function sendNext(lane: Lane): void {
  const batch = lane.batches.shift() as Batch;
  const [flushed, failure] = pcall(flush, lane.settings, batch);
  if (!flushed) warnSparingly("a batch was not decided", `${failure}`);
  // Before anybody who has his reply goes on: his question may then be another's.
  const abandoned = abandonedOf(batch);
  batch.ready.post(batch.waiting);
  if (abandoned.length > 0) giveBackSoon(lane, abandoned);
}

function flush(settings: RedisSettings, batch: Batch): void {
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
  callScripts(settings, calls);
  let next = 0;
  for (const run of batch.runs) {
    if (next >= runs) break;
    if (takeReplies(run, calls[next] as Call)) next += 1;
  }
  for (let i = 0; i < batch.calls.length; i++) {
    const { reply, failure, keyCount } = batch.calls[i] as Call;
    const question = batch.callers[i] as Question;
    if (reply !== undefined) takeReply(question, reply, keyCount);
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
function takeReplies({ questions }: Run, { keyCount, reply, failure }: Call): boolean {
  let asked = false;
  const numbers = unpacked(reply, keyCount);
  const failed = failure ?? oddReply;
  for (const question of questions) {
    if (question.at < 0) continue;
    asked = true;
    question.numbers = numbers;
    if (numbers === undefined) question.failure ??= failed;
  }
  return asked;
}

/** Those that gave up while their script was under way. */
function abandonedOf({ runs, callers }: Batch): Question[] {
  const abandoned: Question[] = [];
  for (const { questions } of runs) addAbandoned(abandoned, questions);
  addAbandoned(abandoned, callers);
  return abandoned;
}

function addAbandoned(abandoned: Question[], questions: readonly Question[]): void {
  for (const question of questions) {
    if (question.abandoned && question.numbers !== undefined) abandoned.push(question);
  }
}

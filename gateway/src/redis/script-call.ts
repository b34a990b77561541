// Runs a script on the server that has its keys now: follows failovers and moving slots.
//
// A script that was certainly not executed is sent again, to the right server; all such redirects together have one deadline. A
// script whose reply was lost may have been executed and is never sent again, so nothing is charged twice.

import { reportedAddress } from "../../../limiter/src/protocol/redis-url.ts";
import { countRedisFailure, observeRedisCall } from "../metrics/redis-calls.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import type { RedisSettings } from "../settings.ts";
import { connectTo, discard, keep, noteAnswerOf, noteFailureOf, type RedisServer, serverAt } from "./connection.ts";
import { changedNothing, codeOf, decidesNothing, type ErrorCode, redirection } from "./error-reply.ts";
import { slotOf } from "./hash-slot.ts";
import { endWaiting, isSilent, leftSeconds, newPatience, type Patience, patienceSeconds } from "./patience.ts";
import { callOf, callWithSource, exchange, exchangeOne, type Script } from "./script-request.ts";
import { doubtPrimary, primaryOf } from "./sentinel.ts";
import { doubtSlots, knownServerOfSlot, otherServerOfSlot, serverOfSlot, slotMoved } from "./slot-map.ts";

/** How far a script without a reply got. connect: it was not sent. call: its reply was lost. reply: an error came. */
type Stage = "connect" | "call" | "reply";

/** Where the script goes next, and whether that node only accepts it after ASKING, because its slot is being moved there. */
interface Detour {
  readonly server: RedisServer;
  readonly asking: boolean;
}

/** Enough for a slot that moves from node to node, and moves on while the script follows. */
const mostRedirects = 5;
/** Rounds in which several scripts are tried together: Redis may not know any of a few kinds of scripts. */
const mostRounds = 4;
/** The pause before a retry while the keys of one slot are on two nodes. */
const tryAgainSeconds = 0.01;

/**
 * Returns the group of a key: one script may use any keys of one group. With Redis Cluster, which runs no script over several
 * slots, it is the slot; otherwise it is 0.
 */
export function groupOf({ deployment }: RedisSettings, key: string): number {
  return deployment.kind === "cluster" ? slotOf(key) : 0;
}

/**
 * @param keysAndArgs the keys, all of one group, then the arguments
 * @param patience of the waiting call
 * @returns the reply; or undefined, the error message, and whether the script may have been executed anyway
 */
export function callScript(
  settings: RedisSettings,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
  patience: Patience = newPatience(settings.deadlineMs),
): LuaMultiReturn<[unknown, string | undefined, boolean]> {
  const startedAt = stopwatchSeconds();
  const group = groupOf(settings, keysAndArgs[0] as string);
  endWaiting(patience);
  const [known, unknown] = serverFor(settings, group, waitMsOf(settings, patience));
  if (known === undefined) {
    countRedisFailure("connect", unknown);
    return $multi(undefined, unknown, false);
  }
  const [reply, failure, stage] = callServer(settings, known, patience, false, script, keyCount, keysAndArgs);
  if (reply !== undefined) {
    observeRedisCall(stopwatchSeconds() - startedAt);
    return $multi(reply, undefined, false);
  }
  const trouble = { server: known, asking: false, stage: stage as Stage, failure: failure as string };
  const [later, lastFailure, mayHaveRun] = followDetours(
    settings,
    patience,
    group,
    trouble,
    script,
    keyCount,
    keysAndArgs,
  );
  if (later !== undefined || trouble.stage !== "connect") observeRedisCall(stopwatchSeconds() - startedAt);
  return $multi(later, lastFailure, mayHaveRun);
}

/** The longest to wait while discovery finds the server, in ms. */
function waitMsOf({ deadlineMs }: RedisSettings, patience: Patience): number {
  return math.min(deadlineMs, math.max(leftSeconds(patience), 0) * 1000);
}

/** The failure of a script, and the server where it happened. */
interface Trouble {
  server: RedisServer;
  asking: boolean;
  stage: Stage;
  failure: string;
}

/** @param trouble of the first try; afterwards it is that of the last try */
function followDetours(
  settings: RedisSettings,
  patience: Patience,
  group: number,
  trouble: Trouble,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
): LuaMultiReturn<[reply: unknown, failure: string | undefined, mayHaveRun: boolean]> {
  const beganAtSeconds = patienceSeconds();
  let redirects = 0;
  for (;;) {
    const { server, stage, failure } = trouble;
    const code = stage === "reply" ? codeOf(failure) : undefined;
    const spentMs = (patienceSeconds() - beganAtSeconds) * 1000;
    const leftMs = math.min(waitMsOf(settings, patience), settings.deadlineMs - spentMs);
    if (code !== "TRYAGAIN") redirects += 1;
    const isOwn = isOwnEnd(patience);
    if (!isOwn) learn(settings, server, stage, code);
    if (!isOwn && code === "MOVED") learnMove(settings, server, group, failure);
    const late = leftMs < 1 || redirects > mostRedirects;
    // During the discovery of another server, the call does not wait for this one.
    endWaiting(patience);
    const detour = late ? undefined : detourFor(settings, trouble, group, code, leftMs);
    if (detour === undefined) {
      if (!isOwn) countRedisFailure(stage, failure);
      const mayHaveRun = stage === "call" || (code !== undefined && !changedNothing(code));
      return $multi(undefined, explained(settings, code, failure), mayHaveRun);
    }
    const [reply, nextFailure, nextStage] = callServer(
      settings,
      detour.server,
      patience,
      detour.asking,
      script,
      keyCount,
      keysAndArgs,
    );
    if (reply !== undefined) return $multi(reply, undefined, false);
    trouble.server = detour.server;
    trouble.asking = detour.asking;
    trouble.stage = nextStage as Stage;
    trouble.failure = nextFailure as string;
  }
}

/** @param waitMs the longest to wait for a discovery @returns the server for a group's keys, or why none is known */
export function serverFor(
  settings: RedisSettings,
  group: number,
  waitMs: number = settings.deadlineMs,
): LuaMultiReturn<[RedisServer | undefined, string | undefined]> {
  const { deployment, deadlineMs } = settings;
  if (deployment.kind === "sentinel") return primaryOf(deployment, deadlineMs, waitMs);
  if (deployment.kind === "cluster") return serverOfSlot(deployment, group, deadlineMs, waitMs);
  return $multi(serverAt(deployment.access, deployment.address), undefined);
}

/** Returns whether a call would be sent now. Does not wait. */
export function isReachable(settings: RedisSettings, group: number): boolean {
  const [server] = serverFor(settings, group, 0);
  return server !== undefined && !server.breaker.open;
}

/** One of several scripts that are sent together. */
export interface Call {
  readonly script: Script;
  readonly keyCount: number;
  /** Of its keys: see `groupOf`. Absent: the first of them tells. */
  readonly group?: number;
  /** Of how many counters the reply tells. Absent: of one for each key. */
  readonly counters?: number;
  /** How many numbers the reply has: one number, or a list. Absent: it tells of counters. */
  readonly numbers?: number;
  /** The keys, all of one group, then the arguments. */
  readonly keysAndArgs: readonly string[];
  /** The result: a reply or an error message. */
  reply: unknown;
  failure: string | undefined;
  /** Without a reply: whether Redis may have executed it anyway. */
  mayHaveRun?: boolean;
  /** The last error with which a server has not executed it. */
  notRunBecause?: ErrorCode;
}

/**
 * Calls several scripts, those of each server in one round trip. Those that were certainly not executed are called again: the first of them by
 * itself, which loads its script into Redis or follows a redirect, and then the others together.
 */
export function callScripts(
  settings: RedisSettings,
  calls: readonly Call[],
  patience: Patience = newPatience(settings.deadlineMs),
): void {
  callAgain(settings, calls.length > 1 ? callByServer(settings, calls, patience) : calls, patience);
}

/**
 * Does the same for scripts whose keys are at the same node of a Redis Cluster as those of the first one, and follows none whose slot is elsewhere,
 * or moving: these have neither a reply nor a failure afterwards. So none waits for the slot of another.
 */
export function callAtNode(settings: RedisSettings, calls: readonly Call[], patience: Patience): void {
  const server = knownServerOfSlot(groupOfCall(settings, calls[0] as Call));
  const there = calls.filter((call) => knownServerOfSlot(groupOfCall(settings, call)) === server);
  const left = callTogether(settings, there, patience).filter(({ notRunBecause }) => !isOfSlot(notRunBecause));
  callAgain(settings, left, patience);
}

/** Whether a node says this of one slot, and may say something else of others. */
function isOfSlot(code: ErrorCode | undefined): boolean {
  return code === "MOVED" || code === "ASK" || code === "TRYAGAIN" || code === "CLUSTERDOWN";
}

function callAgain(settings: RedisSettings, notRun: readonly Call[], patience: Patience): void {
  let left = notRun;
  for (let round = 1; round < mostRounds && left.length > 1; round++) {
    callAlone(settings, left[0] as Call, patience);
    left = callByServer(settings, left.slice(1), patience);
  }
  for (const call of left) callAlone(settings, call, patience);
}

function callAlone(settings: RedisSettings, call: Call, patience: Patience): void {
  const { script, keyCount, keysAndArgs } = call;
  const [reply, failure, mayHaveRun] = callScript(settings, script, keyCount, keysAndArgs, patience);
  call.reply = reply;
  call.failure = failure;
  call.mayHaveRun = mayHaveRun;
}

/** @returns the calls that were certainly not executed */
function callByServer(settings: RedisSettings, calls: readonly Call[], patience: Patience): readonly Call[] {
  if (settings.deployment.kind !== "cluster") return callTogether(settings, calls, patience);
  let notRun: readonly Call[] = [];
  let left = calls;
  while (left.length > 0) {
    const server = knownServerOfSlot(groupOfCall(settings, left[0] as Call));
    const together: Call[] = [];
    const elsewhere: Call[] = [];
    for (const call of left) {
      (knownServerOfSlot(groupOfCall(settings, call)) === server ? together : elsewhere).push(call);
    }
    notRun = notRun.concat(callTogether(settings, together, patience));
    left = elsewhere;
  }
  return notRun;
}

function groupOfCall(settings: RedisSettings, { group, keysAndArgs }: Call): number {
  return group ?? groupOf(settings, keysAndArgs[0] as string);
}

/** @param calls one or more, of one server @returns those that were certainly not executed */
function callTogether(settings: RedisSettings, calls: readonly Call[], patience: Patience): readonly Call[] {
  const startedAt = stopwatchSeconds();
  endWaiting(patience);
  const [server] = serverFor(settings, groupOfCall(settings, calls[0] as Call), waitMsOf(settings, patience));
  if (server === undefined || server.breaker.open) return calls;
  const [redis] = connectTo(server, settings.deadlineMs, patience);
  if (redis === undefined) {
    // A single call is tried again at once, and that failure counts.
    if (calls.length > 1) noteFailed(settings, server, patience);
    return calls;
  }
  const requests: string[][] = [];
  for (const { script, keyCount, keysAndArgs } of calls) requests.push(callOf(script, keyCount, keysAndArgs));
  const [replies, failure] = exchange(redis, requests);
  observeRedisCall(stopwatchSeconds() - startedAt);
  if (replies === undefined) {
    discard(redis);
    const isOwn = isOwnEnd(patience);
    noteFailed(settings, server, patience);
    if (!isOwn) {
      learn(settings, server, "call", undefined);
      countRedisFailure("call", failure);
    }
    for (const call of calls) {
      call.failure = failure ?? "closed";
      call.mayHaveRun = true;
    }
    return [];
  }
  endExchange(settings, server, redis, patience, refusalIn(replies));
  const notRun: Call[] = [];
  for (let i = 0; i < calls.length; i++) {
    const call = calls[i] as Call;
    const error = errorIn(replies[i]);
    const code = error === undefined ? undefined : codeOf(error);
    if (code === "MOVED") learnMove(settings, server, groupOfCall(settings, call), error as string);
    if (code === undefined) call.reply = replies[i];
    else if (changedNothing(code)) {
      call.notRunBecause = code;
      notRun.push(call);
    } else {
      call.failure = error;
      call.mayHaveRun = true;
    }
  }
  return notRun;
}

/**
 * What these replies say about the server.
 *
 * @returns an error that a replica sends, or one of a server that would refuse any script now
 */
function refusalIn(replies: readonly unknown[]): string | undefined {
  let refusal: string | undefined;
  let decides = false;
  for (const reply of replies) {
    const error = errorIn(reply);
    const code = error === undefined ? undefined : codeOf(error);
    // A replica does execute scripts that write nothing.
    if (code === "READONLY") return error;
    if (code === undefined || !decidesNothing(code)) decides = true;
    else refusal = error;
  }
  return decides ? undefined : refusal;
}

/** For a reply of a pipeline. */
function errorIn(reply: unknown): string | undefined {
  if (type(reply) !== "table") return undefined;
  const [replied, error] = reply as readonly [unknown, string?];
  return replied === false ? error : undefined;
}

/** Called after a reply. @param error the reply, if it was an error */
function endExchange(
  settings: RedisSettings,
  server: RedisServer,
  redis: RedisConnection,
  patience: Patience,
  error: string | undefined,
): void {
  if (error === undefined || !decidesNothing(codeOf(error))) {
    noteAnswerOf(server, patience);
  } else {
    // A server that refuses is not silent.
    if (!patience.released) server.answeredAtSeconds = patienceSeconds();
    noteFailureOf(server, settings, false);
  }
  // The server is a replica now, although it was a primary when this connection was made.
  if (error?.includes("READONLY")) discard(redis);
  else keep(redis);
}

/** Sends EVALSHA, and EVAL if Redis does not know the script: then it was not executed, so nothing is charged twice. */
function callServer(
  settings: RedisSettings,
  server: RedisServer,
  patience: Patience,
  asking: boolean,
  script: Script,
  keyCount: number,
  keysAndArgs: readonly string[],
): LuaMultiReturn<[reply: unknown, failure: string | undefined, stage: Stage | undefined]> {
  if (server.breaker.open)
    return $multi(undefined, "not sent: the server has failed and not answered a probe yet", "connect");
  if (leftSeconds(patience) <= 0) return $multi(undefined, "timeout: the call took too long", "connect");
  const [redis, connectFailure] = connectTo(server, settings.deadlineMs, patience);
  if (redis === undefined) {
    noteFailed(settings, server, patience);
    return $multi(undefined, connectFailure, "connect");
  }
  if (asking) redis.asking();
  let [reply, failure] = exchangeOne(redis, callOf(script, keyCount, keysAndArgs));
  const unknown = reply === false && failure !== undefined && failure.startsWith("NOSCRIPT");
  if (unknown && leftSeconds(patience) > 0) {
    if (asking) redis.asking();
    [reply, failure] = exchangeOne(redis, callWithSource(script, keyCount, keysAndArgs));
  }
  // The connection failed, and another request must not receive what Redis may still send on it.
  if (reply === undefined) {
    discard(redis);
    noteFailed(settings, server, patience);
    return $multi(undefined, failure, "call");
  }
  if (reply !== false) {
    noteAnswerOf(server, patience);
    keep(redis);
    return $multi(reply, undefined, undefined);
  }
  endExchange(settings, server, redis, patience, failure);
  return $multi(undefined, failure, "reply");
}

/**
 * Returns whether a failure says nothing about the server. Either the call was released, and the failure was recorded then; or
 * its own limit was over while the server still had time.
 */
function isOwnEnd(patience: Patience): boolean {
  return patience.released || (leftSeconds(patience) <= 0 && !isSilent(patience));
}

function noteFailed(settings: RedisSettings, server: RedisServer, patience: Patience): void {
  if (!isOwnEnd(patience)) noteFailureOf(server, settings, isSilent(patience));
}

/** Called when the server of a watched call is silent; its reply is still read, but no other request may wait for the server. */
export function noteSilentServer(settings: RedisSettings, patience: Patience): void {
  const server = patience.server as RedisServer;
  noteFailureOf(server, settings, true);
  learn(settings, server, "call", undefined);
  countRedisFailure("call", "timeout");
}

/** Applies what a failure says about the deployment. */
function learn({ deployment }: RedisSettings, server: RedisServer, stage: Stage, code: ErrorCode | undefined): void {
  const unfit = code === "READONLY" || code === "LOADING" || code === "MASTERDOWN" || code === "CLUSTERDOWN";
  if (!unfit && stage === "reply") return;
  if (deployment.kind === "sentinel") doubtPrimary(server);
  else if (deployment.kind === "cluster") doubtSlots();
}

function learnMove({ deployment }: RedisSettings, server: RedisServer, slot: number, failure: string): void {
  const target = deployment.kind === "cluster" ? redirected(server, failure) : undefined;
  if (target !== undefined) slotMoved(slot, target);
}

/** @returns undefined if another attempt gains nothing, or might charge twice */
function detourFor(
  settings: RedisSettings,
  { server, asking, stage, failure }: Trouble,
  group: number,
  code: ErrorCode | undefined,
  leftMs: number,
): Detour | undefined {
  const { deployment } = settings;
  if (deployment.kind === "single" || stage === "call") return undefined;
  if (code === "MOVED" || code === "ASK") {
    const target = redirected(server, failure);
    return target === undefined ? undefined : { server: target, asking: code === "ASK" };
  }
  if (code === "TRYAGAIN") {
    ngx.sleep(tryAgainSeconds);
    return { server, asking };
  }
  if (code !== undefined && !changedNothing(code)) return undefined;
  const other = otherServerFor(settings, group, server, leftMs);
  return other === undefined || other === server ? undefined : { server: other, asking: false };
}

function otherServerFor(
  settings: RedisSettings,
  group: number,
  failed: RedisServer,
  leftMs: number,
): RedisServer | undefined {
  const { deployment, deadlineMs } = settings;
  if (deployment.kind === "cluster") return otherServerOfSlot(deployment, group, failed, deadlineMs, leftMs);
  if (deployment.kind === "single") return failed;
  const [other] = primaryOf(deployment, deadlineMs, leftMs);
  return other;
}

function redirected(server: RedisServer, failure: string): RedisServer | undefined {
  const place = redirection(failure);
  if (place === undefined) return undefined;
  return serverAt(server.access, reportedAddress(place[0], place[1], server.address));
}

/** Adds what the operator can do about the failure. */
function explained({ deployment }: RedisSettings, code: ErrorCode | undefined, failure: string): string {
  if (failure.includes("NOPERM") || failure.includes("The user executing the script can't")) {
    return `${failure} (the rights that Sluice's user needs are in docs/cluster.md)`;
  }
  if (code === "MOVED" && deployment.kind === "single") {
    return `${failure} (SLUICE_REDIS_URL of a Redis Cluster begins with redis+cluster://)`;
  }
  return failure;
}

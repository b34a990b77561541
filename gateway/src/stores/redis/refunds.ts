// Refunds of charges in Redis: at once for a request that waits, or by one timer for all requests that have ended. Refunds that
// fail because Redis is away are made later.

import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { keyOf } from "../../../../limiter/src/protocol/redis-keys.ts";
import { isInThisRedis } from "../../redis/epoch.ts";
import { theRedis } from "../../redis/redis-settings.ts";
import { type Call, callScripts, groupOf, isReachable } from "../../redis/script-call.ts";
import { callForNumber, oddReply } from "../../redis/script-reply.ts";
import type { Script } from "../../redis/script-request.ts";
import { hasPlace, leavePlace, newPlaces, takePlace } from "../../runtime/app-places.ts";
import { runSoon, runUntilDone } from "../../runtime/background.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { semaphoreLibrary } from "../../runtime/lua-modules.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import { type Charge, type Check, type Refund, stayCharged } from "../store.ts";
import { type Numbers, numbersPerCounter } from "./pending-check.ts";
import { noteUnitsBack } from "./refusal-cache.ts";
import { pushNumbers, whole } from "./script-arguments.ts";
import { firstKey, groupsOf } from "./slot-groups.ts";
import { roundTrips } from "./slot-renewals.ts";

/** Each is a key of Redis and at most six arguments; with more counters, Lua could not pass all of them in one call. */
export const mostCountersAtOnce = 1000;

const scripts = require("sluice_redis_scripts") as Readonly<Record<string, Script>>;
const refund = scripts["refund"] as Script;
/** Returns the refunds of these checks, with the charge times from a reply. */
export function refundsOf(checks: readonly Check[], numbers: Numbers, from: number): Refund[] {
  let at = from + numbersPerCounter - 1;
  const refunds: Refund[] = [];
  for (const { policy, keyValues } of checks) {
    const { limits } = policy;
    const chargedAt: number[] = [];
    for (let i = 0; i < limits.length; i++) {
      chargedAt.push(numbers.get(at));
      at += numbersPerCounter;
    }
    refunds.push({ policy, limits, keyValues, chargedAt });
  }
  return refunds;
}

/**
 * Refunds these charges by one call, or by several if they have very many limits. Yields. Those of several slots of Redis Cluster are refunded in a
 * timer: one call would follow the other, and the client may go away meanwhile.
 */
export function refundInRedis(this: void, made: readonly Charge[]): void {
  const charges = made.filter((each) => isInThisRedis(each));
  let from = 0;
  while (from < charges.length) {
    const end = endOfCall(charges, from);
    const together = charges.slice(from, end);
    if (groupsOf(theRedis(), together).length > 1) refundInRedisSurely(together);
    else refundAtOnce(together);
    from = end;
  }
}

/** @param charges of one group */
function refundAtOnce(charges: readonly Charge[]): void {
  const failure = refundGroup(theRedis(), charges);
  if (failure !== undefined) warnSparingly(stayCharged, failure);
}

/** Returns the end of the members that fit into one call. */
export function endOfCall(members: readonly { readonly policy: CompiledPolicy }[], from: number): number {
  let end = from;
  let counters = 0;
  while (end < members.length) {
    counters += (members[end] as Charge).policy.limits.length;
    if (counters > mostCountersAtOnce) break;
    end += 1;
  }
  return end;
}

/**
 * Refunds these by one call. Yields. A refund that was certainly not made is made later.
 *
 * @param refunds of one group
 * @returns what failed, if the refund may have been made
 */
export function refundGroup(settings: RedisSettings, refunds: readonly Refund[]): string | undefined {
  const { script, keyCount, keysAndArgs } = refundCall(refunds);
  const [, failure, mayHaveRun] = callForNumber(settings, script, keyCount, keysAndArgs);
  if (failure === undefined || mayHaveRun) {
    noteRefunded(refunds);
    return failure;
  }
  for (const each of refunds) postpone(each, failure);
  return undefined;
}

/** No refusal is remembered of limits that are slots. */
function noteRefunded(refunds: readonly Refund[]): void {
  for (const each of refunds) {
    if (each.limits.some(({ rate }) => rate.algorithm !== "concurrency")) noteUnitsBack(firstKey(each));
  }
}

/** @param refunds of one group. The script replies with a number */
export function refundCall(refunds: readonly Refund[]): Call {
  const keys: string[] = [];
  const args: string[] = [];
  for (const { policy, limits, keyValues, chargedAt } of refunds) {
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as CompiledLimit;
      keys.push(keyOf(policy, limit, keyValues));
      args.push(limit.rate.algorithm);
      pushNumbers(args, limit, policy.policy.cost);
      args.push(whole(chargedAt[i] as number));
    }
  }
  return {
    script: refund,
    keyCount: keys.length,
    keysAndArgs: keys.concat(args),
    reply: undefined,
    failure: undefined,
  };
}

/** What one timer refunds. */
interface Batch {
  readonly charges: Charge[];
  readonly done: Semaphore;
  /** Requests that wait for it. */
  waiting: number;
}

let next: Batch | undefined;
/** How long a request waits for refunds at most. */
const longestRefundSeconds = 5;

/** Refunds the charge in a timer, so that nothing yields here. */
export function refundInRedisLater(this: void, charge: Charge): void {
  collect([charge]);
}

/** Refunds these in a timer, and waits for it. If the current request's client goes away meanwhile, they are refunded all the same. */
export function refundInRedisSurely(charges: readonly Charge[]): void {
  const batch = collect(charges);
  if (batch === undefined) return;
  batch.waiting += 1;
  batch.done.wait(longestRefundSeconds);
}

function collect(charges: readonly Charge[]): Batch | undefined {
  const batch = next ?? { charges: [], done: semaphoreLibrary.new(0), waiting: 0 };
  for (const charge of charges) batch.charges.push(charge);
  if (next !== undefined) return batch;
  next = batch;
  const failure = runSoon(() => {
    next = undefined;
    refundAll(batch.charges.filter((each) => isInThisRedis(each)));
    if (batch.waiting > 0) batch.done.post(batch.waiting);
  });
  if (failure === undefined) return batch;
  next = undefined;
  warnSparingly(stayCharged, failure);
  return undefined;
}

/** Refunds these in their order, those at one server together. Yields. A refund that was certainly not made is made later. */
export function refundAll(refunds: readonly Refund[]): void {
  for (const together of roundTrips(refunds)) refundGuarded(together);
}

/** An error in some refunds must not prevent the others. */
function refundGuarded(charges: readonly Refund[]): void {
  const [refunded, defect] = pcall(refundTogether, charges);
  if (!refunded) noteDefect("redis", stayCharged, defect);
}

/** @param charges one or more, at the same server */
function refundTogether(this: void, charges: readonly Refund[]): void {
  const calls = charges.map((charge) => refundCall([charge]));
  const [called, defect] = pcall(callScripts, theRedis(), calls);
  if (!called && calls.length === 1) error(defect, 0);
  for (let i = 0; i < calls.length; i++) {
    const { reply, failure, mayHaveRun } = calls[i] as Call;
    const charge = charges[i] as Refund;
    if (failure !== undefined && mayHaveRun === false) {
      postpone(charge, failure);
    } else if (failure === undefined && reply === undefined) {
      refundGuarded([charge]);
    } else {
      noteRefunded([charge]);
      if (type(reply) !== "number") warnSparingly(stayCharged, failure ?? oddReply);
    }
  }
}

/** A refund that could not be made, because Redis is away. */
interface Postponed {
  readonly charge: Refund;
  readonly untilSeconds: number;
}

const mostPostponed = 10_000;
/** After this time, the units no longer count in most limits, and slots have expired. */
const postponedForSeconds = 60;
const tryAgainEveryMs = 100;
let postponed: Postponed[] = [];
/** By the apps of the policies. */
const places = newPlaces();
let trying = false;

function postpone(charge: Refund, failure: string): void {
  const { app } = charge.policy;
  if (!hasPlace(places, app, mostPostponed) || ngx.worker.exiting()) {
    warnSparingly(stayCharged, failure);
    return;
  }
  takePlace(places, app);
  postponed.push({ charge, untilSeconds: stopwatchSeconds() + postponedForSeconds });
  if (trying) return;
  const notBegun = runUntilDone(refundPostponed);
  if (notBegun === undefined) trying = true;
  else warnSparingly(stayCharged, notBegun);
}

/** @returns whether to run again */
function refundPostponed(): boolean {
  sleepMs(tryAgainEveryMs);
  const redis = theRedis();
  const before = postponed;
  const now = stopwatchSeconds();
  const ready: Refund[] = [];
  postponed = [];
  for (const each of before) {
    const { charge, untilSeconds } = each;
    const isReady = isReachable(redis, groupOf(redis, firstKey(charge)));
    if (!isReady && now < untilSeconds) {
      postponed.push(each);
      continue;
    }
    leavePlace(places, charge.policy.app);
    if (isReady) ready.push(charge);
    else warnSparingly(stayCharged, "Redis has been away for too long");
  }
  refundAll(ready.filter((each) => isInThisRedis(each)));
  trying = postponed.length > 0 && !ngx.worker.exiting();
  return trying;
}

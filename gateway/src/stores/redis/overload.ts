// Overload: while Redis is slow or too many requests wait for it, this worker decides by its share by choice, at once, instead of
// when its deadline is over. SLUICE_OVERLOAD_REDIS_P99_MS and SLUICE_OVERLOAD_QUEUE say when; without them, nothing here runs.
//
// Each worker decides for itself, as its circuit breaker does: a worker has its own connections and its own queue, so its requests
// wait for it and for Redis, and not for other workers. Nothing is read from shared memory for it.
//
// A p99 above a threshold is more than one decision in a hundred that took longer. So nothing but that is counted, in slices of a
// quarter of a second. Delays of the worker itself do not count: a wait is at most as long as the patience clock says.

import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { publishOverload } from "../../metrics/overload-state.ts";
import { patienceSeconds } from "../../redis/patience.ts";
import { configuredRedis } from "../../redis/redis-settings.ts";
import { runUntilDone } from "../../runtime/background.ts";
import { reportMissingRedis } from "../../runtime/missing-parts.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../../runtime/stopwatch.ts";
import type { OverloadSettings, RedisSettings } from "../../settings.ts";
import type { Check } from "../store.ts";
import { waitingRequests } from "./batcher.ts";

/** Why a check was not sent to Redis, in the place of a failure. */
export const byChoice = "not sent: Redis is overloaded";

const sliceSeconds = 0.25;
/** The window of the p99: five seconds. */
const slices = 20;
const windowSeconds = slices * sliceSeconds;
/** Fewer decisions in a window say nothing about a p99. */
const fewestDecisions = 20;
/** In so many slices there must be slow decisions: Redis may pause once, however many requests that delays. */
const fewestSlowSlices = 2;
/** The step of the patience clock, by which it may be late. */
const clockStepSeconds = 0.005;
/** At most one decision in this time is made by Redis to see how long it takes. */
const probeEverySeconds = 0.25;
const shortestStaySeconds = 5;
const longestStaySeconds = 80;
/** An overload that comes back within this time stays twice as long as before: it was the return that overloaded Redis. */
const relapseSeconds = 60;

/** By the stopwatch: the number of the slice that each place has. */
const sliceAt: number[] = [];
const decisions: number[] = [];
/** Of these, decisions that took longer than the threshold, and those that took longer than half of it. */
const slow: number[] = [];
const halfSlow: number[] = [];
for (let i = 0; i < slices; i++) {
  sliceAt.push(-1);
  decisions.push(0);
  slow.push(0);
  halfSlow.push(0);
}

let overloaded = false;
let staySeconds = shortestStaySeconds;
/** By the stopwatch. */
let enteredAtSeconds = 0;
let leftAtSeconds = -relapseSeconds;
let crowdedAtSeconds = 0;
let nextProbeAtSeconds = 0;

/** @returns whether this worker decides by its share now, by choice */
export function isOverloaded(): boolean {
  return overloaded;
}

/**
 * Returns whether checks that are about to be sent to Redis are decided by this gateway's share instead. Now and then one of them is
 * sent all the same, as a probe: then `probeLimitMs` bounds its wait.
 */
export function isDecidedHere(settings: OverloadSettings, checks: readonly Check[]): boolean {
  return isOverloadedNow(settings) && !mustAskRedis(checks) && !isProbe(settings);
}

/** The same for one policy that the request is decided by alone. */
export function isOneDecidedHere(settings: OverloadSettings, policy: CompiledPolicy): boolean {
  return isOverloadedNow(settings) && mayDecideHere(policy) && !isProbe(settings);
}

/** Returns whether the request waits for Redis in any case: for one of these checks, or for another one. */
export function mustAskRedis(checks: readonly Check[]): boolean {
  for (const { policy, asksRedis } of checks) if (asksRedis === true || !mayDecideHere(policy)) return true;
  return false;
}

/** The longest wait of a probe, in ms. @returns undefined: the request waits as long as any other */
export function probeLimitMs(settings: OverloadSettings, policy: CompiledPolicy): number | undefined {
  return overloaded && mayDecideHere(policy) ? settings.redisP99Seconds * 1000 : undefined;
}

/**
 * Called before checks of one request are decided together. If one of them is decided by Redis in any case, all are: the request waits
 * all the same, and what Redis does not decide, onStoreFailure would have to.
 */
export function keepTogether(checks: readonly Check[]): void {
  if (configuredRedis()?.overload === undefined) return;
  for (const { policy } of checks) {
    if (policy.policy.store === "node" || mayDecideHere(policy)) continue;
    for (const check of checks) check.asksRedis = true;
    return;
  }
}

/** Only a share may decide by choice: `allow` and `deny` would open or shut the policy. */
function mayDecideHere({ policy }: CompiledPolicy): boolean {
  return policy.onStoreFailure === "local";
}

function isOverloadedNow({ queue }: OverloadSettings): boolean {
  if (overloaded) return true;
  const waiting = waitingRequests();
  if (waiting > queue) enter(`${waiting} requests of this worker wait for it`, stopwatchSeconds());
  return overloaded;
}

function isProbe({ redisP99Seconds }: OverloadSettings): boolean {
  // If only the queue counts, nobody asks how long Redis takes.
  if (redisP99Seconds === Infinity) return false;
  const now = stopwatchSeconds();
  if (now < nextProbeAtSeconds) return false;
  nextProbeAtSeconds = now + probeEverySeconds;
  return true;
}

/**
 * Called when a request has waited for Redis.
 *
 * @param beganAtSeconds by the stopwatch
 * @param patienceBeganAtSeconds the same moment by the patience clock
 * @param answered whether Redis decided
 */
export function noteWait(
  settings: OverloadSettings,
  beganAtSeconds: number,
  patienceBeganAtSeconds: number,
  answered: boolean,
): void {
  const now = stopwatchSeconds();
  const seconds = math.min(now - beganAtSeconds, patienceSeconds() - patienceBeganAtSeconds + clockStepSeconds);
  const { redisP99Seconds } = settings;
  // A call that fails at once says nothing about how long Redis takes, but a probe that fails is no reason to return.
  const failed = !answered && overloaded;
  const isSlow = failed || seconds > redisP99Seconds;
  if (!answered && !isSlow) return;
  const slice = math.floor(now / sliceSeconds);
  const place = slice % slices;
  if (sliceAt[place] !== slice) {
    sliceAt[place] = slice;
    decisions[place] = 0;
    slow[place] = 0;
    halfSlow[place] = 0;
  }
  decisions[place] = (decisions[place] as number) + 1;
  if (!failed && seconds <= redisP99Seconds / 2) return;
  halfSlow[place] = (halfSlow[place] as number) + 1;
  if (!isSlow) return;
  slow[place] = (slow[place] as number) + 1;
  if (!overloaded && isP99Above(slice)) {
    const ms = string.format("%.0f", redisP99Seconds * 1000);
    enter(`more than one decision in a hundred took it longer than ${ms} ms`, now);
  }
}

function isP99Above(newest: number): boolean {
  let total = 0;
  let slowOnes = 0;
  let slowSlices = 0;
  for (let i = 0; i < slices; i++) {
    if ((sliceAt[i] as number) <= newest - slices) continue;
    total += decisions[i] as number;
    slowOnes += slow[i] as number;
    if ((slow[i] as number) > 0) slowSlices += 1;
  }
  return total >= fewestDecisions && slowOnes * 100 > total && slowSlices >= fewestSlowSlices;
}

/** @returns whether the p99 of the window is at most half of the threshold; without decisions it is */
function isP99Low(newest: number): boolean {
  let total = 0;
  let slowOnes = 0;
  for (let i = 0; i < slices; i++) {
    if ((sliceAt[i] as number) <= newest - slices) continue;
    total += decisions[i] as number;
    slowOnes += halfSlow[i] as number;
  }
  return slowOnes * 100 <= total;
}

function enter(reason: string, now: number): void {
  const failure = runUntilDone(lookAgain);
  // Nobody would find out when Redis is quick again.
  if (failure !== undefined) {
    warnSparingly("requests go on waiting for an overloaded Redis, because a timer could not start", failure);
    return;
  }
  overloaded = true;
  const isRelapse = now - leftAtSeconds < relapseSeconds;
  staySeconds = isRelapse ? math.min(staySeconds * 2, longestStaySeconds) : shortestStaySeconds;
  enteredAtSeconds = now;
  crowdedAtSeconds = now;
  nextProbeAtSeconds = now + probeEverySeconds;
  publishOverload(true);
  const least = `for at least ${staySeconds} s, this gateway's share decides policies with onStoreFailure: local`;
  ngx.log(ngx.ERR, "sluice: Redis is overloaded: ", reason, "; ", least);
}

/** @returns whether to look again */
function lookAgain(): boolean {
  ngx.sleep(sliceSeconds);
  if (ngx.worker.exiting()) return false;
  const queue = configuredRedis()?.overload?.queue ?? Infinity;
  const now = stopwatchSeconds();
  if (waitingRequests() * 2 >= queue) crowdedAtSeconds = now;
  if (now - enteredAtSeconds < staySeconds || now - crowdedAtSeconds < windowSeconds) return true;
  if (!isP99Low(math.floor(now / sliceSeconds))) return true;
  overloaded = false;
  leftAtSeconds = now;
  publishOverload(false);
  ngx.log(ngx.ERR, "sluice: Redis is not overloaded any more, and decides every request again");
  return false;
}

/** Returns the Redis that is asked about a check of the check API; undefined: there is none, or this node decides by choice, which the check then says. */
export function redisToAsk(check: Check): RedisSettings | undefined {
  const redis = configuredRedis();
  if (redis === undefined) {
    reportMissingRedis();
    return undefined;
  }
  if (redis.overload === undefined || !isDecidedHere(redis.overload, [check])) return redis;
  check.overloaded = true;
  return undefined;
}

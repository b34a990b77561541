// Caches refusals by Redis in the worker that received them, so that a flood over the limit causes no calls to Redis. A refused request
// cannot be admitted before the moment that Redis named, unless units come back meanwhile. Then all workers of this nginx forget the
// refusal; other gateways are not told, so a refusal is cached for a few seconds only, and much shorter where units often come back or
// other requests may still be charged. A refusal by concurrency slots, which may be released at any moment, is not cached.

import { endless, never } from "../../../../limiter/src/algorithms/decision.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeAll, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { isEndless } from "../../../../limiter/src/header-values.ts";
import { countRecalled } from "../../metrics/redis-calls.ts";
import { watchEpoch } from "../../redis/epoch.ts";
import { runEvery } from "../../runtime/background.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { stateDict } from "../../runtime/shared-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import { dropSharedRefusal, readSharedRefusal, shareRefusal } from "./shared-refusals.ts";

interface Refusal {
  /** The compiled policy: if it was edited since, the refusal does not apply. */
  readonly policy: CompiledPolicy;
  /** The key of its first counter. */
  readonly name: string;
  readonly submittedAtSeconds: number;
  /** By Redis' reply, no units are available before this time; clients are told so. */
  readonly retryAtSeconds: number;
  /** Then Redis decides again; 0: Redis has charged the key since. */
  untilSeconds: number;
  /** After that, one request asks Redis. The others are refused until this time. */
  askedUntilSeconds: number;
  /** How long Redis took to reply. */
  readonly repliedInSeconds: number;
  readonly resetAtSeconds: number;
  readonly merged: MergedDecision;
  /** When the key last had no units for any request, by this refusal or one before. Undefined: unknown, or not true any more. */
  known: LastKnown | undefined;
  /** The key's place in `backAtSeconds`. */
  readonly place: number;
}

/** What a refusal says of other requests of the policy and key, whatever they cost. */
export interface UsedUp {
  /** Names of the limits that have no units for the cheapest request of the policy. */
  readonly limits: readonly string[];
  /** Whether that is so of all limits that refused, until the time that they named. */
  readonly isLasting: boolean;
}

/** In each of two generations, which take turns: a few MB. */
const mostRemembered = 4096;
/** After this time Redis decides again in any case: other gateways may have refunded units. */
const longestSeconds = 10;
/** For Redis Cluster, where no epoch shows that a node was emptied. */
const longestInClusterSeconds = 1;
/**
 * A policy that delays, degrades or tags is charged before the request's other policies decide, so its units come back whenever one of them
 * refuses, at other gateways too. And a limit that is not used up changes with each smaller request.
 */
const shortSeconds = 0.1;

const versionKey = "refusals";
const seenKey = "refusals-seen:";
const lookEverySeconds = 0.02;
/** A worker that does not look for so long is stuck, or is being replaced. */
const mostWaitMs = 1_000;
const askEveryMs = 5;

/** By the key of the policy's first counter, and by plan: plans may have counters in common, and their requests may take turns. */
let recent: Record<string, Refusal | undefined> = {};
let older: Record<string, Refusal | undefined> = {};
let recentCount = 0;
let longest = longestSeconds;
let seenVersion: number | undefined;
/** Replies to checks submitted before this time are not cached, although they may still arrive. */
let forgottenAtSeconds = 0;
/** A reply that took longer is no measure: the clock may have stepped ahead. */
const longestReplySeconds = 1;
/** Longer than a reply is waited for. If the difference is larger, the clock has stepped back. */
const latestReplySeconds = 60;

/** Keys share these by their hash: what comes back for one makes the worker ask Redis again about all of its place. */
const places = 4096;
/** By place: when units last came back, in seconds since the epoch. A refusal that was asked for before says nothing any more. */
const backAtSeconds: number[] = [];
for (let place = 0; place < places; place++) backAtSeconds.push(0);
/** So many returns of units are in shared memory, each under its number. A worker that has missed more forgets all refusals. */
const mostReturns = 1024;
const returnsKey = "refusals-returns:";
let seenReturns: number | undefined;

/** Returns where the refusal of a policy and key is kept. */
function placeIn({ plan }: CompiledPolicy, name: string): string {
  return plan === undefined ? name : `${plan} ${name}`;
}

function refusalOf(policy: CompiledPolicy, name: string): Refusal | undefined {
  const at = placeIn(policy, name);
  return recent[at] ?? older[at];
}

/** Called when a worker starts. @param forgetMore clears other caches that are wrong after an operator has changed counters */
export function keepRefusalsTrue(settings: RedisSettings, forgetMore: () => void): void {
  runEvery(lookEverySeconds, () => {
    followReturns();
    if (!followVersion()) return;
    forgetMore();
    stateDict.safe_set(seenKey + ngx.worker.id(), seenVersion as number);
  });
  if (settings.deployment.kind === "cluster") {
    longest = longestInClusterSeconds;
    watchEpoch(
      settings,
      () => false,
      () => {},
    );
    return;
  }
  watchEpoch(
    settings,
    () => recentCount > 0,
    () => {
      for (const at in recent) dropSharedRefusal((recent[at] as Refusal).name);
      for (const at in older) dropSharedRefusal((older[at] as Refusal).name);
      forgetRefusals();
    },
  );
}

/**
 * @param name the key of the policy's first counter
 * @param merged the decisions of the limits that refused
 * @param usedUp tells how long the refusal may be cached, and what is known of the key while Redis is away
 * @param submittedAtSeconds since the epoch, when the check was submitted
 */
export function rememberRefusal(
  policy: CompiledPolicy,
  name: string,
  merged: MergedDecision,
  retryAfterUs: number,
  usedUp: UsedUp,
  submittedAtSeconds: number,
): void {
  // A cost beyond the capacity is always refused, but the remaining units that are reported change. A lifetime's total stays used up.
  const endsNever = retryAfterUs === never && isEndless(merged.decision);
  if (retryAfterUs === never && !endsNever) return;
  if (submittedAtSeconds < forgottenAtSeconds && submittedAtSeconds > forgottenAtSeconds - latestReplySeconds) return;
  const place = placeOf(name);
  const now = wallSeconds();
  if (haveComeBack(place, submittedAtSeconds, now)) return;
  const retrySeconds = (endsNever ? endless : retryAfterUs) / 1_000_000;
  const at = placeIn(policy, name);
  const before = recent[at] ?? older[at];
  const retryAtSeconds = submittedAtSeconds + retrySeconds;
  const mostSeconds = usedUp.isLasting && policy.policy.onLimit.action === "reject" ? longest : shortSeconds;
  if (recentCount >= mostRemembered) {
    older = recent;
    recent = {};
    recentCount = 0;
  }
  if (recent[at] === undefined) recentCount += 1;
  // Only what is shown first is counted down.
  if (merged.violated.length > 1) merged.others = [];
  const refusal: Refusal = {
    policy,
    name,
    submittedAtSeconds,
    retryAtSeconds,
    untilSeconds: submittedAtSeconds + math.min(retrySeconds, mostSeconds),
    askedUntilSeconds: 0,
    repliedInSeconds: math.min(math.max(now - submittedAtSeconds, 0), longestReplySeconds),
    resetAtSeconds: submittedAtSeconds + merged.decision.resetAfterUs / 1_000_000,
    merged,
    known: knownFrom(usedUp, submittedAtSeconds, retryAtSeconds),
    place,
  };
  recent[at] = refusal;
  if (refusal.known !== undefined) {
    shareRefusal(policy, name, seenVersion ?? 0, refusal.known, retryAtSeconds);
  } else if (before?.policy.limits === policy.limits) {
    noteUnits(before, name, submittedAtSeconds);
    refusal.known = before.known;
  }
}

/**
 * Returns whether the policy refuses for sure.
 *
 * @param name the key of its first counter
 * @param merged then receives the refusal
 */
export function recallRefusal(policy: CompiledPolicy, name: string, merged: MergedDecision): boolean {
  const refusal = refusalOf(policy, name);
  if (refusal === undefined || refusal.policy !== policy) return false;
  const now = wallSeconds();
  // The cached refusal does not apply either if the clock has stepped back behind it.
  if (now < refusal.submittedAtSeconds || haveComeBack(refusal.place, refusal.submittedAtSeconds, now)) return false;
  if (now >= refusal.untilSeconds && now >= refusal.askedUntilSeconds) return false;
  countRecalled();
  const { merged: remembered } = refusal;
  const { decision } = remembered;
  const retryAfterUs = math.ceil((refusal.retryAtSeconds - now) * 1_000_000);
  decision.retryAfterUs = retryAfterUs >= endless / 2 ? never : retryAfterUs;
  decision.resetAfterUs = math.ceil(math.max(refusal.resetAtSeconds - now, 0) * 1_000_000);
  if (remembered.violated.length === 1) mergeLimit(merged, policy, remembered.limitName, decision);
  else mergeAll(merged, remembered);
  return true;
}

/**
 * Called when a check is sent to Redis. If a refusal of its policy and key is over, other requests are refused without asking for as long as a reply
 * takes. Otherwise a slow Redis would get the whole flood.
 *
 * @param name the key of the policy's first counter
 */
export function noteAsked(policy: CompiledPolicy, name: string): undefined {
  const refusal = refusalOf(policy, name);
  if (refusal === undefined || refusal.policy !== policy || refusal.untilSeconds === 0) return;
  const now = wallSeconds();
  if (now < refusal.untilSeconds) return;
  refusal.askedUntilSeconds = math.min(now + refusal.repliedInSeconds, refusal.retryAtSeconds);
}

/** There was no reply to that check. */
export function noteUnanswered(policy: CompiledPolicy, name: string): undefined {
  const refusal = refusalOf(policy, name);
  if (refusal !== undefined) refusal.askedUntilSeconds = 0;
}

/**
 * Returns what is known of a key that Redis refused, however long ago: of the limits that had no units for any request. The other limits
 * had units, but the reply to a refused request does not say how many of those that did not refuse.
 *
 * @param name the key of the policy's first counter
 */
export function lastRefusal(policy: CompiledPolicy, name: string): LastKnown | undefined {
  const refusal = refusalOf(policy, name);
  const own = refusal === undefined || refusal.policy.limits !== policy.limits ? undefined : stillKnown(refusal);
  const others = readSharedRefusal(policy, name, seenVersion ?? 0);
  return own === undefined || (others !== undefined && others.nothingUntilUs > own.nothingUntilUs) ? others : own;
}

/** @returns undefined: the limits that refused had units, though too few for that request */
function knownFrom(
  { limits, isLasting }: UsedUp,
  submittedAtSeconds: number,
  retryAtSeconds: number,
): LastKnown | undefined {
  if (limits.length === 0) return undefined;
  return {
    atUs: math.floor(submittedAtSeconds * 1_000_000),
    nothingUntilUs: isLasting ? math.floor(retryAtSeconds * 1_000_000) : 0,
    limits,
  };
}

/** @returns undefined: units have come back since */
function stillKnown({ known, place }: Refusal): LastKnown | undefined {
  return known === undefined || haveComeBack(place, known.atUs / 1_000_000, wallSeconds()) ? undefined : known;
}

/** Redis had units between this time and now. If there were to be none, that is not true any more; that there were none once stays true. */
function noteUnits(refusal: Refusal, name: string, submittedAtSeconds: number): undefined {
  const { known } = refusal;
  if (known === undefined || submittedAtSeconds * 1_000_000 <= known.atUs) return;
  if (wallSeconds() * 1_000_000 >= known.nothingUntilUs) return;
  refusal.known = undefined;
  dropSharedRefusal(name);
}

/**
 * When the check of the last cached refusal was submitted, in seconds since the epoch; 0: none is cached.
 *
 * @param name the key of the policy's first counter
 */
export function refusalKnownSince(policy: CompiledPolicy, name: string): number {
  const refusal = refusalOf(policy, name);
  return refusal?.policy === policy ? refusal.submittedAtSeconds : 0;
}

/**
 * Called when Redis has charged the key by this policy: what clients are told of it is not true any more.
 *
 * @param name the key of the policy's first counter
 * @param submittedAtSeconds since the epoch, when the check was submitted, or shortly before
 */
export function forgetRefusalOf(policy: CompiledPolicy, name: string, submittedAtSeconds: number): void {
  const refusal = refusalOf(policy, name);
  if (refusal === undefined || submittedAtSeconds < refusal.submittedAtSeconds) return;
  refusal.untilSeconds = 0;
  refusal.askedUntilSeconds = 0;
  noteUnits(refusal, name, submittedAtSeconds);
}

/**
 * Called when units of the key were refunded: all workers of this nginx forget what they remember of it, the others as soon as they look.
 *
 * @param name the key of the policy's first counter
 */
export function noteUnitsBack(name: string): void {
  const place = placeOf(name);
  backAtSeconds[place] = wallSeconds();
  dropSharedRefusal(name);
  const [number = 0] = stateDict.incr(returnsKey, 1, 0);
  stateDict.safe_set(returnsKey + (number % mostReturns), number * places + place);
}

/**
 * Returns whether units of the key were refunded since then, as far as this worker has heard.
 *
 * @param name the key of the policy's first counter
 * @param sinceSeconds since the epoch
 */
export function haveUnitsComeBack(name: string, sinceSeconds: number): boolean {
  return haveComeBack(placeOf(name), sinceSeconds, wallSeconds());
}

/** What is noted ahead of the clock is from before the clock stepped back, and would hold for as long as that step. */
function haveComeBack(place: number, sinceSeconds: number, now: number): boolean {
  const backAt = backAtSeconds[place] as number;
  return sinceSeconds < backAt && backAt <= now;
}

function placeOf(name: string): number {
  return ngx.crc32_short(name) % places;
}

/** Forgets what units have come back for since the last look. */
function followReturns(): undefined {
  const [last = 0] = stateDict.get<number>(returnsKey);
  const seen = seenReturns ?? last;
  seenReturns = last;
  if (last === seen) return;
  const now = wallSeconds();
  for (let number = math.max(seen + 1, last - mostReturns); number <= last; number++) {
    const [noted = 0] = stateDict.get<number>(returnsKey + (number % mostReturns));
    // Another worker has written over it since, or is about to write it.
    if (math.floor(noted / places) !== number) {
      forgetRefusals();
      return;
    }
    backAtSeconds[noted % places] = now;
  }
}

export function forgetRefusals(): void {
  recent = {};
  older = {};
  recentCount = 0;
  forgottenAtSeconds = wallSeconds();
}

/**
 * Makes every worker of this nginx forget its refusals, because an operator has changed counters. Yields until they have had time
 * to notice.
 */
export function forgetRefusalsEverywhere(): void {
  const [version] = stateDict.incr(versionKey, 1, 0);
  for (let waitedMs = 0; waitedMs < mostWaitMs; waitedMs += askEveryMs) {
    sleepMs(askEveryMs);
    if (haveAllSeen(version)) return;
  }
}

function haveAllSeen(version = 0): boolean {
  for (let id = 0; id < ngx.worker.count(); id++) {
    if ((stateDict.get<number>(seenKey + id)[0] ?? -1) < version) return false;
  }
  return true;
}

/** @returns whether the version has changed */
function followVersion(): boolean {
  const [version] = stateDict.get<number>(versionKey);
  if (version === seenVersion) return false;
  seenVersion = version;
  forgetRefusals();
  return true;
}

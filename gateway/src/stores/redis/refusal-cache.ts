// Refusals by Redis, remembered on the worker that heard them until they can first change, so that a flood over the limit asks
// Redis nothing. What is refused cannot be admitted earlier, unless units are given back meanwhile: those are had a little
// later. A refusal by slots of concurrency, which come back at any moment, is not remembered.

import { never } from "../../../../limiter/src/algorithms/decision.ts";
import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeAll, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { countRecalled } from "../../metrics/redis-calls.ts";
import { watchEpoch } from "../../redis/epoch.ts";
import { sleepMs } from "../../runtime/clock.ts";
import { stateDict } from "../../runtime/shared-memory.ts";
import { wallSeconds } from "../../runtime/stopwatch.ts";
import type { RedisSettings } from "../../settings.ts";
import { readSharedRefusal, shareRefusal } from "./shared-refusals.ts";

interface Refusal {
  /** As it was compiled: one that was edited since is another. */
  readonly policy: CompiledPolicy;
  readonly submittedAtSeconds: number;
  /** As Redis said, there is nothing before: clients are told so. */
  readonly retryAtSeconds: number;
  /** Then Redis is asked again. */
  readonly untilSeconds: number;
  readonly resetAtSeconds: number;
  readonly merged: MergedDecision;
}

/** In each of two generations, which take turns: a few MB. */
const mostRemembered = 4096;
/** Then Redis is asked in any case. */
const longestSeconds = 120;
/** With Redis Cluster, of which no epoch tells that a node was emptied. */
const longestInClusterSeconds = 1;

const versionKey = "refusals";
const lookEverySeconds = 0.02;
const lookedAfterMs = 40;

let recent: Record<string, Refusal | undefined> = {};
let older: Record<string, Refusal | undefined> = {};
let recentCount = 0;
let longest = longestSeconds;
let seenVersion: number | undefined;
/** What was asked before says nothing any more: its reply may come still. */
let forgottenAtSeconds = 0;
/** Longer than a reply is waited for; the clock has stepped back where it is more. */
const latestReplySeconds = 60;

/** For each worker's start. @param forgetMore what else is not so when an operator has changed counters by hand */
export function keepRefusalsTrue(settings: RedisSettings, forgetMore: () => void): void {
  ngx.timer.every(lookEverySeconds, () => {
    if (followVersion()) forgetMore();
  });
  if (settings.deployment.kind === "cluster") {
    longest = longestInClusterSeconds;
    return;
  }
  watchEpoch(settings, () => recentCount > 0, forgetRefusals);
}

/**
 * @param name the key of its first counter
 * @param told what each limit of the policy said: it refused
 * @param askedAtSeconds since the epoch, when Redis was asked
 */
export function rememberRefusal(
  policy: CompiledPolicy,
  name: string,
  merged: MergedDecision,
  retryAfterUs: number,
  submittedAtSeconds: number,
): void {
  // A cost beyond capacity is refused always, but what is told to be left changes.
  if (retryAfterUs === never) return;
  if (submittedAtSeconds < forgottenAtSeconds && submittedAtSeconds > forgottenAtSeconds - latestReplySeconds) return;
  const retrySeconds = retryAfterUs / 1_000_000;
  if (recentCount >= mostRemembered) {
    older = recent;
    recent = {};
    recentCount = 0;
  }
  if (recent[name] === undefined) recentCount += 1;
  recent[name] = {
    policy,
    submittedAtSeconds,
    retryAtSeconds: submittedAtSeconds + retrySeconds,
    untilSeconds: submittedAtSeconds + math.min(retrySeconds, longest),
    resetAtSeconds: submittedAtSeconds + merged.decision.resetAfterUs / 1_000_000,
    merged,
  };
  shareRefusal(policy.counterPrefix, name, seenVersion ?? 0, lastKnownOf(recent[name] as Refusal));
}

/** Whether the policy refuses for sure. @param name the key of its first counter @param verdict hears it then */
export function recallRefusal(policy: CompiledPolicy, name: string, merged: MergedDecision): boolean {
  const refusal = recent[name] ?? older[name];
  if (refusal === undefined || refusal.policy !== policy) return false;
  const now = wallSeconds();
  // Nor where the clock has stepped back behind it.
  if (now >= refusal.untilSeconds || now < refusal.submittedAtSeconds) return false;
  countRecalled();
  const { merged: remembered } = refusal;
  const { decision } = remembered;
  decision.retryAfterUs = math.ceil((refusal.retryAtSeconds - now) * 1_000_000);
  decision.resetAfterUs = math.ceil(math.max(refusal.resetAtSeconds - now, 0) * 1_000_000);
  if (remembered.violated.length === 1) mergeLimit(merged, policy, remembered.limitName, decision);
  else mergeAll(merged, remembered);
  return true;
}

/**
 * What is known of a key that Redis refused, however long ago: of the limits that refused. The others had units, and how many
 * was not said to whoever was refused.
 *
 * @param name the key of its first counter
 */
export function lastRefusal(policy: CompiledPolicy, name: string): LastKnown | undefined {
  const refusal = recent[name] ?? older[name];
  const own = refusal === undefined || refusal.policy.limits !== policy.limits ? undefined : lastKnownOf(refusal);
  const others = readSharedRefusal(name, seenVersion ?? 0);
  return own === undefined || (others !== undefined && others.nothingUntilUs > own.nothingUntilUs) ? others : own;
}

function lastKnownOf({ submittedAtSeconds, retryAtSeconds, merged }: Refusal): LastKnown {
  return {
    atUs: math.floor(submittedAtSeconds * 1_000_000),
    nothingUntilUs: math.floor(retryAtSeconds * 1_000_000),
    limits: merged.violated,
  };
}

/** When Redis was asked who refused last, in seconds since the epoch; 0: nobody remembers. @param name the key of its first counter */
export function refusalKnownSince(policy: CompiledPolicy, name: string): number {
  const refusal = recent[name] ?? older[name];
  return refusal?.policy === policy ? refusal.submittedAtSeconds : 0;
}

/** All of them. */
export function forgetRefusals(): void {
  recent = {};
  older = {};
  recentCount = 0;
  forgottenAtSeconds = wallSeconds();
}

/** By every worker of this nginx: an operator has changed counters by hand. Yields until they have had time to look. */
export function forgetRefusalsEverywhere(): void {
  stateDict.incr(versionKey, 1, 0);
  sleepMs(lookedAfterMs);
}

/** @returns whether there was another */
function followVersion(): boolean {
  const [version] = stateDict.get<number>(versionKey);
  if (version === seenVersion) return false;
  seenVersion = version;
  forgetRefusals();
  return true;
}

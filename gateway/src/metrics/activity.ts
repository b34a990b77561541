// What the control plane shows of this gateway's traffic: decisions by policy, and the keys that had most of them. Each worker sums its own
// and puts a report into shared memory when the owner of the push socket has taken the last one. Nothing is reported while
// no control plane takes it: the sums go on growing, in memory that the policies bound, and the next report covers the whole time.

import type { KeyActivity, PolicyActivity, WorkerActivity } from "../../../limiter/src/protocol/activity.ts";
import * as sketch from "../../../limiter/src/sketch/key-counts.ts";
import { nowMs } from "../runtime/clock.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { metricsDict } from "../runtime/shared-memory.ts";
import { wellFormed } from "../runtime/well-formed.ts";
import { policiesOf } from "../snapshot/current.ts";

/** The decisions of a policy since they were last reported. */
export interface ReportedCounts {
  readonly allowed: number;
  readonly refused: number;
  readonly "shadow-refused": number;
  readonly degraded: number;
  readonly delayed: number;
  readonly admittedKeys: sketch.KeyCounts;
  readonly refusedKeys: sketch.KeyCounts;
}

/** Keys of a policy are counted for so long before they are reported. */
const keysEveryMs = 10_000;
/** Keys that were counted for longer, as no control plane took them, say nothing about the last minute. */
const keysStaleMs = 60_000;
const handOverEveryMs = 500;
/** The error of a policy's counts is less than a 256th of its requests. */
const mostKeysOfPolicy = 512;
/** Beyond so many on this worker, each policy has but a few. They take about 200 bytes each. */
const mostKeys = 65_536;
const fewKeys = 8;
const mostKeysReported = 100;
/** Keeps a report below `mostReportBytes`: two names take at most 126 bytes, a key 200. */
const mostPoliciesInReport = 150;
const mostKeysInReport = 2 * mostKeysReported;
const mostReportBytes = 131_072;

interface CountedKeys {
  readonly app: string;
  readonly policy: string;
  readonly counts: ReportedCounts;
  readonly sinceMs: number;
}

const unreported: Record<string, PolicyActivity | undefined> = {};
let unreportedCount = 0;
let unreportedSinceMs = 0;
let handedOverAtMs = 0;

/** Whose keys are among `counted`. */
const beingCounted = new LuaTable<ReportedCounts, boolean | undefined>();
/** In the order in which they began. */
let counted: CountedKeys[] = [];
let countedTo = 0;
let keysHeld = 0;
/** When there are so many policies to report, those that are gone are forgotten: policies may be renamed again and again. */
let mostToReport = 0;
/** The worker whose report is taken next. */
let nextWorker = 0;

export function newTopKeys(): sketch.KeyCounts {
  return sketch.newKeyCounts(mostKeysOfPolicy);
}

/** Counts a key that has no count yet. */
export function countNewKey(keys: sketch.KeyCounts, keyValues: string): void {
  const before = keys.size;
  keys.capacity = keysHeld < mostKeys ? mostKeysOfPolicy : math.max(fewKeys, before);
  sketch.countKey(keys, keyValues, 1);
  keysHeld += keys.size - before;
}

/** Takes over what was counted of a policy since the last call. */
export function noteDecisions(app: string, policy: string, counts: ReportedCounts): void {
  const name = `${app}/${policy}`;
  let activity = unreported[name];
  if (activity === undefined) {
    if (unreportedCount + counted.length - countedTo >= mostToReport) forgetGonePolicies();
    activity = { app, policy, allowed: 0, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
    unreported[name] = activity;
    unreportedCount += 1;
  }
  activity.allowed += counts.allowed;
  activity.refused += counts.refused;
  activity.shadowRefused += counts["shadow-refused"];
  activity.degraded += counts.degraded;
  activity.delayed += counts.delayed;
  if (beingCounted.get(counts) || counts.admittedKeys.size + counts.refusedKeys.size === 0) return;
  beingCounted.set(counts, true);
  counted.push({ app, policy, counts, sinceMs: nowMs() });
}

/** Puts a report into shared memory, if the last one has been taken. */
export function handActivityOver(): void {
  const now = nowMs();
  if (now - handedOverAtMs < handOverEveryMs) return;
  handedOverAtMs = now;
  if (unreportedSinceMs === 0) unreportedSinceMs = now;
  const key = reportKey(ngx.worker.id() ?? 0);
  // Reports leave as much to all other numbers as series do.
  if (metricsDict.get(key)[0] !== undefined || metricsDict.free_space() < 2 * mostReportBytes) return;
  const report: WorkerActivity = {
    fromMs: unreportedSinceMs,
    toMs: now,
    policies: takePolicies(),
    keys: takeKeys(now),
  };
  unreportedSinceMs = now;
  if (report.policies.length + report.keys.length > 0) metricsDict.safe_set(key, cjson.encode(report));
}

function takePolicies(): PolicyActivity[] {
  const taken: PolicyActivity[] = [];
  for (const name in unreported) {
    if (taken.length === mostPoliciesInReport) break;
    taken.push(unreported[name] as PolicyActivity);
    unreported[name] = undefined;
  }
  unreportedCount -= taken.length;
  return taken;
}

/** What there is to report of a policy that is gone is lost, unless a report was made before. */
function forgetGonePolicies(): void {
  for (const name in unreported) {
    const { app, policy } = unreported[name] as PolicyActivity;
    if (isInForce(app, policy)) continue;
    unreported[name] = undefined;
    unreportedCount -= 1;
  }
  const kept: CountedKeys[] = [];
  for (let i = countedTo; i < counted.length; i++) {
    const keys = counted[i] as CountedKeys;
    if (isInForce(keys.app, keys.policy)) kept.push(keys);
    else forgetKeys(keys);
  }
  counted = kept;
  countedTo = 0;
  // So a call costs no more than the fifth of entries that were added since the last one.
  mostToReport = 100 + 1.2 * (unreportedCount + kept.length);
}

function isInForce(app: string, policy: string): boolean {
  return policiesOf(app)[policy] !== undefined;
}

function forgetKeys({ counts }: CountedKeys): void {
  beingCounted.delete(counts);
  keysHeld -= counts.admittedKeys.size + counts.refusedKeys.size;
  sketch.clearKeyCounts(counts.admittedKeys);
  sketch.clearKeyCounts(counts.refusedKeys);
}

/** Takes the keys that have been counted for long enough, of as many policies as a report has room for. */
function takeKeys(now: number): KeyActivity[] {
  const taken: KeyActivity[] = [];
  let room = mostKeysInReport;
  while (room > 0) {
    const oldest = counted[countedTo];
    if (oldest === undefined || now - oldest.sinceMs < keysEveryMs) break;
    countedTo += 1;
    const { admittedKeys, refusedKeys } = oldest.counts;
    if (now - oldest.sinceMs <= keysStaleMs) {
      room -= addKeys(taken, oldest, "admitted", admittedKeys) + addKeys(taken, oldest, "refused", refusedKeys);
    }
    forgetKeys(oldest);
  }
  if (counted[countedTo] === undefined) {
    counted = [];
    countedTo = 0;
  }
  return taken;
}

/** @returns how many keys were added */
function addKeys(
  to: KeyActivity[],
  { app, policy, sinceMs }: CountedKeys,
  result: KeyActivity["result"],
  keys: sketch.KeyCounts,
): number {
  if (keys.size === 0) return 0;
  const largest = sketch.largestCounts(keys, mostKeysReported);
  const { error } = keys;
  const names = largest.keys.map((key) => wellFormed(key));
  to.push({ app, policy, result, sinceMs, keys: names, counts: largest.counts, error, unlisted: largest.unlisted });
  return names.length;
}

/**
 * Returns the reports that wait, as JSON texts, in turns of the workers: those for which there is no room wait for the next call.
 *
 * @param mostBytes the size of the texts, beyond which no other is taken
 */
export function takeActivity(mostBytes: number): string[] {
  const texts: string[] = [];
  const workers = ngx.worker.count();
  let bytes = 0;
  for (let turn = 0; turn < workers && bytes < mostBytes; turn++) {
    const key = reportKey(nextWorker);
    nextWorker = (nextWorker + 1) % workers;
    const [text] = metricsDict.get<string>(key);
    if (text === undefined) continue;
    metricsDict.delete(key);
    texts.push(text);
    bytes += text.length;
  }
  return texts;
}

function reportKey(worker: number): string {
  return `activity:${worker}`;
}

// What the control plane shows of this gateway's traffic: decisions by policy, and the keys that had most of them. Each worker sums its own
// and puts a report into shared memory when the owner of the push socket has taken the last one. Nothing is reported while
// no control plane takes it: the sums go on growing, in memory that the policies bound, and the next report covers the whole time.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { keyPartText } from "../../../limiter/src/key/key-part.ts";
import type { KeyActivity, PolicyActivity, WorkerActivity } from "../../../limiter/src/protocol/activity.ts";
import * as sketch from "../../../limiter/src/sketch/key-counts.ts";
import { nowMs } from "../runtime/clock.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { dequeue, enqueue, lengthOf, newQueue, oldestOf, type Queue } from "../runtime/queue.ts";
import { metricsDict } from "../runtime/shared-memory.ts";
import { stopwatchMs } from "../runtime/stopwatch.ts";
import { wellFormed } from "../runtime/well-formed.ts";
import { policiesOf } from "../snapshot/current.ts";
import {
  admittedKeys,
  allowed,
  type DecisionCounts,
  degraded,
  delayed,
  hasCountedKeys,
  refused,
  refusedKeys,
  shadowRefused,
  soleCount,
  soleKey,
} from "./decision-counts.ts";

/** Keys of a policy are counted for so long before they are reported. */
const keysEveryMs = 10_000;
/** Keys that were counted for longer, as no control plane took them, say nothing about the last minute. */
const keysStaleMs = 60_000;
const handOverEveryMs = 500;
/** The control plane keeps nothing for longer. It also ends the report of a worker that a reload has left out. */
const reportLivesSeconds = 86_400;
/** The error of a policy's counts is usually less than a 256th of its requests. Each report says what it is. */
const mostKeysOfPolicy = 512;
/** Beyond so many on this worker, each policy has but a few. They take about 200 bytes each. */
const mostKeys = 65_536;
const fewKeys = 8;
const mostKeysReported = 100;
/** Keep a report below `mostReportBytes`: two names take at most 126 bytes, a key 200 if JSON does not escape it. */
const mostPoliciesInReport = 150;
const mostKeysInReport = 2 * mostKeysReported;
const mostReportBytes = 131_072;

interface CountedKeys {
  readonly app: string;
  readonly policy: string;
  /** The parts of the policy's key. */
  readonly key: string[];
  readonly counts: DecisionCounts;
  readonly sinceMs: number;
  /** The same by the stopwatch. */
  readonly beganAtMs: number;
}

/** By name. */
const unreported: Record<string, PolicyActivity | undefined> = {};
/** The same, in the order in which they began: if there are too many for a report, none waits for ever. */
let unreportedInOrder = newQueue<PolicyActivity>();
/** A report that could not be put into shared memory. */
let unsent: string | undefined;
/** By the stopwatch. */
let handedOverAtMs = 0;

/** In the order in which they began. */
let counted = newQueue<CountedKeys>();
let keysHeld = 0;
/** When there are so many policies to report, those that are gone are forgotten: policies may be renamed again and again. */
let mostToReport = 0;
/** The worker whose report is taken next. */
let nextWorker = 0;

/** Returns the parts of a policy's key, as reports name them. */
export function keyTextsOf({ policy }: CompiledPolicy): string[] {
  return policy.key.map((part) => keyPartText(part));
}

/** Counts a key that has no count yet. */
export function countNewKey(
  counts: DecisionCounts,
  place: typeof admittedKeys | typeof refusedKeys,
  keyValues: string,
): undefined {
  if (place === admittedKeys && counts[admittedKeys] === false && counts[soleKey] === "") {
    counts[soleKey] = keyValues;
    counts[soleCount] = 1;
    keysHeld += 1;
    return;
  }
  const known = place === admittedKeys ? admittedKeysOf(counts) : counts[place];
  const keys = known === false ? sketch.newKeyCounts(mostKeysOfPolicy) : known;
  counts[place] = keys;
  if (place === admittedKeys) counts[soleKey] = "";
  const before = keys.size;
  keys.capacity = keysHeld < mostKeys ? mostKeysOfPolicy : math.max(fewKeys, before);
  sketch.countKey(keys, keyValues, ngx.crc32_short);
  keysHeld += keys.size - before;
}

function admittedKeysOf(counts: DecisionCounts): sketch.KeyCounts | false {
  const sole = counts[soleKey];
  return sole === "" ? counts[admittedKeys] : sketch.keyCountsOf(mostKeysOfPolicy, sole, counts[soleCount]);
}

/** Takes over what was counted of a policy since the last call. */
export function noteDecisions(compiled: CompiledPolicy, counts: DecisionCounts): void {
  const { app, name: policy } = compiled;
  const name = nameOf({ app, policy });
  let activity = unreported[name];
  if (activity === undefined) {
    if (lengthOf(unreportedInOrder) + lengthOf(counted) >= mostToReport) forgetGonePolicies();
    activity = { app, policy, fromMs: nowMs(), allowed: 0, refused: 0, shadowRefused: 0, degraded: 0, delayed: 0 };
    unreported[name] = activity;
    enqueue(unreportedInOrder, activity);
  }
  activity.allowed += counts[allowed];
  activity.refused += counts[refused];
  activity.shadowRefused += counts[shadowRefused];
  activity.degraded += counts[degraded];
  activity.delayed += counts[delayed];
  if (counts[hasCountedKeys] || sizeOfKeys(counts) === 0) return;
  counts[hasCountedKeys] = true;
  enqueue(counted, { app, policy, key: keyTextsOf(compiled), counts, sinceMs: nowMs(), beganAtMs: stopwatchMs() });
}

function sizeOfKeys(counts: DecisionCounts): number {
  const sole = counts[soleKey] === "" ? 0 : 1;
  const admitted = counts[admittedKeys];
  const others = counts[refusedKeys];
  return sole + (admitted === false ? 0 : admitted.size) + (others === false ? 0 : others.size);
}

/**
 * Puts a report into shared memory, if the last one has been taken. What does not fit into it waits for the next one.
 *
 * @param isLast the worker ends: it waits for nothing
 */
export function handActivityOver(isLast: boolean): void {
  const now = stopwatchMs();
  if (!isLast && now - handedOverAtMs < handOverEveryMs) return;
  handedOverAtMs = now;
  const key = reportKey(ngx.worker.id() ?? 0);
  // Reports leave as much to all other numbers as series do.
  if (metricsDict.get(key)[0] !== undefined || metricsDict.free_space() < 2 * mostReportBytes) return;
  if (unsent === undefined) {
    const report: WorkerActivity = { toMs: nowMs(), policies: takePolicies(), keys: takeKeys(now, isLast) };
    if (report.policies.length + report.keys.length === 0) return;
    unsent = cjson.encode(report);
  }
  // After a reload, an old and a new worker may write at the same moment: one of them does so later.
  if (metricsDict.safe_add(key, unsent, reportLivesSeconds)[0] === true) unsent = undefined;
}

function takePolicies(): PolicyActivity[] {
  const taken: PolicyActivity[] = [];
  while (taken.length < mostPoliciesInReport) {
    const activity = dequeue(unreportedInOrder);
    if (activity === undefined) break;
    unreported[nameOf(activity)] = undefined;
    taken.push(activity);
  }
  return taken;
}

function nameOf({ app, policy }: Pick<PolicyActivity, "app" | "policy">): string {
  return `${app}/${policy}`;
}

/** What there is to report of a policy that is gone is lost, unless a report was made before. */
function forgetGonePolicies(): void {
  unreportedInOrder = inForce(unreportedInOrder, (gone) => {
    unreported[nameOf(gone)] = undefined;
  });
  counted = inForce(counted, forgetKeys);
  // So a call costs no more than the fifth of entries that were added since the last one.
  mostToReport = 100 + 1.2 * (lengthOf(unreportedInOrder) + lengthOf(counted));
}

/** Returns those of policies that are in force, and empties the queue. */
function inForce<Item extends { readonly app: string; readonly policy: string }>(
  queue: Queue<Item>,
  forget: (gone: Item) => void,
): Queue<Item> {
  const kept = newQueue<Item>();
  for (let item = dequeue(queue); item !== undefined; item = dequeue(queue)) {
    if (policiesOf(item.app)[item.policy] !== undefined) enqueue(kept, item);
    else forget(item);
  }
  return kept;
}

function forgetKeys({ counts }: CountedKeys): void {
  keysHeld -= sizeOfKeys(counts);
  counts[hasCountedKeys] = false;
  counts[soleKey] = "";
  counts[admittedKeys] = false;
  counts[refusedKeys] = false;
}

/**
 * Takes the keys that have been counted for long enough, of as many policies as a report has room for.
 *
 * @param now by the stopwatch
 * @param isLast those that have not are taken too
 */
function takeKeys(now: number, isLast: boolean): KeyActivity[] {
  const taken: KeyActivity[] = [];
  let room = mostKeysInReport;
  while (room > 0) {
    const oldest = oldestOf(counted);
    if (oldest === undefined || (!isLast && now - oldest.beganAtMs < keysEveryMs)) break;
    dequeue(counted);
    const { counts } = oldest;
    if (now - oldest.beganAtMs <= keysStaleMs) {
      room -= addKeys(taken, oldest, "admitted", admittedKeysOf(counts));
      room -= addKeys(taken, oldest, "refused", counts[refusedKeys]);
    }
    forgetKeys(oldest);
  }
  return taken;
}

/** @returns how many keys were added */
function addKeys(
  to: KeyActivity[],
  { app, policy, key, sinceMs }: CountedKeys,
  result: KeyActivity["result"],
  keys: sketch.KeyCounts | false,
): number {
  if (keys === false || keys.size === 0) return 0;
  const largest = sketch.largestCounts(keys, mostKeysReported);
  const error = sketch.errorOf(keys);
  const names = largest.keys.map((key) => wellFormed(key));
  const { unlisted } = largest;
  to.push({ app, policy, key, result, sinceMs, keys: names, counts: largest.counts, error, unlisted });
  return names.length + key.length;
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

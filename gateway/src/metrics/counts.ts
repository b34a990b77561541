// Counts of decisions by policy and result, and of other events. Each worker counts in its own memory and adds to the shared dict
// now and then, so that counting costs a request no access to shared memory.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { runEvery } from "../runtime/background.ts";
import { reportSmallMetrics } from "../runtime/missing-parts.ts";
import { dequeue, enqueue, lengthOf, newQueue } from "../runtime/queue.ts";
import { addSafely, metricsDict } from "../runtime/shared-memory.ts";
import { weakValues } from "../runtime/tables.ts";
import { countNewKey, handActivityOver, keyTextsOf, noteDecisions } from "./activity.ts";
import {
  admittedKeys,
  allowed,
  type DecisionCounts,
  degraded,
  delayed,
  isPending,
  newDecisionCounts,
  refused,
  refusedKeys,
  shadowRefused,
  soleCount,
  soleKey,
} from "./decision-counts.ts";

/**
 * degraded: Redis did not decide. delayed: the request had to wait, or its caller was told to. Both are counted once a request, in
 * addition to the result that it then had.
 */
export type Result = "allowed" | "refused" | "shadow-refused" | "degraded" | "delayed";

/** Each decision has one of them. */
export const decisionResults: readonly Result[] = ["allowed", "refused", "shadow-refused"];
const results: readonly Result[] = ["allowed", "refused", "shadow-refused", "degraded", "delayed"];
const places = { allowed, refused, "shadow-refused": shadowRefused, degraded, delayed } as const;

/**
 * - lock-timeouts: a charge was made without its lock.
 * - evictions: a counter of another key was dropped to make room, which must never happen.
 * - overflow-admissions, overflow-refusals: a cell that several keys share decided, because there was no memory.
 * - uncounted-refusals: there was no memory even for that.
 * - unstored-charges: the same for the charge of a response.
 * - unsettled-responses: a response was not charged.
 * - late-renewals: concurrency slots were already lost when they were renewed.
 * - banned-requests: the address or the key of the request is banned.
 * - waiting-refusals: too many requests waited already.
 * - unlisted-decisions: there was no memory for a series of the policy.
 */
export type Event =
  | "lock-timeouts"
  | "evictions"
  | "overflow-admissions"
  | "overflow-refusals"
  | "uncounted-refusals"
  | "unstored-charges"
  | "unsettled-responses"
  | "late-renewals"
  | "banned-requests"
  | "waiting-refusals"
  | "unlisted-decisions";

const flushEverySeconds = 0.1;
const mostPoliciesAtOnce = 500;
/**
 * Separates app and policy in the key of a series. A single character encodes the result, so that the longest key has 127
 * characters: LuaJIT hashes only a few bytes of a longer string, and to make the keys of ten thousand such names takes seconds.
 */
const separators: Readonly<Record<Result, string>> = {
  allowed: "=",
  refused: "!",
  "shadow-refused": "~",
  degraded: "?",
  delayed: "+",
};
const seriesPattern = "^([%w-]+)[=!~?+]([%w-]+)$";
/** Prefix of the sums over all policies, including removed ones. A reader of the sum does not have to read the series. */
const totalKey = "total:";
/**
 * Space in whole pages that series leave free for all other numbers. There are fewer than a hundred of those, which take a third
 * of it.
 */
const leftToOthersBytes = 65_536;
const checkKey = "ask:";
/** By the status; to make a text of a number takes longer than to count. */
const checkKeys: Record<number, string> = {};

let pending: Record<string, number> = {};
/**
 * By policy and key. Overrides, costs that requests state, and revisions of a policy are counted together: each cost beyond the few
 * that are remembered is a compiled policy of its own, as many as a hostile client states.
 */
const countsByName = weakValues<DecisionCounts>();
const unflushed = newQueue<CompiledPolicy>();

/** @param keyValues encoded; undefined: the request has none, or nobody asks whose it was */
export function countDecision(policy: CompiledPolicy, result: Result, keyValues: string | undefined): void {
  const counts = (policy.counts as DecisionCounts | undefined) ?? newCounts(policy);
  counts[places[result]] += 1;
  if (keyValues !== undefined) {
    if (result !== "allowed") countKey(counts, refusedKeys, keyValues);
    else if (counts[soleKey] === keyValues) counts[soleCount] += 1;
    else countKey(counts, admittedKeys, keyValues);
  }
  if (counts[isPending]) return;
  counts[isPending] = true;
  enqueue(unflushed, policy);
}

function countKey(
  counts: DecisionCounts,
  place: typeof admittedKeys | typeof refusedKeys,
  keyValues: string,
): undefined {
  const known = counts[place];
  const counted = known === false ? undefined : known.counts[keyValues];
  if (known === false || counted === undefined) return countNewKey(counts, place, keyValues);
  known.counts[keyValues] = counted + 1;
}

function newCounts(policy: CompiledPolicy): DecisionCounts {
  const name = policy.counterPrefix + keyTextsOf(policy).join("\n");
  const counts = countsByName.get(name) ?? newDecisionCounts();
  countsByName.set(name, counts);
  policy.counts = counts;
  return counts;
}

export function countEvent(event: Event): void {
  addPending(event, 1);
}

/** Counts a request of the check API by the status of its answer. */
export function countCheckRequest(status: number): void {
  checkKeys[status] ??= checkKey + status;
  addPending(checkKeys[status], 1);
}

/** Adds to any number that is kept in the metrics dict. */
export function addPending(key: string, amount: number): void {
  pending[key] = (pending[key] ?? 0) + amount;
}

/**
 * Adds to the shared dict at once, and evicts nothing. If series have left no room, the amount stays pending until there is some.
 */
export function addNow(key: string, amount: number): void {
  if (addSafely(metricsDict, key, amount, 0) === undefined) addPending(key, amount);
}

/** Returns what all workers have flushed of one number. */
export function flushedCount(key: string): number {
  return metricsDict.get<number>(key)[0] ?? 0;
}

export function eventCount(event: Event): number {
  return flushedCount(event);
}

/** Called when a worker starts. The last flush runs when the worker ends. */
export function flushCounts(): void {
  runEvery(flushEverySeconds, (premature) => {
    flushPolicies(premature ? lengthOf(unflushed) : mostPoliciesAtOnce);
    handActivityOver(premature);
    const flushed = pending;
    pending = {};
    for (const key in flushed) addNow(key, flushed[key] as number);
  });
}

/**
 * Flushes the policies that have waited longest. The bound makes ten thousand policies take turns, so that no flush stalls
 * requests.
 */
function flushPolicies(most: number): void {
  for (let left = most; left > 0; left--) {
    const policy = dequeue(unflushed);
    if (policy === undefined) return;
    flushPolicyCounts(policy, policy.counts as DecisionCounts);
  }
}

function flushPolicyCounts(policy: CompiledPolicy, counts: DecisionCounts): void {
  const { app, name } = policy;
  counts[isPending] = false;
  noteDecisions(policy, counts);
  for (const result of results) {
    const count = counts[places[result]];
    counts[places[result]] = 0;
    if (count === 0) continue;
    addPending(totalKey + result, count);
    if (addToSeries(seriesKey(app, name, result), count)) continue;
    countUnlisted(count);
  }
}

/**
 * Adds to a series. A new series takes free space only and evicts nothing. Workers that check the free space at the same time may
 * together take one page too many for each size of key, of which there are three.
 *
 * @returns whether there was room
 */
function addToSeries(key: string, count: number): boolean {
  if (metricsDict.incr(key, count)[0] !== undefined) return true;
  return metricsDict.free_space() >= leftToOthersBytes && addSafely(metricsDict, key, count, 0) !== undefined;
}

function countUnlisted(count: number): void {
  addPending("unlisted-decisions" satisfies Event, count);
  reportSmallMetrics();
}

function seriesKey(app: string, policy: string, result: Result): string {
  return app + separators[result] + policy;
}

/** Returns what all workers have flushed of a policy; undefined: nothing. */
export function decisionCount(app: string, policy: string, result: Result): number | undefined {
  return metricsDict.get<number>(seriesKey(app, policy, result))[0];
}

/** @returns the app and the policy of the series with this key; undefined if the key belongs to another number */
export function policyOfSeries(key: string): LuaMultiReturn<[app: string | undefined, policy: string | undefined]> {
  const [app, policy] = string.match(key, seriesPattern);
  return $multi(app, policy);
}

/** Sums over all policies by result, including removed policies. */
export function decisionTotals(): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const result of results) totals[result] = flushedCount(totalKey + result);
  return totals;
}

/** Returns how many requests of the check API were answered with this status. */
export function checkCount(status: number): number {
  return flushedCount(checkKey + status);
}

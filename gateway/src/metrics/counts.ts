// Counts of decisions by policy, plan and result, and of other events. Each worker counts in its own memory and adds to the shared dict
// now and then, so that counting costs a request no access to shared memory.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { runEvery } from "../runtime/background.ts";
import { reportSmallMetrics } from "../runtime/missing-parts.ts";
import { dequeue, enqueue, lengthOf, newQueue } from "../runtime/queue.ts";
import { addSafely, metricsDict } from "../runtime/shared-memory.ts";
import { weakValues } from "../runtime/tables.ts";
import { policiesOf } from "../snapshot/current.ts";
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
  refusedByLimit,
  refusedKeys,
  shadowRefused,
  soleCount,
  soleKey,
} from "./decision-counts.ts";
import { hasLimit, type Result, type SeriesKind, seriesKey } from "./series.ts";

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
 * By policy, plan and key. Overrides, costs that requests state, and revisions of a policy are counted together: each cost beyond the few
 * that are remembered is a compiled policy of its own, as many as a hostile client states.
 */
const countsByName = weakValues<DecisionCounts>();
const unflushed = newQueue<CompiledPolicy>();

/** @param keyValues encoded; undefined: the request has none, or nobody asks whose it was */
export function countDecision(policy: CompiledPolicy, result: Result, keyValues: string | undefined): void {
  const counts = countsOf(policy);
  counts[places[result]] += 1;
  if (keyValues !== undefined) {
    if (result !== "allowed") countKey(counts, refusedKeys, keyValues);
    else if (counts[soleKey] === keyValues) counts[soleCount] += 1;
    else countKey(counts, admittedKeys, keyValues);
  }
  willFlush(policy, counts);
}

/** Counts a request or a check that is refused, beside the decision, by the limit that its answer names. */
export function countRefusedRequest(policy: CompiledPolicy, limit: string): void {
  const counts = countsOf(policy);
  const known = counts[refusedByLimit];
  const byLimit = known === false ? emptyTable<number>() : known;
  counts[refusedByLimit] = byLimit;
  byLimit[limit] = (byLimit[limit] ?? 0) + 1;
  willFlush(policy, counts);
}

function willFlush(policy: CompiledPolicy, counts: DecisionCounts): void {
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

function countsOf(policy: CompiledPolicy): DecisionCounts {
  return (policy.counts as DecisionCounts | undefined) ?? newCounts(policy);
}

function newCounts(policy: CompiledPolicy): DecisionCounts {
  const name = `${policy.counterPrefix}${policy.plan ?? ""}\n${keyTextsOf(policy).join("\n")}`;
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
  const { app, name, plan = "" } = policy;
  counts[isPending] = false;
  noteDecisions(policy, counts);
  for (const result of results) {
    const count = counts[places[result]];
    counts[places[result]] = 0;
    if (count === 0) continue;
    addPending(totalKey + result, count);
    if (!addToSeries(seriesKey(result, app, name, plan), count)) countUnlisted(count);
  }
  const byLimit = counts[refusedByLimit];
  if (byLimit !== false) flushRefusedRequests(app, name, byLimit);
  counts[refusedByLimit] = false;
}

function flushRefusedRequests(app: string, name: string, byLimit: Readonly<Record<string, number>>): void {
  const policy = policiesOf(app)[name];
  for (const limit in byLimit) {
    const part = policy !== undefined && hasLimit(policy, limit) ? limit : "";
    addToSeries(seriesKey("refused-requests", app, name, part), byLimit[limit] as number);
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

/**
 * Returns what all workers have flushed of a series. Undefined: nothing.
 *
 * @param part as in `partsOf`
 */
export function countOf(kind: SeriesKind, { app, name }: CompiledPolicy, part: string): number | undefined {
  return metricsDict.get<number>(seriesKey(kind, app, name, part))[0];
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

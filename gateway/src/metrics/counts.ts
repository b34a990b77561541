// Decisions by policy and result, and events that are worth a number. Each worker counts in its own memory and adds to
// the shared dict now and then, so that counting costs a request no shared memory.

import type { CompiledPolicy, DecisionCounts } from "../../../limiter/src/compiled/compile.ts";
import { reportSmallMetrics } from "../runtime/missing-parts.ts";
import { addSafely, metricsDict } from "../runtime/shared-memory.ts";

/** degraded: Redis did not decide. Counted beside what `onStoreFailure` then decided, once a request. */
export type Result = Exclude<keyof DecisionCounts, "pending">;

export const results: readonly Result[] = ["allowed", "refused", "shadow-refused", "degraded"];

/**
 * lock-timeouts: a charge went on without its lock. evictions: another's counter was dropped for one, which never is to be.
 * overflow-admissions, overflow-refusals: decided by a cell that several keys share, for want of memory. uncounted-refusals: there
 * was no memory even so. unstored-charges: the same for what a response took. unsettled-responses: what a response took was not
 * charged. late-renewals: slots of concurrency were renewed when they had been lost. banned-requests: their address or their key is
 * banned. waiting-refusals: too many requests waited already. unlisted-decisions: there was no memory for a series of their policy.
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
const mostTalliesAtOnce = 500;
/**
 * Between app and policy in the key of a series. One character says the result, so that the longest key has 127: LuaJIT's hash
 * of a longer text looks at few of its bytes, and to make the keys of ten thousand such names takes seconds.
 */
const separators: Readonly<Record<Result, string>> = {
  allowed: "=",
  refused: "!",
  "shadow-refused": "~",
  degraded: "?",
};
const seriesPattern = "^([%w-]+)[=!~?]([%w-]+)$";
/** Begins what is kept of all policies together, those that are gone too: whoever wants the sum reads no series. */
const totalKey = "total:";
/** What series leave free, in whole pages, to all other numbers. There are fewer than a hundred of those: they take a third of it. */
const leftToOthersBytes = 65_536;
const checkKey = "ask:";

let pending: Record<string, number> = {};
let tallied: CompiledPolicy[] = [];
let flushedTo = 0;

export function countDecision(policy: CompiledPolicy, result: Result): void {
  const { counts } = policy;
  counts[result] += 1;
  if (counts.pending) return;
  counts.pending = true;
  tallied.push(policy);
}

export function countEvent(event: Event): void {
  addPending(event, 1);
}

/** A request of the ask-first API, by the status of its answer. */
export function countCheckRequest(status: number): void {
  addPending(checkKey + status, 1);
}

/** Adds to any number that is kept in the metrics dict. */
export function addPending(key: string, amount: number): void {
  pending[key] = (pending[key] ?? 0) + amount;
}

/** The same at once. Nothing is evicted for it: if series have not left it room, it waits for some. */
export function addNow(key: string, amount: number): void {
  if (addSafely(metricsDict, key, amount, 0) === undefined) addPending(key, amount);
}

/** What all workers have flushed of one number. */
export function flushedCount(key: string): number {
  return metricsDict.get<number>(key)[0] ?? 0;
}

export function eventCount(event: Event): number {
  return flushedCount(event);
}

/** For each worker's start. The last flush comes as the worker ends. */
export function flushCounts(): void {
  ngx.timer.every(flushEverySeconds, (premature) => {
    flushTallies(premature ? tallied.length : mostTalliesAtOnce);
    const flushed = pending;
    pending = {};
    for (const key in flushed) addNow(key, flushed[key] as number);
  });
}

/** Those that have waited longest, so that ten thousand take turns and stall nobody. */
function flushTallies(most: number): void {
  const end = math.min(tallied.length, flushedTo + most);
  while (flushedTo < end) {
    flushPolicyCounts(tallied[flushedTo] as CompiledPolicy);
    flushedTo += 1;
  }
  if (flushedTo < tallied.length) return;
  tallied = [];
  flushedTo = 0;
}

function flushPolicyCounts({ app, policy, counts }: CompiledPolicy): void {
  counts.pending = false;
  for (const result of results) {
    const count = counts[result];
    counts[result] = 0;
    if (count === 0) continue;
    addPending(totalKey + result, count);
    if (addToSeries(seriesKey(app, policy.name, result), count)) continue;
    countUnlisted(count);
  }
}

/**
 * A new series takes what is free and evicts nothing. Workers that look at the same time may take a page more than they
 * should for each size of key, of which there are three.
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

/** What all workers have flushed of a policy. Undefined: nothing. */
export function decisionCount(app: string, policy: string, result: Result): number | undefined {
  return metricsDict.get<number>(seriesKey(app, policy, result))[0];
}

/** @returns whose the series of this key is; undefined: it is another number's key */
export function policyOfSeries(key: string): LuaMultiReturn<[app: string | undefined, policy: string | undefined]> {
  const [app, policy] = string.match(key, seriesPattern);
  return $multi(app, policy);
}

/** Summed over policies, by result; those that are gone are in it. */
export function decisionTotals(): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const result of results) totals[result] = flushedCount(totalKey + result);
  return totals;
}

/** Requests of the ask-first API that were answered with this status. */
export function checkCount(status: number): number {
  return flushedCount(checkKey + status);
}

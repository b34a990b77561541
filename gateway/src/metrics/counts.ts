// Decisions by policy and result, and events that are worth a number. Each worker counts in its own memory and adds to
// the shared dict now and then, so that counting costs a request no shared memory.

import type { CompiledPolicy, Tally } from "../../../limiter/src/policy/compile.ts";
import { metricsDict } from "../runtime/shared-memory.ts";

/** degraded: Redis did not decide. Counted beside what `onStoreFailure` then decided, once a request. */
export type Result = Exclude<keyof Tally, "pending">;

const results: readonly Result[] = ["allowed", "refused", "shadow-refused", "degraded"];

/**
 * lock-timeouts: a charge went on without its lock. evictions: another's counter was dropped for one, which never is to be.
 * overflow-admissions, overflow-refusals: decided by a cell that several keys share, for want of memory. uncounted-refusals: there
 * was no memory even so. unstored-charges: the same for what a response took. unsettled-responses: what a response took was not charged. late-renewals: slots of
 * concurrency were renewed when they had been lost. banned-requests: their address or their key is banned. waiting-refusals: too many
 * requests waited already.
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
  | "waiting-refusals";

const flushEverySeconds = 0.1;
const mostTalliesAtOnce = 500;
const separator = " ";
/** Begins what is kept of policies that are gone: their decisions still are in the sums over all. */
const goneKey = "gone:";
const askKey = "ask:";

let pending: Record<string, number> = {};
let tallied: CompiledPolicy[] = [];
let flushedTo = 0;

export function countDecision(policy: CompiledPolicy, result: Result): void {
  const { tally } = policy;
  tally[result] += 1;
  if (tally.pending) return;
  tally.pending = true;
  tallied.push(policy);
}

export function countEvent(event: Event): void {
  addPending(event, 1);
}

/** A request of the ask-first API, by the status of its answer. */
export function countAsk(status: number): void {
  addPending(askKey + status, 1);
}

/** Adds to any number that is kept in the metrics dict. */
export function addPending(key: string, amount: number): void {
  pending[key] = (pending[key] ?? 0) + amount;
}

/** The same at once. */
export function addNow(key: string, amount: number): void {
  metricsDict.incr(key, amount, 0);
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
    const flushed = pending;
    pending = {};
    for (const key in flushed) metricsDict.incr(key, flushed[key] as number, 0);
    flushTallies(premature ? tallied.length : mostTalliesAtOnce);
  });
}

/** Those that have waited longest, so that ten thousand take turns and stall nobody. */
function flushTallies(most: number): void {
  const end = math.min(tallied.length, flushedTo + most);
  while (flushedTo < end) {
    flushTally(tallied[flushedTo] as CompiledPolicy);
    flushedTo += 1;
  }
  if (flushedTo < tallied.length) return;
  tallied = [];
  flushedTo = 0;
}

function flushTally({ app, policy, tally }: CompiledPolicy): void {
  tally.pending = false;
  for (const result of results) {
    const count = tally[result];
    tally[result] = 0;
    if (count > 0) metricsDict.incr(app + separator + policy.name + separator + result, count, 0);
  }
}

export interface DecisionCount {
  readonly app: string;
  readonly policy: string;
  readonly result: Result;
  readonly count: number;
}

/** What all workers have flushed. */
export function decisionCounts(): DecisionCount[] {
  const counts: DecisionCount[] = [];
  for (const key of metricsDict.get_keys(0)) {
    const [app, policy, result] = string.match(key, "^(%S+) (%S+) (%S+)$");
    const [count] = metricsDict.get<number>(key);
    if (app !== undefined && count !== undefined) {
      counts.push({ app, policy: policy as string, result: result as Result, count });
    }
  }
  return counts;
}

/** Moves the count of a policy that is gone to the sum of all that are. By one worker at a time only. */
export function retire({ app, policy, result }: DecisionCount): void {
  const key = app + separator + policy + separator + result;
  const [count] = metricsDict.get<number>(key);
  if (count === undefined) return;
  metricsDict.delete(key);
  metricsDict.incr(goneKey + result, count, 0);
}

/** Summed over policies, by result; those that are gone are in it. */
export function decisionTotals(): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const result of results) totals[result] = flushedCount(goneKey + result);
  for (const { result, count } of decisionCounts()) totals[result] = (totals[result] ?? 0) + count;
  return totals;
}

/** Requests of the ask-first API that were answered with this status. */
export function askCount(status: number): number {
  return flushedCount(askKey + status);
}

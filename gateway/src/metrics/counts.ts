// Decisions by policy and result, and events that should not be. Each worker counts in its own memory and adds to the
// shared dict now and then, so that counting costs a request no shared memory.

import type { CompiledPolicy, Tally } from "../../../limiter/src/policy/compile.ts";
import { metricsDict } from "../runtime/shared-memory.ts";

/** degraded: Redis did not decide, `onStoreFailure` did. */
export type Result = Exclude<keyof Tally, "pending">;

const results: readonly Result[] = ["allowed", "refused", "shadow-refused", "degraded"];

const flushEverySeconds = 0.5;
const separator = " ";

let events: Record<string, number> = {};
let tallied: CompiledPolicy[] = [];

export function countDecision(policy: CompiledPolicy, result: Result): void {
  const { tally } = policy;
  tally[result] += 1;
  if (tally.pending) return;
  tally.pending = true;
  tallied.push(policy);
}

/**
 * lock-timeouts: a charge went on without its lock. evictions: the shared dict was full. unstored-charges: it had no room
 * even so, and a request passed uncounted.
 */
export type Event = "lock-timeouts" | "evictions" | "unstored-charges";

export function countEvent(event: Event): void {
  events[event] = (events[event] ?? 0) + 1;
}

/** What all workers have flushed. */
export function eventCount(event: Event): number {
  return metricsDict.get<number>(event)[0] ?? 0;
}

/** For each worker's start. The last flush comes as the worker ends. */
export function flushCounts(): void {
  ngx.timer.every(flushEverySeconds, () => {
    const flushed = events;
    events = {};
    for (const event in flushed) metricsDict.incr(event, flushed[event] as number, 0);
    const policies = tallied;
    tallied = [];
    for (const policy of policies) flushTally(policy);
  });
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

/** Summed over policies, by result. */
export function decisionTotals(): Record<string, number> {
  const totals: Record<string, number> = { allowed: 0, refused: 0, "shadow-refused": 0, degraded: 0 };
  for (const { result, count } of decisionCounts()) totals[result] = (totals[result] ?? 0) + count;
  return totals;
}

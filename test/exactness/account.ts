// Results of a scenario's runs, and the facts that they must satisfy.

import { type CrowdAnswer, percentileOf } from "../fixtures/clients/crowd.ts";
import type { Fact } from "../fixtures/measures/fact.ts";
import type { GatewayCounts } from "../fixtures/measures/gateway-counts.ts";

export interface Run {
  readonly admitted: number;
  readonly refused: number;
  /** Answers other than 200 and 429, and requests without an answer. */
  readonly others: number;
  readonly counts: GatewayCounts;
  /** Durations of the requests that were admitted. */
  readonly tookMs: readonly number[];
}

export interface Account {
  readonly name: string;
  readonly what: string;
  readonly runs: readonly Run[];
  /** What was admitted beyond the limit, in all runs together. */
  readonly excess: number;
  readonly facts: readonly Fact[];
}

export function runOf(answers: readonly CrowdAnswer[], counts: GatewayCounts): Run {
  const admitted = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 429).length;
  return {
    admitted: admitted.length,
    refused,
    others: answers.length - admitted.length - refused,
    counts,
    tookMs: admitted.map(({ tookMs }) => tookMs),
  };
}

export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export function latencyOf(runs: readonly Pick<Run, "tookMs">[]): Latency {
  const sorted = runs.flatMap(({ tookMs }) => tookMs).sort((a, b) => a - b);
  return { p50Ms: percentileOf(sorted, 50), p99Ms: percentileOf(sorted, 99), maxMs: sorted.at(-1) ?? 0 };
}

/** @returns the numbers as text, like "100 (18 times), 115, 101" */
export function inWords(numbers: readonly number[]): string {
  const times = new Map<number, number>();
  for (const number of numbers) times.set(number, (times.get(number) ?? 0) + 1);
  return [...times].map(([number, count]) => (count === 1 ? `${number}` : `${number} (${count} times)`)).join(", ");
}

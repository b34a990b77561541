// What a counter that was read says: in which places it is, and what refuses the key's next request.

import type { Schemas } from "../../api/client.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";

export type Counter = Schemas["Counter"];
export type LimitState = NonNullable<Counter["limits"]>[number];
type PolicyLimit = PolicyTerms["limits"][number];

/** Redis, or a gateway that counts by itself. */
export interface Place {
  /** Undefined: Redis. */
  readonly gateway: string | undefined;
  /** Absent in `done` alone: the gateway did not say. */
  readonly state: "done" | "unknown" | "silent";
  readonly limits: readonly LimitState[];
}

/** Of scope cluster it is Redis that counts; of scope node, each gateway. */
export function placesOf({ scope, limits, gateways }: Counter): Place[] {
  if (scope === "cluster") return [{ gateway: undefined, state: "done", limits: limits ?? [] }];
  return gateways.map(({ id, state, limits: own = [] }) => ({ gateway: id, state, limits: own }));
}

export interface Refusing {
  readonly limit: string;
  /** Seconds until it has enough units again, at most. Undefined: it depends on when slots are given back, or no wait helps. */
  readonly atMostSeconds: number | undefined;
}

/**
 * @param cost what a request takes
 * @param limits those of the policy; overrides may give the key others, of which only the state is known
 */
export function refusing(states: readonly LimitState[], limits: readonly PolicyLimit[], cost: number): Refusing[] {
  return states
    .filter(({ remaining }) => remaining < cost)
    .map(({ name, limit, remaining, resetAfter }) => {
      const known = limits.find((one) => one.name === name);
      if (known?.algorithm === "concurrency" || limit < cost || resetAfter === null)
        return { limit: name, atMostSeconds: undefined };
      // A bucket fills evenly, unless it warms; a counter of a window has its units again when it is like new, at the latest.
      const isBucket = known?.algorithm === "token-bucket" || known?.algorithm === "leaky-bucket";
      const fills = isBucket && known?.warmUp === undefined;
      const share = fills ? (cost - remaining) / Math.max(1, limit - remaining) : 1;
      return { limit: name, atMostSeconds: Math.ceil(resetAfter * share) };
    });
}

/** What was read of a counter, over time. */
export interface Reading {
  readonly atMs: number;
  /** What was used, by place and limit as `seriesName` says. */
  readonly used: ReadonlyMap<string, number>;
}

/** An hour, if one reads every five seconds. */
const mostReadings = 720;

export function seriesName(gateway: string | undefined, limit: string): string {
  return JSON.stringify([gateway ?? null, limit]);
}

export function withReading(readings: readonly Reading[], counter: Counter, atMs: number): readonly Reading[] {
  const used = new Map<string, number>();
  for (const { gateway, limits } of placesOf(counter)) {
    for (const limit of limits) used.set(seriesName(gateway, limit.name), limit.used);
  }
  return [...readings, { atMs, used }].slice(-mostReadings);
}

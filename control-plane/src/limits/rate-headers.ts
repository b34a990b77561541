// The headers by which a client learns its limits: the same as those of the gateway.

import type { Decision } from "@sluice/limiter/algorithms/decision.ts";
import { rateLimitItem, rateLimitPolicyItem, retryAfterSeconds, wholeSeconds } from "@sluice/limiter/header-values.ts";
import type { Counters } from "./counters.ts";

/** What one limit decided about a request. */
export interface Decided {
  readonly limit: LimitName;
  readonly counters: Counters;
  readonly decision: Decision;
}

export const limitNames = ["address", "token", "failed-sign-ins"] as const;
export type LimitName = (typeof limitNames)[number];

/** @param all in any order; the one that is nearest to refusing comes first, and the older headers speak of it */
export function rateHeaders(all: readonly Decided[]): Record<string, string> {
  const nearest = all.reduce((one, other) => (isNearer(other.decision, one.decision) ? other : one));
  const { decision } = nearest;
  return {
    "ratelimit-policy": all.map((one) => rateLimitPolicyItem(one.limit, one.counters.rate)).join(", "),
    ratelimit: [nearest, ...all.filter((one) => one !== nearest)].map(itemOf).join(", "),
    "x-ratelimit-limit": String(decision.limit),
    "x-ratelimit-remaining": String(decision.remaining),
    "x-ratelimit-reset": resetOf(decision),
  };
}

function itemOf({ limit, decision }: Decided): string {
  return rateLimitItem(limit, String(decision.remaining), resetOf(decision));
}

function resetOf({ resetAfterUs }: Decision): string {
  return String(wholeSeconds(resetAfterUs));
}

export function retryAfterHeader(decision: Decision): Record<string, string> {
  return { "retry-after": String(retryAfterSeconds(decision) ?? 1) };
}

function isNearer(one: Decision, other: Decision): boolean {
  if (one.allowed !== other.allowed) return !one.allowed;
  return one.remaining < other.remaining;
}

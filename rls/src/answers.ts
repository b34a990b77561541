// Translates Sluice's decisions into Envoy's statuses, and all statuses of a request into its answer: over the limit if one of them is.

import type { Decision } from "../../clients/typescript/src/index.ts";
import type { DescriptorStatus, Header, RateLimitResponse } from "./protocol.ts";

/** What was found out about one descriptor. */
export interface Finding {
  readonly status: DescriptorStatus;
  /** Seconds after which a refused request can be repeated, if somebody knows. */
  readonly retryAfter?: number;
}

/** Envoy's fields hold no more. */
const mostUint32 = 4294967295;

/** A descriptor that no policy limits is within the limit, and has no figures: so does Envoy's own service. */
export const unlimited: Finding = { status: { code: "OK" } };
/** By configuration or a mistake in the key, without a limit that has figures. */
export const refused: Finding = { status: { code: "OVER_LIMIT" } };
/** Nobody could be asked. */
export const undecided: Finding = { status: { code: "UNKNOWN" } };

export function findingOf({ allowed, policy, limit, remaining, retryAfter, resetAfter }: Decision): Finding {
  if (limit === undefined) return allowed ? unlimited : refused;
  // Sluice does not say the unit of time: a limit may have any window. Without a unit, Envoy leaves it out of its headers.
  const status: DescriptorStatus = {
    code: allowed ? "OK" : "OVER_LIMIT",
    currentLimit: { requestsPerUnit: Math.min(limit, mostUint32), name: policy },
    limitRemaining: Math.min(remaining ?? 0, mostUint32),
    ...(typeof resetAfter === "number" ? { durationUntilReset: { seconds: resetAfter } } : {}),
  };
  return allowed || typeof retryAfter !== "number" ? { status } : { status, retryAfter };
}

/** @param withHeaders whether clients of Envoy are to see the figures */
export function answerOf(findings: readonly Finding[], withHeaders: boolean): RateLimitResponse {
  const statuses = findings.map(({ status }) => status);
  return {
    overallCode: statuses.some(({ code }) => code === "OVER_LIMIT") ? "OVER_LIMIT" : "OK",
    statuses,
    responseHeadersToAdd: withHeaders ? headersOf(findings) : [],
  };
}

/** The figures of the limit that refused, else of the one with the least left; when several refused, the longest wait is the true one. */
function headersOf(findings: readonly Finding[]): Header[] {
  const refusals = findings.filter(({ status }) => status.code === "OVER_LIMIT");
  const candidates = (refusals.length > 0 ? refusals : findings).flatMap(({ status }) =>
    status.currentLimit === undefined ? [] : [{ ...status, ...status.currentLimit }],
  );
  const waits = refusals.flatMap(({ retryAfter }) => (retryAfter === undefined ? [] : [retryAfter]));
  const retryAfter = waits.length === 0 ? [] : [{ key: "Retry-After", value: `${Math.max(...waits)}` }];
  if (candidates.length === 0) return retryAfter;
  const nearest = candidates.reduce((least, one) =>
    (one.limitRemaining ?? 0) < (least.limitRemaining ?? 0) ? one : least,
  );
  const { requestsPerUnit, limitRemaining = 0, durationUntilReset } = nearest;
  const reset =
    durationUntilReset === undefined ? [] : [{ key: "RateLimit-Reset", value: `${durationUntilReset.seconds}` }];
  return [
    { key: "RateLimit-Limit", value: `${requestsPerUnit}` },
    { key: "RateLimit-Remaining", value: `${limitRemaining}` },
    ...reset,
    ...retryAfter,
  ];
}

// The response that a client gets for one decision of a policy, as the gateway writes it (gateway/src/respond). test/forecast compares the
// two, header for header and byte for byte.

import type { Decision } from "../../../limiter/src/algorithms/decision.ts";
import {
  type CompiledPolicy,
  compilePolicy,
  overrideFor,
  planOfKey,
  policyInPlan,
} from "../../../limiter/src/compiled/compile.ts";
import type { HeaderLines, Reject } from "../../../limiter/src/document/on-limit.ts";
import type { Policy } from "../../../limiter/src/document/policy.ts";
import {
  isEndless,
  quotaExceededDetail,
  rateLimitItem,
  retryAfterSeconds,
  wholeSeconds,
} from "../../../limiter/src/header-values.ts";
import { type Decisions, limitNames, outcomes } from "./simulate.ts";

/** What the gateway's setting SLUICE_HEADERS says. */
export type HeaderStyle = "ietf" | "legacy" | "both" | "none";

export interface ClientResponse {
  /** Undefined: the service answers, and these headers are added. */
  readonly status: number | undefined;
  readonly headers: readonly HeaderLines[];
  readonly body: string | undefined;
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/**
 * Returns what the client of the request at `index` gets. Undefined: it is sent elsewhere, to a path or location of the gateway's nginx.
 *
 * @param keyValues of the request
 * @param nowMs when it comes
 */
export function responseTo(
  policy: Policy,
  keyValues: readonly string[],
  decisions: Decisions,
  index: number,
  nowMs: number,
  style: HeaderStyle,
): ClientResponse | undefined {
  const base = compilePolicy("forecast", { ...policy, schedule: undefined });
  const compiled = overrideFor(base, keyValues) ?? policyInPlan(base, planOfKey(base, keyValues));
  const outcome = outcomes[decisions.outcome[index] as number];
  if (outcome === "denied") return denied(compiled, keyValues);
  if (outcome === "ignored" || compiled.policy.mode !== "enforce") return served([]);
  const decision: Decision = {
    allowed: outcome !== "refused",
    limit: decisions.limit[index] as number,
    remaining: decisions.remaining[index] as number,
    retryAfterUs: decisions.retryAfterUs[index] as number,
    resetAfterUs: decisions.resetAfterUs[index] as number,
    delayUs: 0,
  };
  const name = limitNames(base)[decisions.limitIndex[index] as number] as string;
  const told = limitHeaders(style, compiled, name, decision, decisions.otherItems[index] as string);
  if (outcome !== "refused") return served(told);
  const { onLimit } = compiled.policy;
  if (onLimit.action === "degrade") {
    const { response } = onLimit;
    return response === undefined ? undefined : answer(told, response, response.body ?? "");
  }
  const refusal = onLimit.action === "delay" ? onLimit.otherwise : (onLimit as Reject);
  const violated = compiled.limits.filter((_, i) => ((decisions.violated[index] as number) >> i) & 1);
  return refuse(
    told,
    refusal,
    decision,
    quotaExceededDetail(decision, nowMs, dateOf),
    violated.map((limit) => limit.name),
  );
}

function served(headers: readonly HeaderLines[]): ClientResponse {
  return { status: undefined, headers, body: undefined };
}

function limitHeaders(
  style: HeaderStyle,
  policy: CompiledPolicy,
  name: string,
  decision: Decision,
  others: string,
): HeaderLines[] {
  const headers: HeaderLines[] = [];
  const remaining = `${decision.remaining}`;
  const reset = isEndless(decision) ? undefined : `${wholeSeconds(decision.resetAfterUs)}`;
  if (style === "ietf" || style === "both") {
    headers.push({ name: "RateLimit-Policy", value: policy.policyHeader });
    headers.push({ name: "RateLimit", value: rateLimitItem(name, remaining, reset) + others });
  }
  if (style === "legacy" || style === "both") {
    headers.push({ name: "X-RateLimit-Limit", value: `${decision.limit}` });
    headers.push({ name: "X-RateLimit-Remaining", value: remaining });
    if (reset !== undefined) headers.push({ name: "X-RateLimit-Reset", value: reset });
  }
  return headers;
}

function dateOf(seconds: number): string {
  return `${new Date(seconds * 1_000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function refuse(
  told: HeaderLines[],
  refusal: Reject,
  decision: Decision,
  detail: string,
  violated: readonly string[],
): ClientResponse {
  const seconds = retryAfterSeconds(decision);
  const headers = seconds === undefined ? told : [...told, { name: "Retry-After", value: `${seconds}` }];
  if (refusal.body !== undefined) return answer(headers, refusal, refusal.body);
  const more = `,"violated-policies":["${violated.join('","')}"]`;
  return problem([...headers, ...refusal.headers], refusal.status, quotaExceeded, "Quota exceeded", detail, more);
}

function denied({ name, policy }: CompiledPolicy, keyValues: readonly string[]): ClientResponse {
  const { key, onMissingKey, costSource } = policy;
  const lacksKey =
    onMissingKey === "deny" && key.some(({ source }, i) => source !== "const" && (keyValues[i] ?? "") === "");
  if (lacksKey) {
    const detail = `The request lacks an attribute that policy ${name} counts by.`;
    return problem([], 403, "about:blank", "Key missing", detail, "");
  }
  const detail = `Policy ${name} expects a cost in digits, an integer from 1 to ${costSource?.max}.`;
  return problem([], 400, "about:blank", "Cost invalid", detail, "");
}

function answer(told: readonly HeaderLines[], { status, headers }: Reject, body: string): ClientResponse {
  return { status, headers: [...told, { name: "Content-Type", value: "text/plain; charset=utf-8" }, ...headers], body };
}

function problem(
  headers: readonly HeaderLines[],
  status: number,
  type: string,
  title: string,
  detail: string,
  more: string,
): ClientResponse {
  const body = `{"type":"${type}","title":"${title}","status":${status},"detail":"${detail}"${more}}\n`;
  return { status, headers: [...headers, { name: "Content-Type", value: "application/problem+json" }], body };
}

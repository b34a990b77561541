// Ends a request that is refused: with a problem document (RFC 9457) that says why, or as its policy says.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import type { CostSource } from "../../../limiter/src/document/cost.ts";
import type { HeaderLines, OnLimit, Reject } from "../../../limiter/src/document/on-limit.ts";
import { retryAfterSeconds } from "../../../limiter/src/response-headers.ts";
import { countEvent } from "../metrics/counts.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";

/** Registered by draft-ietf-httpapi-ratelimit-headers-11. */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const badRequest = 400;
const forbidden = 403;
const unavailable = 503;
const noContent = 204;

/** The request is over a limit. */
export function refuseOverLimit(
  style: HeaderStyle,
  merged: MergedDecision,
  { status, body, headers }: Reject,
): undefined {
  setHeaders(style, merged);
  const seconds = retryAfterSeconds(merged.decision);
  if (seconds !== undefined) ngx.header["Retry-After"] = seconds;
  if (body !== undefined) return answer(status, headers, body);
  const detail =
    seconds === undefined ? "The request costs more than its limit ever holds." : `Try again in ${seconds} s.`;
  const violated = `,"violated-policies":["${merged.violated.join('","')}"]`;
  setLines(headers);
  sendProblem(status, quotaExceeded, "Quota exceeded", detail, violated);
}

/** Redis did not decide, and the policy says to deny then. */
export function refuseUndecided({ policy }: CompiledPolicy): undefined {
  ngx.header["Retry-After"] = 1;
  const detail = "The limit of this request cannot be checked at the moment.";
  sendProblem(refusalOf(policy.onLimit)?.status ?? unavailable, "about:blank", "Limit cannot be checked", detail, "");
}

/** The request lacks what the policy counts by, and the policy says to deny then. */
export function refuseWithoutKey({ policy }: CompiledPolicy): undefined {
  const detail = `The request lacks an attribute that policy ${policy.name} counts by.`;
  sendProblem(forbidden, "about:blank", "Key missing", detail, "");
}

/** The request spells what the policy counts by in a way that servers read differently. */
export function refuseAmbiguousKey({ policy }: CompiledPolicy): undefined {
  const detail = `What policy ${policy.name} counts by came twice, or is written in a way that servers read differently.`;
  sendProblem(badRequest, "about:blank", "Key ambiguous", detail, "");
}

/** The client or its key is banned. */
export function refuseBanned(): undefined {
  countEvent("banned-requests");
  sendProblem(forbidden, "about:blank", "Banned", "Requests of this client are not served.", "");
}

/** The request states a cost that is none. */
export function refuseCost({ policy }: CompiledPolicy): undefined {
  const { max } = policy.costSource as CostSource;
  const detail = `Policy ${policy.name} expects a cost in digits, an integer from 1 to ${string.format("%d", max)}.`;
  sendProblem(badRequest, "about:blank", "Cost invalid", detail, "");
}

/** Ends the request with this answer, in place of what it asked for. */
export function answer(status: number, headers: readonly HeaderLines[], body: string): undefined {
  ngx.status = status;
  ngx.header["Content-Type"] = "text/plain; charset=utf-8";
  setLines(headers);
  end(body);
}

/** How a request is refused that can neither wait nor get something else; undefined where the policy never refuses. */
export function refusalOf(onLimit: OnLimit): Reject | undefined {
  if (onLimit.action === "reject") return onLimit;
  return onLimit.action === "delay" ? onLimit.otherwise : undefined;
}

/** None of these texts can hold what JSON escapes: names are [a-z0-9-], the rest is ours. */
function sendProblem(status: number, type: string, title: string, detail: string, more: string): void {
  ngx.status = status;
  ngx.header["Content-Type"] = "application/problem+json";
  end(`{"type":"${type}","title":"${title}","status":${status},"detail":"${detail}"${more}}\n`);
}

function setLines(headers: readonly HeaderLines[]): void {
  for (const { name, value } of headers) ngx.header[name] = value;
}

function end(body: string): void {
  // By HTTP, 204 has neither a body nor its length; nginx leaves out what else is of a body.
  ngx.header["Content-Length"] = ngx.status === noContent ? undefined : body.length;
  ngx.print(body);
  // The answer is out; to exit by 408, 444 or 499 would mean to nginx that there is none.
  ngx.exit(ngx.HTTP_OK);
}

// Ends a request that is refused: with a problem document (RFC 9457) that gives the reason, or with the response of its policy.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import type { CostSource } from "../../../limiter/src/document/cost.ts";
import type { HeaderLines, OnLimit, Reject } from "../../../limiter/src/document/on-limit.ts";
import { quotaExceededDetail, retryAfterSeconds } from "../../../limiter/src/header-values.ts";
import { countEvent } from "../metrics/counts.ts";
import { nowMs } from "../runtime/clock.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";

/** Registered by draft-ietf-httpapi-ratelimit-headers-11. */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const badRequest = 400;
const forbidden = 403;
const unavailable = 503;
const noContent = 204;

/** For a request that is over a limit. */
export function refuseOverLimit(
  style: HeaderStyle,
  merged: MergedDecision,
  { status, body, headers }: Reject,
): undefined {
  setHeaders(style, merged);
  const seconds = retryAfterSeconds(merged.decision);
  if (seconds !== undefined) ngx.header["Retry-After"] = seconds;
  if (body !== undefined) return answer(status, headers, body);
  const detail = quotaExceededDetail(merged.decision, nowMs(), dateOf);
  const violated = `,"violated-policies":["${merged.violated.join('","')}"]`;
  setLines(headers);
  sendProblem(status, quotaExceeded, "Quota exceeded", detail, violated);
}

function dateOf(this: void, seconds: number): string {
  return os.date("!%Y-%m-%d %H:%M:%S UTC", seconds) as string;
}

/** For a request that Redis did not decide, under a policy that then denies. */
export function refuseUndecided({ policy }: CompiledPolicy): undefined {
  ngx.header["Retry-After"] = 1;
  const detail = "The limit of this request cannot be checked at the moment.";
  sendProblem(refusalOf(policy.onLimit)?.status ?? unavailable, "about:blank", "Limit cannot be checked", detail, "");
}

/** For a request without an attribute that the policy counts by, under a policy that then denies. */
export function refuseWithoutKey({ name }: CompiledPolicy): undefined {
  const detail = `The request lacks an attribute that policy ${name} counts by.`;
  sendProblem(forbidden, "about:blank", "Key missing", detail, "");
}

/** For a request whose key attribute is written in a way that servers read differently, or among more than is read. */
export function refuseAmbiguousKey({ name }: CompiledPolicy): undefined {
  const detail = `What policy ${name} counts by came twice, is written in a way that servers read differently, or is in a longer text than Sluice reads.`;
  sendProblem(badRequest, "about:blank", "Key ambiguous", detail, "");
}

/** For a request whose path or host servers read differently: it is not known which policies it meets. */
export function refuseAmbiguous(what: "path" | "host"): undefined {
  if (what === "host") {
    const detail = "Servers read the host of this request differently: send its name, and a port if you like, in Host.";
    sendProblem(badRequest, "about:blank", "Host ambiguous", detail, "");
    return;
  }
  const detail =
    "Servers read the path of this request differently: it begins with two slashes, is very long, or has a segment of dots, a backslash, a number sign, an encoded slash, or very many segments.";
  sendProblem(badRequest, "about:blank", "Path ambiguous", detail, "");
}

/** For a request of a banned client or key. */
export function refuseBanned(): undefined {
  countEvent("banned-requests");
  sendProblem(forbidden, "about:blank", "Banned", "Requests of this client are not served.", "");
}

/** For a request that states an invalid cost. */
export function refuseCost({ name, policy }: CompiledPolicy): undefined {
  const { max } = policy.costSource as CostSource;
  const detail = `Policy ${name} expects a cost in digits, an integer from 1 to ${string.format("%d", max)}.`;
  sendProblem(badRequest, "about:blank", "Cost invalid", detail, "");
}

/** Ends the request with this response instead of the requested one. */
export function answer(status: number, headers: readonly HeaderLines[], body: string): undefined {
  ngx.status = status;
  ngx.header["Content-Type"] = "text/plain; charset=utf-8";
  setLines(headers);
  end(body);
}

/** Returns how to refuse a request that can neither wait nor get another response; undefined if the policy never refuses. */
export function refusalOf(onLimit: OnLimit): Reject | undefined {
  if (onLimit.action === "reject") return onLimit;
  return onLimit.action === "delay" ? onLimit.otherwise : undefined;
}

/** None of these texts can contain characters that JSON escapes: names are [a-z0-9-], and the rest is fixed. */
function sendProblem(status: number, type: string, title: string, detail: string, more: string): void {
  ngx.status = status;
  ngx.header["Content-Type"] = "application/problem+json";
  end(`{"type":"${type}","title":"${title}","status":${status},"detail":"${detail}"${more}}\n`);
}

function setLines(headers: readonly HeaderLines[]): void {
  for (const { name, value } of headers) ngx.header[name] = value;
}

function end(body: string): void {
  // By HTTP, a 204 has neither a body nor its length; nginx omits the other headers of a body.
  ngx.header["Content-Length"] = ngx.status === noContent ? undefined : body.length;
  ngx.print(body);
  // The response has been sent. Exiting with 408, 444 or 499 would make nginx treat it as missing.
  ngx.exit(ngx.HTTP_OK);
}

// Ends a request that is refused, with a problem document (RFC 9457) that says why.

import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { retryAfterSeconds } from "../../../limiter/src/response-headers.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";

/** Registered by draft-ietf-httpapi-ratelimit-headers-11. */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const forbidden = 403;

/** The request is over a limit. */
export function refuseOverLimit(style: HeaderStyle, verdict: Verdict): undefined {
  const { status } = (verdict.policy as CompiledPolicy).policy.onLimit;
  setHeaders(style, verdict);
  const seconds = retryAfterSeconds(verdict.decision);
  if (seconds !== undefined) ngx.header["Retry-After"] = seconds;
  const detail =
    seconds === undefined ? "The request costs more than its limit ever holds." : `Try again in ${seconds} s.`;
  const violated = `,"violated-policies":["${verdict.violated.join('","')}"]`;
  send(status, quotaExceeded, "Quota exceeded", detail, violated);
}

/** Redis did not decide, and the policy says to deny then. */
export function refuseUndecided({ policy }: CompiledPolicy): void {
  ngx.header["Retry-After"] = 1;
  const detail = "The limit of this request cannot be checked at the moment.";
  send(policy.onLimit.status, "about:blank", "Limit cannot be checked", detail, "");
}

/** The request lacks what the policy counts by, and the policy says to deny then. */
export function refuseWithoutKey({ policy }: CompiledPolicy): undefined {
  const detail = `The request lacks an attribute that policy ${policy.name} counts by.`;
  send(forbidden, "about:blank", "Key missing", detail, "");
}

/** None of these texts can hold what JSON escapes: names are [a-z0-9-], the rest is ours. */
function send(status: number, type: string, title: string, detail: string, more: string): void {
  const body = `{"type":"${type}","title":"${title}","status":${status},"detail":"${detail}"${more}}\n`;
  ngx.status = status;
  ngx.header["Content-Type"] = "application/problem+json";
  ngx.header["Content-Length"] = body.length;
  ngx.print(body);
  // The answer is out; to exit by 408, 444 or 499 would mean to nginx that there is none.
  ngx.exit(ngx.HTTP_OK);
}

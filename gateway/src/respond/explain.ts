// The debugging answer: an operator who shows the secret is told which policies were met, which keys were charged and why
// the request was refused, in the response's headers.

import { never } from "../../../limiter/src/decision.ts";
import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";

/** Of the request: the secret. Of the response: one line a policy, and one for the whole. */
const headerName = "x-sluice-debug";
const secretVariable = "http_x_sluice_debug";
/** A request that meets more is told of the first: a response's headers have to fit somewhere. */
const mostLines = 32;

/** What is told of the current request; undefined: nothing, as nearly always. */
export type Explanation = string[] | undefined;

/** @param secret SLUICE_DEBUG_SECRET */
export function beginExplanation(secret: string): Explanation {
  const shown = ngx.var[secretVariable];
  if (shown === undefined || shown === "") return undefined;
  // Upstream nobody is to see it.
  ngx.req.clear_header(headerName);
  // Digests: how long the comparison takes tells nothing of the secret.
  return ngx.sha1_bin(shown) === ngx.sha1_bin(secret) ? [] : undefined;
}

export function explain(
  lines: Explanation,
  { app, policy }: CompiledPolicy,
  keyValues: string | undefined,
  outcome: string,
): void {
  if (lines === undefined || lines.length >= mostLines) return;
  const key = keyValues === undefined ? "" : `; key=${ngx.escape_uri(keyValues)}`;
  lines.push(`${app}/${policy.name}; ${policy.mode}; ${policy.scope}${key}; ${outcome}`);
}

/** Sets the header, before the request goes on or is answered. */
export function tell(lines: Explanation, verdict: Verdict): void {
  if (lines === undefined) return;
  if (lines.length === 0) lines.push("no policy is met");
  if (verdict.policy !== undefined) lines.push(summaryOf(verdict, verdict.policy));
  ngx.header["X-Sluice-Debug"] = lines;
}

function summaryOf({ allowed, limitName, decision, violated }: Verdict, { app, policy }: CompiledPolicy): string {
  const { retryAfterUs, remaining } = decision;
  const retry = retryAfterUs === never ? "never" : `${retryAfterUs / 1_000_000} s`;
  const refusal = allowed ? "allowed" : `refused by ${violated.join(" ")}; retry after ${retry}`;
  return `${refusal}; nearest ${app}/${policy.name} ${limitName}; remaining ${remaining} of ${decision.limit}`;
}

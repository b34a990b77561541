// Tells the client where it stands: the IETF draft's two fields, the older X-RateLimit-*, both or none.

import { rateLimitItem, wholeSeconds } from "../../../limiter/src/response-headers.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";
import type { HeaderStyle } from "../settings.ts";

const { header } = ngx;

/** Of quotas and bursts, which are few: a number that nginx is given becomes a text anew each time. */
const limitTexts: Record<number, string | undefined> = {};

export function setHeaders(style: HeaderStyle, { policy, limitName, decision }: Verdict): void {
  if (policy === undefined || style === "none") return;
  const remaining = `${decision.remaining}`;
  const reset = `${wholeSeconds(decision.resetAfterUs)}`;
  if (style !== "legacy") {
    header["RateLimit-Policy"] = policy.policyHeader;
    header["RateLimit"] = rateLimitItem(limitName, remaining, reset);
  }
  if (style !== "ietf") {
    header["X-RateLimit-Limit"] = limitTexts[decision.limit] ?? newLimitText(decision.limit);
    header["X-RateLimit-Remaining"] = remaining;
    header["X-RateLimit-Reset"] = reset;
  }
}

function newLimitText(limit: number): string {
  const text = `${limit}`;
  limitTexts[limit] = text;
  return text;
}

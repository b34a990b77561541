// Tells the client where it stands: the IETF draft's two fields, the older X-RateLimit-*, both or none.

import { rateLimitItem, wholeSeconds } from "../../../limiter/src/response-headers.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";
import type { HeaderStyle } from "../settings.ts";

export function setHeaders(style: HeaderStyle, { policy, limitName, decision }: Verdict): void {
  if (policy === undefined || style === "none") return;
  if (style !== "legacy") {
    ngx.header["RateLimit-Policy"] = policy.policyHeader;
    ngx.header["RateLimit"] = rateLimitItem(limitName, decision);
  }
  if (style !== "ietf") {
    ngx.header["X-RateLimit-Limit"] = decision.limit;
    ngx.header["X-RateLimit-Remaining"] = decision.remaining;
    ngx.header["X-RateLimit-Reset"] = wholeSeconds(decision.resetAfterUs);
  }
}

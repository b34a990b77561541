// Tells the client where it stands: the IETF draft's two fields, the older X-RateLimit-*, both or none.

import { shared, sharing } from "../../../limiter/src/basics/sharing.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { rateLimitItem, wholeSeconds } from "../../../limiter/src/response-headers.ts";
import { addHeader } from "../runtime/lua-modules.ts";
import type { HeaderStyle } from "../settings.ts";

const { header } = ngx;
const { is_internal } = ngx.req;
const { tobit } = require("bit") as {
  /** An integer of 32 bits, with its sign. */
  tobit(this: void, number: number): number;
};

/** Of quotas and bursts, which are few: a number that nginx is given becomes a text anew each time. */
const limitTexts = sharing<string>();

export function setHeaders(style: HeaderStyle, { policy, limitName, decision }: MergedDecision): void {
  if (policy === undefined || style === "none") return;
  // Where a request comes by a redirect of nginx's own, it may have been decided before: its headers are replaced.
  const set = is_internal() ? replaceHeader : addHeader;
  const remaining = textOf(decision.remaining);
  const reset = textOf(wholeSeconds(decision.resetAfterUs));
  if (style !== "legacy") {
    set("RateLimit-Policy", policy.policyHeader);
    set("RateLimit", rateLimitItem(limitName, remaining, reset));
  }
  if (style !== "ietf") {
    set("X-RateLimit-Limit", limitTexts.known[decision.limit] ?? newLimitText(decision.limit));
    set("X-RateLimit-Remaining", remaining);
    set("X-RateLimit-Reset", reset);
  }
}

function replaceHeader(this: void, name: string, value: string): void {
  header[name] = value;
}

/** Of a whole number. LuaJIT writes what it knows to be an integer of 32 bits twenty times as fast as any number. */
function textOf(whole: number): string {
  return whole < 2147483648 ? `${tobit(whole)}` : `${whole}`;
}

function newLimitText(limit: number): string {
  return shared(limitTexts, limit, () => `${limit}`);
}

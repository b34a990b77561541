// Tells the client its limits: by the two fields of the IETF draft, by the older X-RateLimit-*, by both or by none.

import { shared, sharing } from "../../../limiter/src/basics/sharing.ts";
import { type MergedDecision, otherItems } from "../../../limiter/src/compiled/merged-decision.ts";
import { isEndless, rateLimitItem, wholeSeconds } from "../../../limiter/src/header-values.ts";
import { addHeader } from "../runtime/lua-modules.ts";
import type { HeaderStyle } from "../settings.ts";

const { header } = ngx;
const { is_internal } = ngx.req;
const { tobit } = require("bit") as {
  /** Returns a signed 32-bit integer. */
  tobit(this: void, number: number): number;
};

/** Texts of quotas and bursts, of which there are few: nginx would convert a number to text anew each time. */
const limitTexts = sharing<string>();

/** The limit that the older fields speak of is the first one of `RateLimit`. */
export function setHeaders(style: HeaderStyle, merged: MergedDecision): void {
  const { policy, limitName, decision } = merged;
  if (policy === undefined || style === "none") return;
  // nginx may have redirected the request from a location where it was decided too: those headers are replaced.
  const set = is_internal() ? replaceHeader : addHeader;
  const remaining = textOf(decision.remaining);
  // A lifetime's total does not come back by itself: there is no time to tell.
  const reset = isEndless(decision) ? undefined : textOf(wholeSeconds(decision.resetAfterUs));
  if (style !== "legacy") {
    set("RateLimit-Policy", policy.policyHeader);
    const item = rateLimitItem(limitName, remaining, reset);
    set("RateLimit", policy.limits.length === 1 ? item : item + otherItems(merged, textOf));
  }
  if (style !== "ietf") {
    set("X-RateLimit-Limit", limitTexts.known[decision.limit] ?? newLimitText(decision.limit));
    set("X-RateLimit-Remaining", remaining);
    if (reset !== undefined) set("X-RateLimit-Reset", reset);
    else if (set === replaceHeader) header["X-RateLimit-Reset"] = undefined;
  }
}

function replaceHeader(this: void, name: string, value: string): void {
  header[name] = value;
}

/** Text of a whole number. LuaJIT formats a number that it knows to be a 32-bit integer twenty times as fast as any other. */
function textOf(whole: number): string {
  return whole < 2147483648 ? `${tobit(whole)}` : `${whole}`;
}

function newLimitText(limit: number): string {
  return shared(limitTexts, limit, () => `${limit}`);
}

// Tells the client its limits: by the two fields of the IETF draft, by the older X-RateLimit-*, by both or by none.

import { shared, sharing } from "../../../limiter/src/basics/sharing.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision, OtherLimit } from "../../../limiter/src/compiled/merged-decision.ts";
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
export function setHeaders(style: HeaderStyle, { policy, limitName, decision, others }: MergedDecision): void {
  if (policy === undefined || style === "none") return;
  // nginx may have redirected the request from a location where it was decided too: those headers are replaced.
  const set = is_internal() ? replaceHeader : addHeader;
  const remaining = textOf(decision.remaining);
  // A lifetime's total does not come back by itself: there is no time to tell.
  const reset = resetText(decision.resetAfterUs);
  if (style !== "legacy") {
    set("RateLimit-Policy", policy.policyHeader);
    const item = rateLimitItem(limitName, remaining, reset);
    set("RateLimit", policy.limits.length === 1 ? item : item + itemsOf(others, policy, limitName));
  }
  if (style !== "ietf") {
    set("X-RateLimit-Limit", limitTexts.known[decision.limit] ?? newLimitText(decision.limit));
    set("X-RateLimit-Remaining", remaining);
    if (reset !== undefined) set("X-RateLimit-Reset", reset);
    else if (set === replaceHeader) header["X-RateLimit-Reset"] = undefined;
  }
}

/** Returns the items of the other limits of this policy, each with what was last decided. */
function itemsOf(others: readonly OtherLimit[], { app, name: policyName }: CompiledPolicy, shown: string): string {
  const listed: Record<string, true> = { [shown]: true };
  let items = "";
  for (let i = others.length - 1; i >= 0; i--) {
    const { policy, limitName, remaining, resetAfterUs } = others[i] as OtherLimit;
    if (policy.app !== app || policy.name !== policyName || listed[limitName]) continue;
    listed[limitName] = true;
    items = `, ${rateLimitItem(limitName, textOf(remaining), resetText(resetAfterUs))}${items}`;
  }
  return items;
}

function resetText(resetAfterUs: number): string | undefined {
  return isEndless({ resetAfterUs }) ? undefined : textOf(wholeSeconds(resetAfterUs));
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

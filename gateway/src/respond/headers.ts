// Tells the client where it stands: the IETF draft's two fields, the older X-RateLimit-*, both or none.

import { rateLimitItem, wholeSeconds } from "../../../limiter/src/response-headers.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";
import type { HeaderStyle } from "../settings.ts";

const { header } = ngx;
const { tobit } = require("bit") as {
  /** An integer of 32 bits, with its sign. */
  tobit(this: void, number: number): number;
};

/** Of quotas and bursts, which are few: a number that nginx is given becomes a text anew each time. */
const limitTexts: Record<number, string | undefined> = {};

export function setHeaders(style: HeaderStyle, { policy, limitName, decision }: Verdict): void {
  if (policy === undefined || style === "none") return;
  const remaining = textOf(decision.remaining);
  const reset = textOf(wholeSeconds(decision.resetAfterUs));
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

/** Of a whole number. LuaJIT writes what it knows to be an integer of 32 bits twenty times as fast as any number. */
function textOf(whole: number): string {
  return whole < 2147483648 ? `${tobit(whole)}` : `${whole}`;
}

function newLimitText(limit: number): string {
  const text = `${limit}`;
  limitTexts[limit] = text;
  return text;
}

// The result of a check as callers get it.

import { never } from "../../../limiter/src/algorithms/decision.ts";
import { isEndless, retryAfterSeconds, wholeSeconds } from "../../../limiter/src/header-values.ts";
import type { Outcome } from "./decide.ts";

/**
 * Returns the members of a JSON object. They are written by hand: none of these texts contains characters that JSON escapes.
 *
 * @param app the caller's; of others, the policy is APP/POLICY
 */
export function resultOf(app: string, outcome: Outcome): string {
  const { policy, allowed, reason, merged, waitedUs } = outcome;
  const name = policy.app === app ? policy.name : `${policy.app}/${policy.name}`;
  const start = `"policy":"${name}","allowed":${allowed}`;
  const waited = waitedUs === undefined ? "" : `,"waited":${math.floor(waitedUs / 1000 + 0.5) / 1000}`;
  if (reason !== undefined) return `${start},"reason":"${reason}"${waited}`;
  const { decision, delayUs } = merged;
  const debt = outcome.isReport ? `,"debt":${outcome.debt}` : "";
  const { limit, remaining, retryAfterUs, resetAfterUs } = decision;
  const retryAfter = allowed ? "0" : retryAfterUs === never ? "null" : `${retryAfterSeconds(decision)}`;
  const figures = `"limit":${limit},"remaining":${remaining},"retryAfter":${retryAfter}`;
  const delay = allowed && delayUs > 0 ? `,"delay":${delayUs / 1_000_000}` : "";
  const resetAfter = isEndless(decision) ? "null" : `${wholeSeconds(resetAfterUs)}`;
  return `${start},${figures},"resetAfter":${resetAfter}${delay}${waited}${debt}`;
}

// Handles a request that is over the limit, as the policy that refused it specifies.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { countRefusedRequest } from "../metrics/counts.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";
import { answer, refusalOf, refuseOverLimit } from "./refuse.ts";

/** Ends the request. */
export function answerOverLimit(style: HeaderStyle, merged: MergedDecision): undefined {
  const policy = merged.policy as CompiledPolicy;
  countRefusedRequest(policy, merged.limitName);
  const { onLimit } = policy.policy;
  const refusal = refusalOf(onLimit);
  if (refusal !== undefined) return refuseOverLimit(style, merged, refusal);
  if (onLimit.action !== "degrade") return ngx.exit(429);
  setHeaders(style, merged);
  const { response } = onLimit;
  // Whatever else degrades lets the request pass, and does not come here.
  if (response === undefined) return ngx.exit(429);
  return answer(response.status, response.headers, response.body ?? "");
}

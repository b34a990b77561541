// What becomes of a request that is over the limit, as the policy that refused it says.

import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { Verdict } from "../../../limiter/src/verdict.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";
import { answer, refusalOf, refuseOverLimit } from "./refuse.ts";

/** Requests that were sent elsewhere: where they arrive they are not decided again. By address, which outlives redirects. */
const redirected: Record<string, boolean | undefined> = {};
let redirectedCount = 0;

/** Ends the request, or sends it elsewhere. */
export function answerOverLimit(style: HeaderStyle, verdict: Verdict): undefined {
  const { onLimit } = (verdict.policy as CompiledPolicy).policy;
  const refusal = refusalOf(onLimit);
  if (refusal !== undefined) return refuseOverLimit(style, verdict, refusal);
  if (onLimit.action !== "degrade") return;
  setHeaders(style, verdict);
  const { response, target } = onLimit;
  if (response !== undefined) return answer(response.status, response.headers, response.body ?? "");
  if (target === undefined) return;
  const request = requestAddress();
  if (redirected[request] === undefined) redirectedCount += 1;
  redirected[request] = true;
  ngx.exec(target);
}

/** Whether the current request was decided before it was sent here. */
export function wasRedirected(): boolean {
  // A new request may have the address of one that ended without its log phase, but is no internal one.
  return redirectedCount > 0 && ngx.req.is_internal() && redirected[requestAddress()] === true;
}

/** In the log phase. */
export function forgetRedirect(): void {
  if (redirectedCount === 0) return;
  const request = requestAddress();
  if (redirected[request] === undefined) return;
  redirected[request] = undefined;
  redirectedCount -= 1;
}

// What becomes of a request that is over the limit, as the policy that refused it says.

import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { MergedDecision } from "../../../limiter/src/verdict.ts";
import { requestAddress } from "../runtime/lua-modules.ts";
import { reportMissingLog } from "../runtime/missing-parts.ts";
import { currentLife, hasEnded, type Life } from "../runtime/request-life.ts";
import type { HeaderStyle } from "../settings.ts";
import { setHeaders } from "./headers.ts";
import { answer, refusalOf, refuseOverLimit } from "./refuse.ts";

/** A request that was sent elsewhere. */
interface Redirect {
  /** Undefined: there was no memory for it, and the log phase alone will tell. */
  readonly life: Life | undefined;
}

/** Where they arrive they are not decided again. By address, which outlives redirects. */
const redirected: Record<string, Redirect | undefined> = {};
let redirectedCount = 0;
const lookEverySeconds = 1;

/** For each worker's start: forgets those that ended without their log phase, and whose address nobody has had since. */
export function forgetEndedRedirects(): void {
  ngx.timer.every(lookEverySeconds, () => {
    if (redirectedCount === 0) return;
    for (const request in redirected) isUnderWay(request);
  });
}

/** Ends the request, or sends it elsewhere. */
export function answerOverLimit(style: HeaderStyle, merged: MergedDecision): undefined {
  const { onLimit } = (merged.policy as CompiledPolicy).policy;
  const refusal = refusalOf(onLimit);
  if (refusal !== undefined) return refuseOverLimit(style, merged, refusal);
  if (onLimit.action !== "degrade") return;
  setHeaders(style, merged);
  const { response, target } = onLimit;
  if (response !== undefined) return answer(response.status, response.headers, response.body ?? "");
  if (target === undefined) return;
  const request = requestAddress();
  // A redirect of the same request is not decided: what stands there is of one that has ended.
  if (redirected[request] === undefined) redirectedCount += 1;
  redirected[request] = { life: currentLife() };
  ngx.exec(target);
}

/** Whether the current request was decided before it was sent here. */
export function wasRedirected(): boolean {
  return redirectedCount > 0 && ngx.req.is_internal() && isUnderWay(requestAddress());
}

/** A new request may have the address of one that ended without its log phase, which is forgotten then. */
function isUnderWay(request: string): boolean {
  const redirect = redirected[request];
  if (redirect === undefined) return false;
  if (redirect.life === undefined || !hasEnded(redirect.life)) return true;
  redirected[request] = undefined;
  redirectedCount -= 1;
  reportMissingLog();
  return false;
}

/** In the log phase. */
export function forgetRedirect(): void {
  if (redirectedCount === 0) return;
  const request = requestAddress();
  if (redirected[request] === undefined) return;
  redirected[request] = undefined;
  redirectedCount -= 1;
}

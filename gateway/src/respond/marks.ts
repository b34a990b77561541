// Headers by which the service learns that a request is over a limit that lets it pass.

import type { CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import type { HeaderLine, OnLimit } from "../../../limiter/src/policy/on-limit.ts";

/**
 * What the client sends under this name is not believed, whether the policy holds the request or not. In shadow mode, a
 * policy changes nothing.
 *
 * @param marks names that were set for the current request: by another policy that has the same
 */
export function unsetMark({ policy }: CompiledPolicy, marks: readonly string[]): void {
  if (policy.onLimit.action === "reject" || policy.mode !== "enforce") return;
  const mark = markOf(policy.onLimit);
  if (mark !== undefined && !marks.includes(mark.name)) ngx.req.clear_header(mark.name);
}

/** Before the request goes on over the limit. @returns false: the policy has no mark */
export function setMark({ policy }: CompiledPolicy, marks: string[]): boolean {
  const mark = markOf(policy.onLimit);
  if (mark === undefined) return false;
  ngx.req.set_header(mark.name, mark.value);
  marks.push(mark.name);
  return true;
}

function markOf(onLimit: OnLimit): HeaderLine | undefined {
  return onLimit.action === "tag" || onLimit.action === "degrade" ? onLimit.header : undefined;
}

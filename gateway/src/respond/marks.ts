// Headers by which the service learns that a request is over a limit that lets it pass.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { HeaderLine, OnLimit } from "../../../limiter/src/document/on-limit.ts";

/** What is to become of the request's headers, once all policies have been asked: none counts by another one's mark. */
export interface Marks {
  readonly unset: string[];
  readonly set: HeaderLine[];
}

/**
 * What the client sends under this name is not believed, whether the policy holds the request or not. In shadow mode, a
 * policy changes nothing.
 */
export function unsetMark({ policy }: CompiledPolicy, marks: Marks): void {
  if (policy.onLimit.action === "reject" || policy.mode !== "enforce") return;
  const mark = markOf(policy.onLimit);
  if (mark !== undefined) marks.unset.push(mark.name);
}

/** For a request that goes on over the limit. @returns false: the policy has no mark */
export function setMark({ policy }: CompiledPolicy, marks: Marks): boolean {
  const mark = markOf(policy.onLimit);
  if (mark === undefined) return false;
  marks.set.push(mark);
  return true;
}

/** Whether the policy lets a request go on over the limit, with a mark. */
export function hasMark({ policy }: CompiledPolicy): boolean {
  return markOf(policy.onLimit) !== undefined;
}

/** When everything has been decided by what the client sent. */
export function applyMarks({ unset, set }: Marks): void {
  for (const name of unset) ngx.req.clear_header(name);
  for (const { name, value } of set) ngx.req.set_header(name, value);
}

function markOf(onLimit: OnLimit): HeaderLine | undefined {
  return onLimit.action === "tag" || onLimit.action === "degrade" ? onLimit.header : undefined;
}

// Marks a request that is over a limit which lets it pass: headers tell the service, or nginx serves the request in another place.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import type { HeaderLine, OnLimit } from "../../../limiter/src/document/on-limit.ts";
import { clearHeader, sentNames, withDashes } from "../request/request-headers.ts";

const mostClearedUnseen = 8;

/** All of it happens after all policies have been evaluated, so that no policy counts by another one's mark. */
export interface Marks {
  unset?: string[];
  set?: HeaderLine[];
  /** Where nginx serves the request: a path or a named location. */
  target?: string;
}

/**
 * A header with this name from the client is not trusted, whether or not the policy applies to the request. In shadow mode a
 * policy changes nothing.
 */
export function unsetMark({ policy }: CompiledPolicy, marks: Marks): void {
  if (policy.onLimit.action === "reject" || policy.mode !== "enforce") return;
  const mark = markOf(policy.onLimit);
  if (mark === undefined) return;
  unset(marks, mark);
}

/** Marks a request that passes over the limit. The first policy says where it is served. @returns false: the policy has no mark */
export function setMark({ policy }: CompiledPolicy, marks: Marks): boolean {
  const mark = markOf(policy.onLimit);
  if (mark !== undefined) {
    setLine(marks, mark);
    return true;
  }
  const target = targetOf(policy.onLimit);
  if (target === undefined) return false;
  marks.target ??= target;
  return true;
}

export function isMarked({ set, target }: Marks): boolean {
  return set !== undefined || target !== undefined;
}

/** The same with a mark that the request was given before. */
export function setLine(marks: Marks, mark: HeaderLine): void {
  marks.set ??= [];
  marks.set.push(mark);
  // Nothing has been unset for a policy in shadow mode that an override enforces. nginx leaves a header with "_" for "-" when it sets one.
  unset(marks, mark);
}

/** Returns whether the policy lets a request pass over the limit, with a mark. */
export function hasMark({ policy }: CompiledPolicy): boolean {
  return markOf(policy.onLimit) !== undefined || targetOf(policy.onLimit) !== undefined;
}

/** Called when everything has been decided from the headers that the client sent. */
export function applyMarks({ unset, set }: Marks): void {
  if (unset !== undefined) clear(unset, set);
  if (set !== undefined) for (const { name, value } of set) ngx.req.set_header(name, value);
}

/** nginx goes through all headers for each name, and a thousand policies may each have one. @param set replaces what came with its names */
function clear(names: readonly string[], set: readonly HeaderLine[] | undefined): void {
  if (names[mostClearedUnseen] === undefined) {
    for (const name of names) clearHeader(name);
    return;
  }
  const isUnset = emptyTable<boolean>();
  for (const name of names) isUnset[name] = true;
  const isSet = emptyTable<boolean>();
  if (set !== undefined) for (const { name } of set) isSet[name] = true;
  for (const name of sentNames()) {
    if (isSet[name] !== true && isUnset[withDashes(name)] === true) ngx.req.clear_header(name);
  }
}

function unset(marks: Marks, { name }: HeaderLine): void {
  marks.unset ??= [];
  marks.unset.push(name);
}

function targetOf(onLimit: OnLimit): string | undefined {
  return onLimit.action === "degrade" ? onLimit.target : undefined;
}

function markOf(onLimit: OnLimit): HeaderLine | undefined {
  return onLimit.action === "tag" || onLimit.action === "degrade" ? onLimit.header : undefined;
}

// Merges the decisions of several limits, of one policy or of many: the request is allowed if all of them allow it, and the
// headers show the most restrictive limit first, and beside it the others of its policy.

import { type Decision, emptyDecision, never } from "../algorithms/decision.ts";
import { emptyTable } from "../basics/table.ts";
import { isEndless, rateLimitItem, wholeSeconds } from "../header-values.ts";
import type { CompiledPolicy } from "./compile.ts";

/** What the headers say of a limit that is not the most restrictive. */
export interface OtherLimit {
  readonly policy: CompiledPolicy;
  readonly limitName: string;
  readonly remaining: number;
  readonly resetAfterUs: number;
}

export interface MergedDecision {
  allowed: boolean;
  /** The policy of the most restrictive limit; undefined while nothing was decided. */
  policy: CompiledPolicy | undefined;
  limitName: string;
  decision: Decision;
  /** The limits that are not the most restrictive, of policies that have several, in the order in which they were decided. */
  others: OtherLimit[];
  /** The longest wait that a limit imposed on the request, in µs. */
  delayUs: number;
  /** Names of the limits that refused. */
  violated: string[];
  /**
   * True if the client receives the state of its limits only when the request is refused or must wait: other decisions need
   * not be merged.
   */
  quiet: boolean;
}

/** Nothing is added to this one. */
const noOthers: OtherLimit[] = [];

export function newMergedDecision(): MergedDecision {
  return {
    allowed: true,
    policy: undefined,
    limitName: "",
    decision: emptyDecision(),
    others: noOthers,
    delayUs: 0,
    violated: [],
    quiet: false,
  };
}

/** Makes it equal to a new one. */
export function clearMerged(merged: MergedDecision): void {
  merged.policy = undefined;
  merged.others = noOthers;
  merged.delayUs = 0;
  if (merged.allowed) return;
  merged.allowed = true;
  merged.violated = [];
}

/**
 * Returns where a limit may write its decision for `mergeLimit`: into the merged decision itself, while nothing was merged yet.
 */
export function mergeTarget(merged: MergedDecision, otherwise: Decision): Decision {
  return merged.policy === undefined ? merged.decision : otherwise;
}

/** Adds what one limit decided. The decision is copied, unless it was written there (see `mergeTarget`). */
export function mergeLimit(
  merged: MergedDecision,
  policy: CompiledPolicy,
  limitName: string,
  decision: Decision,
): void {
  if (!decision.allowed) {
    merged.allowed = false;
    merged.violated.push(limitName);
  }
  if (decision.delayUs > merged.delayUs) merged.delayUs = decision.delayUs;
  showIfMoreRestrictive(merged, policy, limitName, decision);
}

/** Adds what one limit has left after units that were used already were charged to it: that is never refused, and nobody waits for it. */
export function mergeReported(
  merged: MergedDecision,
  policy: CompiledPolicy,
  limitName: string,
  decision: Decision,
): void {
  decision.allowed = true;
  decision.retryAfterUs = 0;
  decision.delayUs = 0;
  mergeLimit(merged, policy, limitName, decision);
}

/** Adds the merged decision of a policy that was decided separately. */
export function mergeAll(merged: MergedDecision, own: MergedDecision): void {
  if (own.policy === undefined) return;
  if (!own.allowed) merged.allowed = false;
  for (const name of own.violated) merged.violated.push(name);
  if (own.delayUs > merged.delayUs) merged.delayUs = own.delayUs;
  showAll(merged, own);
}

/** Shows in the headers what was decided separately. This alone is for a policy whose refusal does not stop the request. */
export function showAll(merged: MergedDecision, own: MergedDecision): void {
  if (own.policy === undefined) return;
  showIfMoreRestrictive(merged, own.policy, own.limitName, own.decision);
  for (const other of own.others) addOther(merged, other);
}

function showIfMoreRestrictive(
  merged: MergedDecision,
  policy: CompiledPolicy,
  limitName: string,
  decision: Decision,
): undefined {
  if (merged.policy !== undefined) {
    if (!isMoreRestrictive(decision, merged.decision)) return keepOther(merged, policy, limitName, decision);
    keepOther(merged, merged.policy, merged.limitName, merged.decision);
  }
  merged.policy = policy;
  merged.limitName = limitName;
  const shown = merged.decision;
  if (shown === decision) return;
  shown.allowed = decision.allowed;
  shown.limit = decision.limit;
  shown.remaining = decision.remaining;
  shown.retryAfterUs = decision.retryAfterUs;
  shown.resetAfterUs = decision.resetAfterUs;
  shown.delayUs = decision.delayUs;
}

/** A limit that its policy has alone is only ever shown first. */
function keepOther(merged: MergedDecision, policy: CompiledPolicy, limitName: string, decision: Decision): undefined {
  if (policy.limits.length === 1) return;
  addOther(merged, { policy, limitName, remaining: decision.remaining, resetAfterUs: decision.resetAfterUs });
}

function addOther(merged: MergedDecision, other: OtherLimit): undefined {
  if (merged.others === noOthers) merged.others = [other];
  else merged.others.push(other);
}

/**
 * Returns what follows the most restrictive limit in `RateLimit`: `, "daily";r=4210;t=36000` for each other limit of its policy, with what was
 * last decided. Empty: there is none.
 *
 * @param textOf writes a whole number
 */
export function otherItems(
  { policy, limitName, others }: MergedDecision,
  textOf: (this: void, whole: number) => string,
): string {
  if (others === noOthers || policy === undefined) return "";
  const listed = emptyTable<true>();
  listed[limitName] = true;
  let items = "";
  for (let i = others.length - 1; i >= 0; i--) {
    const other = others[i] as OtherLimit;
    const isOfPolicy = other.policy.app === policy.app && other.policy.name === policy.name;
    if (!isOfPolicy || listed[other.limitName]) continue;
    listed[other.limitName] = true;
    const reset = isEndless(other) ? undefined : textOf(wholeSeconds(other.resetAfterUs));
    items = `, ${rateLimitItem(other.limitName, textOf(other.remaining), reset)}${items}`;
  }
  return items;
}

/**
 * Returns whether `a` is more restrictive: a refusal before a permission, the longer wait before the shorter, fewer remaining
 * units before more.
 */
function isMoreRestrictive(a: Decision, b: Decision): boolean {
  if (a.allowed !== b.allowed) return !a.allowed;
  if (!a.allowed) return b.retryAfterUs !== never && (a.retryAfterUs === never || a.retryAfterUs > b.retryAfterUs);
  if (a.remaining !== b.remaining) return a.remaining < b.remaining;
  return a.resetAfterUs > b.resetAfterUs;
}

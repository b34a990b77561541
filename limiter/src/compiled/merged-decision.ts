// What a request is told when several limits, of one policy or of many, have decided: allowed if all allow, and in the
// headers the limit nearest to refusing speaks.

import { type Decision, emptyDecision, never } from "../algorithms/decision.ts";
import type { CompiledPolicy } from "./compile.ts";

export interface MergedDecision {
  allowed: boolean;
  /** Whose limit speaks; undefined while nothing was decided. */
  policy: CompiledPolicy | undefined;
  limitName: string;
  decision: Decision;
  /** The longest that a limit told the request to wait, in µs. */
  delayUs: number;
  /** Names of the limits that refused. */
  violated: string[];
  /** Nobody is told where the request stands, unless it is refused or told to wait: a limit that has nothing to say is silent. */
  quiet: boolean;
}

export function newMergedDecision(): MergedDecision {
  return {
    allowed: true,
    policy: undefined,
    limitName: "",
    decision: emptyDecision(),
    delayUs: 0,
    violated: [],
    quiet: false,
  };
}

/** Makes it as good as a new one. */
export function clearMerged(merged: MergedDecision): void {
  merged.policy = undefined;
  merged.delayUs = 0;
  if (merged.allowed) return;
  merged.allowed = true;
  merged.violated = [];
}

/** Where a limit may write its decision for `hear`: into the verdict, while no other has spoken there. */
export function mergeTarget(merged: MergedDecision, otherwise: Decision): Decision {
  return merged.policy === undefined ? merged.decision : otherwise;
}

/** Adds what one limit decided. The verdict copies it, unless it was written there. */
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

/** Adds what a verdict of its own says, of a policy that was decided by itself. */
export function mergeAll(merged: MergedDecision, own: MergedDecision): void {
  if (own.policy === undefined) return;
  if (!own.allowed) merged.allowed = false;
  for (const name of own.violated) merged.violated.push(name);
  if (own.delayUs > merged.delayUs) merged.delayUs = own.delayUs;
  showIfMoreRestrictive(merged, own.policy, own.limitName, own.decision);
}

/** The same of a limit whose refusal does not keep the request from going on: it speaks, and that is all. */
export function showIfMoreRestrictive(
  merged: MergedDecision,
  policy: CompiledPolicy,
  limitName: string,
  decision: Decision,
): void {
  if (merged.policy !== undefined && !isMoreRestrictive(decision, merged.decision)) return;
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

/** A refusal before a permission, the longer wait before the shorter, fewer remaining units before more. */
function isMoreRestrictive(a: Decision, b: Decision): boolean {
  if (a.allowed !== b.allowed) return !a.allowed;
  if (!a.allowed) return b.retryAfterUs !== never && (a.retryAfterUs === never || a.retryAfterUs > b.retryAfterUs);
  if (a.remaining !== b.remaining) return a.remaining < b.remaining;
  return a.resetAfterUs > b.resetAfterUs;
}

// What a request is told when several limits, of one policy or of many, have decided: allowed if all allow, and in the
// headers the limit nearest to refusing speaks.

import { type Decision, emptyDecision, never } from "./decision.ts";
import type { CompiledPolicy } from "./policy/compile.ts";

export interface Verdict {
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

export function emptyVerdict(): Verdict {
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
export function forgetVerdict(verdict: Verdict): void {
  verdict.policy = undefined;
  verdict.delayUs = 0;
  if (verdict.allowed) return;
  verdict.allowed = true;
  verdict.violated = [];
}

/** Where a limit may write its decision for `hear`: into the verdict, while no other has spoken there. */
export function ear(verdict: Verdict, otherwise: Decision): Decision {
  return verdict.policy === undefined ? verdict.decision : otherwise;
}

/** Adds what one limit decided. The verdict copies it, unless it was written there. */
export function hear(verdict: Verdict, policy: CompiledPolicy, limitName: string, decision: Decision): void {
  if (!decision.allowed) {
    verdict.allowed = false;
    verdict.violated.push(limitName);
  }
  if (decision.delayUs > verdict.delayUs) verdict.delayUs = decision.delayUs;
  mention(verdict, policy, limitName, decision);
}

/** Adds what a verdict of its own says, of a policy that was decided by itself. */
export function hearAll(verdict: Verdict, own: Verdict): void {
  if (own.policy === undefined) return;
  if (!own.allowed) verdict.allowed = false;
  for (const name of own.violated) verdict.violated.push(name);
  if (own.delayUs > verdict.delayUs) verdict.delayUs = own.delayUs;
  mention(verdict, own.policy, own.limitName, own.decision);
}

/** The same of a limit whose refusal does not keep the request from going on: it speaks, and that is all. */
export function mention(verdict: Verdict, policy: CompiledPolicy, limitName: string, decision: Decision): void {
  if (verdict.policy !== undefined && !outspeaks(decision, verdict.decision)) return;
  verdict.policy = policy;
  verdict.limitName = limitName;
  const spoken = verdict.decision;
  if (spoken === decision) return;
  spoken.allowed = decision.allowed;
  spoken.limit = decision.limit;
  spoken.remaining = decision.remaining;
  spoken.retryAfterUs = decision.retryAfterUs;
  spoken.resetAfterUs = decision.resetAfterUs;
  spoken.delayUs = decision.delayUs;
}

/** A refusal before a permission, the longer wait before the shorter, fewer remaining units before more. */
function outspeaks(a: Decision, b: Decision): boolean {
  if (a.allowed !== b.allowed) return !a.allowed;
  if (!a.allowed) return b.retryAfterUs !== never && (a.retryAfterUs === never || a.retryAfterUs > b.retryAfterUs);
  if (a.remaining !== b.remaining) return a.remaining < b.remaining;
  return a.resetAfterUs > b.resetAfterUs;
}

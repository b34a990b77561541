// Decides a request by all policies that it meets, and responds.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, type MergedDecision } from "../../../limiter/src/compiled/merged-decision.ts";
import { forgetUndecided } from "../charging/admit.ts";
import { deferCharge } from "../charging/deferred-charges.ts";
import { holdSlots, isLost, releaseSlots } from "../charging/held-slots.ts";
import { chargeForGood, refundAll } from "../charging/refunds.ts";
import { mayWait, refuseToWait, refuseUnasked, waitUs } from "../charging/waiting-requests.ts";
import { countDecision } from "../metrics/counts.ts";
import { type DecidedBefore, noteDecided, remember } from "../request/decided-before.ts";
import { type Explanation, reportExplanation } from "../respond/explain.ts";
import { setHeaders } from "../respond/headers.ts";
import { areLogged, logOutcome, logOutcomeAgain } from "../respond/log-variables.ts";
import { applyMarks, hasMark, isMarked, type Marks, setLine, setMark } from "../respond/marks.ts";
import { answerOverLimit } from "../respond/over-limit.ts";
import { refuseAmbiguousKey, refuseBanned, refuseCost, refuseUndecided, refuseWithoutKey } from "../respond/refuse.ts";
import type { HeaderStyle, Settings } from "../settings.ts";
import { type Charge, type Denial, type Hold, newOutcome, type Outcome } from "../stores/store.ts";
import { evaluate } from "./evaluate.ts";

/**
 * @param policies the candidates, in order of evaluation
 * @param before what others decided before nginx redirected the request here
 * @param explanation undefined: nobody asked for one
 */
export function decideAll(
  settings: Settings,
  policies: readonly CompiledPolicy[],
  path: string,
  before: DecidedBefore | undefined,
  explanation: Explanation | undefined,
): undefined {
  const outcome = newOutcome();
  const marks: Marks = {};
  const decided: CompiledPolicy[] = [];
  evaluate(policies, path, outcome, marks, decided, explanation);
  forgetUndecided();
  const { merged, charges, held } = outcome;
  if (held !== undefined && isAllowed(outcome)) refuseIfLost(held, merged, marks);
  if (isAllowed(outcome) && merged.delayUs > 0) turnAwayIfFull(charges, merged, marks);
  if (areLogged()) (before === undefined ? logOutcome : logOutcomeAgain)(outcome, isMarked(marks));
  if (isAllowed(outcome)) keepDecided(decided, marks, before);
  applyMarks(marks);
  if (explanation !== undefined) reportExplanation(explanation, outcome);
  if (isAllowed(outcome)) {
    goOn(before?.isOverLimit === true ? "none" : settings.headers, outcome);
    // There, only policies decide it that have not.
    if (marks.target !== undefined) ngx.exec(marks.target);
    return;
  }
  if (held !== undefined) releaseSlots(held);
  if (charges.length > 0) refundAll(charges);
  return outcome.denial === undefined ? answerOverLimit(settings.headers, merged) : deny(outcome.denial);
}

/** For other locations that nginx may redirect the request to. */
function keepDecided(decided: CompiledPolicy[], marks: Marks, before: DecidedBefore | undefined): undefined {
  // Policies that do not apply here may have removed them.
  if (before?.marks !== undefined) for (const mark of before.marks) setLine(marks, mark);
  if (decided.length === 0) return;
  if (before === undefined) noteDecided(decided);
  else for (const policy of decided) before.policies.push(policy);
  if (!isMarked(marks)) return;
  const known = before ?? remember(decided);
  known.marks = marks.set;
  if (marks.target !== undefined) known.isOverLimit = true;
}

function isAllowed({ merged, denial }: Outcome): boolean {
  return denial === undefined && merged.allowed;
}

function goOn(style: HeaderStyle, { merged, charges }: Outcome): undefined {
  for (const charge of charges) {
    if (charge.policy.policy.holdsSlots) holdSlots(charge);
    if (charge.policy.policy.deferred) deferCharge(charge);
  }
  chargeForGood(charges);
  if (style !== "none") setHeaders(style, merged);
  if (merged.delayUs > 0) {
    const shaping = charges.filter((charge) => isShaping(charge));
    for (const { policy } of shaping) countDecision(policy, "delayed", undefined);
    const first = shaping[0] ?? charges[0];
    if (first !== undefined) waitUs(merged.delayUs, first.policy, charges);
  }
}

function isShaping({ limits }: Charge): boolean {
  return limits.some(({ rate }) => rate.algorithm === "leaky-bucket");
}

function deny({ policy, reason }: Denial): undefined {
  if (reason === "key-missing") return refuseWithoutKey(policy);
  if (reason === "key-ambiguous") return refuseAmbiguousKey(policy);
  if (reason === "cost-invalid") return refuseCost(policy);
  return reason === "banned" ? refuseBanned() : refuseUndecided(policy);
}

/** When a request may come again that has lost its slots: they are free at any moment. */
const lostRetryUs = 1_000;

/** A request whose slots others have by now is over the limit. */
function refuseIfLost(held: readonly Hold[], merged: MergedDecision, marks: Marks): undefined {
  for (const hold of held) {
    if (!isLost(hold) || setMark(hold.policy, marks)) continue;
    clearMerged(merged);
    return refuseUnasked(merged, hold.policy, lostRetryUs);
  }
}

/**
 * If too many requests wait already, the first policy that would have this one wait refuses it. If all of these policies only mark what is
 * over the limit, the request goes on at once with their marks, and stays charged.
 */
function turnAwayIfFull(charges: readonly Charge[], merged: MergedDecision, marks: Marks): undefined {
  const shaping = charges.filter((charge) => isShaping(charge));
  const refusing = shaping.find(({ policy }) => !hasMark(policy)) ?? shaping[0];
  if (refusing === undefined || mayWait(refusing.policy)) return;
  if (!hasMark(refusing.policy)) return refuseToWait(merged, refusing.policy);
  for (const { policy } of shaping) setMark(policy, marks);
  merged.delayUs = 0;
}

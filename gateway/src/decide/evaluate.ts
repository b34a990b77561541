// Asks the policies that a request meets, in order of evaluation: node policies one by one, then all cluster policies at once. Stops at the
// first refusal.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, mergeAll, showAll } from "../../../limiter/src/compiled/merged-decision.ts";
import { meets } from "../../../limiter/src/index/policy-index.ts";
import { admit, admitTogether, keepUndecided } from "../charging/admit.ts";
import { admitInTurn } from "../charging/delay.ts";
import { holdUndecided } from "../charging/held-slots.ts";
import { observe } from "../charging/shadow.ts";
import { countDecision } from "../metrics/counts.ts";
import { type Applicability, type AppliedPolicy, readApplicability } from "../request/applicability.ts";
import { hasHeaderOnce, readFormBodyOnce, readingsFor } from "../request/key-values.ts";
import { hasHeader } from "../request/request-headers.ts";
import { type Explanation, explain } from "../respond/explain.ts";
import { keyOfRequest } from "../respond/key-text.ts";
import { type Marks, setMark, unsetMark } from "../respond/marks.ts";
import { reportShadowRefusal } from "../respond/shadow-report.ts";
import { type Check, type Denial, newCheck, newOutcome, type Outcome } from "../stores/store.ts";

/** Work space: read before anything yields. */
const applied = {} as AppliedPolicy;

/**
 * @param outcome empty; says afterwards what became of the request, and what it was charged
 * @param decided gets the policies that decide the request
 */
export function evaluate(
  policies: readonly CompiledPolicy[],
  path: string,
  outcome: Outcome,
  marks: Marks,
  decided: CompiledPolicy[],
  explanation: Explanation | undefined,
): undefined {
  let inFleet: Check[] | undefined;
  const readings = readingsFor(policies.length);
  const has =
    readings === undefined
      ? hasHeader
      : (header: string, values: Readonly<Record<string, boolean>>) => hasHeaderOnce(readings, header, values);
  // Its client may take long to send a form: until then, a request of many policies has taken nothing of any.
  if (readings !== undefined && readAnyForm(policies, path, has)) readFormBodyOnce(readings);
  for (const candidate of policies) {
    if (candidate.policy.conditional && !meets(candidate, path, methodFor(candidate), has)) continue;
    unsetMark(candidate, marks);
    // The client may go away before it has sent its body.
    if (candidate.policy.readsForm && outcome.charges.length > 0) keepUndecided(outcome.charges);
    const applicability = readApplicability(candidate, applied, readings);
    if (applicability !== "applies") {
      if (explanation !== undefined) explain(explanation, candidate, undefined, applicability);
      outcome.denial = denialFor(candidate, applicability);
      if (outcome.denial !== undefined) return;
      if (applicability === "exempt") outcome.exempt ??= candidate;
      continue;
    }
    const { policy, keyValues } = applied;
    decided.push(candidate);
    // A refusal by such a policy need not be the end, or it charges nothing before the response has been sent.
    const separate = policy.policy.onLimit.action !== "reject" || policy.policy.deferred;
    const check = newCheck(policy, keyValues, separate);
    if (separate && policies.length > 1) check.isOneOfMany = true;
    if (policy.policy.mode === "shadow") {
      // Its store may be waited for, and the client may go away meanwhile.
      if (outcome.charges.length > 0) keepUndecided(outcome.charges);
      const [result, merged] = observe(check);
      if (result === "shadow-refused") {
        reportShadowRefusal(policy, () => keyOfRequest(policy, readings));
        outcome.shadow ??= merged;
      }
      if (explanation !== undefined) explain(explanation, policy, keyValues, result);
      continue;
    }
    if (explanation !== undefined) explain(explanation, policy, keyValues, check);
    if (policy.policy.store !== "node" && !separate) {
      inFleet ??= [];
      inFleet.push(check);
    } else if (!(separate ? decideSeparately(check, outcome, marks) : admit(check, outcome))) {
      return;
    } else if (policy.policy.holdsSlots) {
      holdUndecided(outcome, policy);
    }
  }
  if (inFleet !== undefined) admitTogether(inFleet, outcome);
}

function readAnyForm(policies: readonly CompiledPolicy[], path: string, has: Parameters<typeof meets>[3]): boolean {
  for (const candidate of policies) {
    const { readsForm, mode, conditional } = candidate.policy;
    if (readsForm && mode !== "off" && (!conditional || meets(candidate, path, methodFor(candidate), has))) return true;
  }
  return false;
}

/** Returns why a policy that does not decide the request refuses it; undefined: it lets the request pass. */
function denialFor(candidate: CompiledPolicy, applicability: Exclude<Applicability, "applies">): Denial | undefined {
  if (applicability === "off" || applicability === "exempt") return undefined;
  if (applicability === "key-missing" && candidate.policy.onMissingKey === "skip") return undefined;
  const isEnforced = mayEnforce(candidate, applicability);
  // A policy in shadow mode turns nobody away. What is banned there is banned by the app.
  if (!isEnforced && applicability !== "banned") return undefined;
  if (isEnforced) countDecision(candidate, "refused", undefined);
  return { policy: candidate, reason: applicability };
}

/** Returns whether the policy turns requests away, by what is known of this one: if servers read its key differently, any override may be meant. */
function mayEnforce({ policy, overrides }: CompiledPolicy, applicability: Applicability): boolean {
  if (applicability === "cost-invalid") return applied.policy.policy.mode === "enforce";
  return policy.mode === "enforce" || (applicability === "key-ambiguous" && overrides?.enforces === true);
}

function methodFor({ match }: CompiledPolicy): string {
  return match.methods === undefined ? "" : ngx.req.get_method();
}

/**
 * Decides a policy by itself, so that what it refuses takes nothing from the others: its request may wait, or pass with a mark.
 *
 * @returns false: the request is refused
 */
function decideSeparately(check: Check, outcome: Outcome, marks: Marks): boolean {
  const { policy, keyValues } = check;
  const { onLimit } = policy.policy;
  const own: Outcome = { ...newOutcome(), charges: outcome.charges };
  const decide = () => {
    clearMerged(own.merged);
    own.denial = undefined;
    return admit(check, own);
  };
  const waits = onLimit.action === "delay";
  if (waits && outcome.charges.length > 0) keepUndecided(outcome.charges);
  const allowed = waits ? admitInTurn(policy, keyValues, onLimit, own, decide) : decide();
  countDecision(policy, allowed ? "allowed" : "refused", keyValues);
  outcome.denial = own.denial;
  if (own.degraded !== undefined) outcome.degraded ??= own.degraded;
  if (own.overloaded) outcome.overloaded = true;
  if (own.waitedUs !== undefined) outcome.waitedUs = (outcome.waitedUs ?? 0) + own.waitedUs;
  if (own.denial !== undefined) return false;
  if (allowed || !setMark(policy, marks)) {
    mergeAll(outcome.merged, own.merged);
  } else {
    own.merged.decision.allowed = true;
    showAll(outcome.merged, own.merged);
  }
  return outcome.merged.allowed;
}

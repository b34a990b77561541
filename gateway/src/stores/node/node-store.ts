// The store of scope node: counters in this nginx's shared memory.

import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { runSoon } from "../../runtime/background.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import {
  type Charge,
  type Check,
  type DeferredCharge,
  type NoteRenewal,
  type Outcome,
  type Store,
  stayCharged,
} from "../store.ts";
import { admitDeferredOnNode, chargeDeferredOnNode } from "./deferred-charge.ts";
import { decideOnNode, mustAgree, refundOnNode, renewOnNode } from "./node-counters.ts";
import { forgetOnNode } from "./operator-changes.ts";
import { peekOnNode } from "./peek.ts";

export const nodeStore: Store = {
  admit,
  peek: ({ policy, keyValues }, merged) => peekOnNode(policy, policy.limits, keyValues, undefined, merged),
  refund: refundNow,
  refundLater: refundOnNodeLater,
  renew,
  chargesAtOnce,
  chargeDeferred,
  report: ({ policy, keyValues }, units, merged) =>
    chargeDeferredOnNode(policy, policy.limits, keyValues, units, merged),
  forget: forgetOnNode,
};

/** Refunds that wait for one timer. */
let late: Charge[] = [];

function admit(this: void, check: Check, outcome: Outcome): boolean {
  const { policy, keyValues, chargedAt, merged } = check;
  const { limits } = policy;
  const allowed = admitOnNode(check, limits, merged ?? outcome.merged);
  check.allowed = allowed;
  if (allowed) outcome.charges.push({ policy, limits, keyValues, chargedAt, store: "node" });
  return allowed;
}

/**
 * Decides one check by these limits, and charges it unless its charge is deferred.
 *
 * @param limits of the policy, or a node's share of them
 */
export function admitOnNode(
  { policy, keyValues, chargedAt }: Check,
  limits: readonly CompiledLimit[],
  merged: MergedDecision,
): boolean {
  if (policy.policy.deferred) return admitDeferredOnNode(policy, limits, keyValues, merged);
  return decideOnNode(policy, limits, keyValues, merged, chargedAt);
}

/** Refunds charges of this store and of shares. */
function refundNow(this: void, charges: readonly Charge[]): void {
  for (const { policy, limits, keyValues, chargedAt } of charges) refundOnNode(policy, limits, keyValues, chargedAt);
}

function refundOnNodeLater(this: void, charge: Charge): void {
  if (!mustAgree()) {
    refundNow([charge]);
    return;
  }
  late.push(charge);
  if (late.length > 1) return;
  const failure = runSoon(() => {
    const charges = late;
    late = [];
    for (const each of charges) {
      // An error in one refund must not prevent the others.
      const [refunded, defect] = pcall(refundNow, [each]);
      if (!refunded) noteDefect("timers", stayCharged, defect);
    }
  });
  if (failure === undefined) return;
  late = [];
  warnSparingly(stayCharged, failure);
}

function renew(this: void, charges: readonly Charge[], note: NoteRenewal): void {
  for (const charge of charges) {
    const { policy, limits, keyValues, chargedAt } = charge;
    for (let i = 0; i < limits.length; i++) {
      note(charge, i, renewOnNode(policy, limits[i] as CompiledLimit, keyValues, chargedAt[i] as number));
    }
  }
}

function chargesAtOnce(this: void): boolean {
  return !mustAgree();
}

function chargeDeferred(this: void, charges: readonly DeferredCharge[]): void {
  for (const { policy, limits, keyValues, units } of charges) {
    chargeDeferredOnNode(policy, limits, keyValues, units, undefined);
  }
}

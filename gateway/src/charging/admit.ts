// Ordinary charging of everything that is not on the fast path (decide/fast-path.ts): decides checks by the stores of their
// policies, all or none, and without Redis if Redis does not decide.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { countDecision } from "../metrics/counts.ts";
import { countOverloadDecision } from "../metrics/overload-state.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { inOneTimer } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { refusesAtOnce } from "../stores/lease/admit.ts";
import { recallAny } from "../stores/redis/decide-checks.ts";
import { admitTogether as admitTogetherInRedis, chargesByOneCall } from "../stores/redis/exact-store.ts";
import { keepTogether } from "../stores/redis/overload.ts";
import { shareStore } from "../stores/share/share-store.ts";
import { type Charge, type Charged, type Check, type Outcome, stayCharged } from "../stores/store.ts";
import { refundLater } from "./refunds.ts";
import { stores } from "./stores.ts";

/** What was charged for a request that is not decided yet and waits: refunded if its client goes away meanwhile. */
const undecidedField = newRequestField<readonly Charge[]>((charges) => {
  for (const charge of charges) refundLater(charge);
});

/**
 * Decides this check and charges it. May yield. Counts the decision, unless the check is decided separately.
 *
 * @param outcome gets the decision, the charge, and the denial if the policy denies while Redis does not decide
 * @returns whether the request is allowed by it
 */
export function admit(check: Check, outcome: Outcome): boolean {
  const { policy, keyValues, separate } = check;
  const { store } = policy.policy;
  const { charges } = outcome;
  const before = charges.length;
  if (store !== "node" && before > 0) {
    keepUndecided(charges);
    check.isOneOfMany = true;
  }
  const allowed = stores[store].admit(check, outcome);
  if (allowed === undefined) {
    takeBack([check], charges, before);
    return admitWithoutRedis(check, outcome);
  }
  if (!separate) countDecision(policy, allowed ? "allowed" : "refused", keyValues);
  return allowed;
}

/**
 * Does the same for several checks, all or none. After a refusal, only those are decided that have a merged decision of
 * their own, because their caller is told about each.
 *
 * @param outcome also gets the charges that were made before a later check refused
 */
export function admitTogether(checks: readonly Check[], outcome: Outcome): boolean {
  if (checks.length === 1) return admit(checks[0] as Check, outcome);
  keepTogether(checks);
  const { charges } = outcome;
  const before = charges.length;
  // Until the reply to a single call, there is nothing to refund.
  if (before > 0 || !chargesByOneCall(checks)) {
    keepUndecided(charges);
    for (const check of checks) check.isOneOfMany = true;
  }
  const allowed = admitAll(checks, outcome);
  if (allowed === undefined) {
    takeBack(checks, charges, before);
    return admitAllWithoutRedis(checks, outcome);
  }
  for (const { policy, keyValues, separate, allowed: own } of checks) {
    // Undefined: another check had refused before this one was decided.
    if (!separate && own !== undefined) countDecision(policy, own ? "allowed" : "refused", keyValues);
  }
  return allowed;
}

/** Decides this check without Redis, which did not. May yield. */
export function admitWithoutRedis(check: Check, outcome: Outcome): boolean {
  const { policy, keyValues, separate } = check;
  if (!check.degraded) {
    countDecision(policy, "degraded", undefined);
    if (check.overloaded) countOverloadDecision();
  }
  check.degraded = true;
  outcome.degraded ??= policy;
  if (check.overloaded) outcome.overloaded = true;
  const allowed = shareStore.admit(check, outcome) === true;
  check.allowed = allowed;
  if (!separate) countDecision(policy, allowed ? "allowed" : "refused", keyValues);
  return allowed;
}

function admitAllWithoutRedis(checks: readonly Check[], outcome: Outcome): boolean {
  let all = true;
  for (const check of checks) {
    if (admitWithoutRedis(check, outcome)) continue;
    if (check.merged === undefined) return false;
    all = false;
  }
  return all;
}

/** Called before the current request waits for more: if its client goes away meanwhile, these charges are refunded. */
export function keepUndecided(charges: readonly Charge[]): void {
  keepForRequest(undecidedField, charges);
}

/** The current request is decided: if its client goes away now, nothing is refunded. */
export function forgetUndecided(): void {
  takeFromRequest(undecidedField);
}

/**
 * Decides the exact policies, which one call to Redis charges together, after the leased ones, or before them if their refusals are seldom
 * remembered. If a policy that would be charged later is known to refuse, none is charged.
 */
function admitAll(checks: readonly Check[], outcome: Outcome): boolean | undefined {
  const exact = checks.filter(({ policy }) => policy.policy.store === "exact");
  if (exact.length === checks.length) return admitTogetherInRedis(exact, outcome);
  if (exact.length === 0) return admitLeases(checks, outcome);
  if (recallAny(exact, outcome.merged)) return false;
  const leased = checks.filter(({ policy }) => policy.policy.store !== "exact");
  const isExactFirst = exact.some(({ policy }) => isSeldomRemembered(policy));
  if (isExactFirst && leased.some((check) => check.merged === undefined && refusesAtOnce(check, outcome))) return false;
  const first = isExactFirst ? admitTogetherInRedis(exact, outcome) : admitLeases(leased, outcome);
  if (first === undefined || (!first && checks.some(({ merged }) => merged === undefined))) return first;
  const second = isExactFirst ? admitLeases(leased, outcome) : admitTogetherInRedis(exact, outcome);
  return second === undefined ? undefined : first && second;
}

/**
 * Refusals of slots are not remembered, and those of costs that differ only for the last cost. While Redis refuses a flood of such requests, they
 * must not hold units of a lease, which others need.
 */
function isSeldomRemembered({ policy }: CompiledPolicy): boolean {
  return policy.holdsSlots || policy.isPriced === true || policy.costSource !== undefined;
}

function admitLeases(checks: readonly Check[], outcome: Outcome): boolean | undefined {
  let all = true;
  for (const check of checks) {
    const allowed = stores[check.policy.policy.store].admit(check, outcome);
    if (allowed === undefined) return undefined;
    if (!allowed && check.merged === undefined) return false;
    if (!allowed) all = false;
  }
  return all;
}

/** A request that Redis did not decide as a whole has been decided without it after that, in nearly all cases. */
const decidedAfterMs = 50;

/**
 * Each of the checks is decided again, without Redis. What was spent of leases is refunded at once. What Redis has charged stays
 * charged if the request goes on, and is refunded otherwise.
 */
function takeBack(checks: readonly Check[], charges: Charge[], before: number): undefined {
  const charged: Charged[] = [];
  while (charges.length > before) {
    const charge = charges.pop() as Charge;
    const check = checks.find(({ chargedAt }) => chargedAt === charge.chargedAt);
    if (charge.store === "leased" || check === undefined) {
      refundLater(charge);
    } else {
      // The check's moments are filled anew by whoever decides now.
      check.charged = { charge: { ...charge, chargedAt: charge.chargedAt.slice() }, wentOn: false };
      charged.push(check.charged);
    }
  }
  if (charged.length === 0) return;
  const failure = refundUnlessGone(charged);
  if (failure !== undefined) warnSparingly(stayCharged, failure);
}

const refundUnlessGone = inOneTimer<Charged>((all) => {
  sleepMs(decidedAfterMs);
  for (const { charge, wentOn } of all) if (!wentOn) refundLater(charge);
});

// Ordinary charging of everything that is not on the fast path (decide/fast-path.ts): decides checks by the stores of their
// policies, all or none, and without Redis if Redis does not decide.

import { countDecision } from "../metrics/counts.ts";
import { keepForRequest, newRequestField, takeFromRequest } from "../request/request-state.ts";
import { runSoon } from "../runtime/background.ts";
import { sleepMs } from "../runtime/clock.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { shareStore } from "../stores/share/share-store.ts";
import { type Charge, type Charged, type Check, type Outcome, stayCharged } from "../stores/store.ts";
import { refundLater } from "./refunds.ts";
import { stores } from "./stores.ts";

/** What was charged for a request that is not decided yet and waits: refunded if its client goes away meanwhile. */
const undecidedField = newRequestField<readonly Charge[]>((charges) => {
  for (const charge of charges) refundLater(charge);
});

/**
 * Decides these checks and charges them. May yield. Counts the decisions, except those of checks that are decided separately.
 *
 * @param checks of scope node one, or of scope cluster any
 * @param outcome gets the decisions, the charges, also those made before a later check refused, and the denial if a policy denies while
 *   Redis does not decide
 * @returns whether the request is allowed by them
 */
export function admit(checks: readonly Check[], outcome: Outcome): boolean {
  const { charges } = outcome;
  const before = charges.length;
  const { store } = (checks[0] as Check).policy;
  if (store !== "node" && (before > 0 || checks.length > 1)) keepUndecided(charges);
  const isOneStore = store === "node" || checks.length === 1;
  const allowed = isOneStore ? stores[store].admit(checks, outcome) : admitInFleet(checks, outcome);
  if (allowed === undefined) {
    takeBack(checks, charges, before);
    return admitWithoutRedis(checks, outcome);
  }
  for (const { policy, separate, allowed: own } of checks) {
    // Undefined: another check had refused before this one was decided.
    if (!separate && own !== undefined) countDecision(policy, own ? "allowed" : "refused");
  }
  return allowed;
}

/** Decides these checks without Redis, which did not. May yield. */
export function admitWithoutRedis(checks: readonly Check[], outcome: Outcome): boolean {
  let all = true;
  for (const check of checks) {
    const { policy, separate } = check;
    if (!check.degraded) countDecision(policy, "degraded");
    check.degraded = true;
    const allowed = shareStore.admit([check], outcome) === true;
    check.allowed = allowed;
    if (!separate) countDecision(policy, allowed ? "allowed" : "refused");
    if (!allowed && check.merged === undefined) return false;
    if (!allowed) all = false;
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

/** Leased policies first, one by one: the others are charged by one call. */
function admitInFleet(checks: readonly Check[], outcome: Outcome): boolean | undefined {
  const leased = checks.filter(({ policy }) => policy.store === "leased");
  if (leased.length === 0) return stores.exact.admit(checks, outcome);
  const allowed = stores.leased.admit(leased, outcome);
  if (allowed === undefined || leased.length === checks.length) return allowed;
  // After a refusal only those checks are decided whose caller is told about each.
  if (!allowed && (checks[0] as Check).merged === undefined) return false;
  const exact = checks.filter(({ policy }) => policy.store !== "leased");
  const allowedByRedis = stores.exact.admit(exact, outcome);
  return allowedByRedis === undefined ? undefined : allowedByRedis && allowed;
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
      check.charged = { charge: { ...charge, chargedAt: [...charge.chargedAt] }, wentOn: false };
      charged.push(check.charged);
    }
  }
  if (charged.length === 0) return;
  const failure = runSoon(() => {
    sleepMs(decidedAfterMs);
    for (const { charge, wentOn } of charged) if (!wentOn) refundLater(charge);
  });
  if (failure !== undefined) warnSparingly(stayCharged, failure);
}

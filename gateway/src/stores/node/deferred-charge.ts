// Charges of units that were used already, in this nginx's shared memory: see limiter/src/algorithms/deferred-charge.ts.

import { type Decision, emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import {
  admitsWithDebt,
  chargeDeferred,
  movesWithClock,
  standsFromUs,
} from "../../../../limiter/src/algorithms/deferred-charge.ts";
import { lifetimeUs } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit, mergeReported } from "../../../../limiter/src/compiled/merged-decision.ts";
import { countEvent } from "../../metrics/counts.ts";
import { nowUs } from "../../runtime/clock.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import { cellRing, keepCounter, loadCounter, loadRing, newCellCounter, saveCounter } from "./counter-cells.ts";
import { isCalm } from "./counter-memory.ts";
import { acquireAll, findPlace, loadPlaced, releaseAll } from "./counter-places.ts";
import { debtOf, keepDebt } from "./debts-on-node.ts";
import { lockOf, mustAgree } from "./node-counters.ts";

/** Clients are told to try again after this time if there is no memory to count them. */
const uncountedRetryUs = 1_000_000;

/** Work space: what is read here is written before anything yields. */
const counter = newCellCounter();
const decision = emptyDecision();
/** The moment from which the counter's state is in force: its debt is paid then. */
let standsUs = 0;
/** Whether the clock stepped back behind the debt, which is to be saved as it is now. */
let debtMoved = false;

/**
 * Returns whether a request may pass whose charge is deferred. Charges nothing. May yield if workers must agree.
 *
 * @param limits of the policy, or a node's share of them
 * @param merged receives every limit; undefined if nothing is reported
 */
export function admitDeferredOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  merged: MergedDecision | undefined,
): boolean {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  let allowed = true;
  for (const limit of limits) {
    if (!admitDeferredCell(policy, limit, keyValues, now)) allowed = false;
    if (merged !== undefined) mergeLimit(merged, policy, limit.name, decision);
  }
  if (held !== undefined) releaseAll(held);
  return allowed;
}

/**
 * Charges the units that were used to every limit, available or not. May yield if workers must agree.
 *
 * @param units 1 or more
 * @param merged receives every limit, as allowed, with the units that are left; undefined if nothing is reported
 * @returns how many units were charged beyond what was left, of the limit where these are most
 */
export function chargeDeferredOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  units: number,
  merged: MergedDecision | undefined,
): number {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  let most = 0;
  for (const limit of limits) {
    most = math.max(most, chargeDeferredCell(policy, limit, keyValues, units, now));
    if (merged !== undefined) mergeReported(merged, policy, limit.name, decision);
  }
  if (held !== undefined) releaseAll(held);
  return most;
}

/** Returns what a request would be told about one limit. Charges nothing. @returns work space: read it before the next call */
export function describeWithDebt(limit: CompiledLimit, keyValues: string, now: number): Decision {
  load(limit, keyValues, now);
  admitsWithDebt(limit.rate, counter, cellRing, now, standsUs, decision);
  return decision;
}

function admitDeferredCell(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string, now: number): boolean {
  const found = load(limit, keyValues, now);
  let allowed = admitsWithDebt(limit.rate, counter, cellRing, now, standsUs, decision);
  // If there is no memory now, the units that the response uses could not be charged.
  if (allowed && !found && !isCalm() && !findPlace(counter, policy, limit, keyValues)) {
    allowed = false;
    decision.allowed = false;
    decision.retryAfterUs = uncountedRetryUs;
    countEvent("uncounted-refusals");
  }
  if (counter.stepped) saveCounter(counter, now);
  // If there is no room for it, the debt stays where it is.
  if (debtMoved) keepDebt(policy, counter, standsUs, now);
  return allowed;
}

/** Fills the decision. @returns how many of the units were charged beyond what was left */
function chargeDeferredCell(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  units: number,
  now: number,
): number {
  const { rate } = limit;
  const found = load(limit, keyValues, now);
  loadRing(counter);
  admitsWithDebt(rate, counter, cellRing, now, standsUs, decision);
  const beyond = math.max(units - decision.remaining, 0);
  if (!found && !findPlace(counter, policy, limit, keyValues)) {
    noteUnstored(policy);
    return beyond;
  }
  const { atUs, count } = counter;
  const paidAtUs = chargeDeferred(rate, counter, cellRing, standsUs, units);
  if (found && rate.algorithm === "fixed-window" && counter.atUs === atUs && !counter.shared) {
    // Other workers may charge by incr meanwhile, which needs no lock.
    countersDict.incr(counter.key, counter.count - count);
  } else if (!keepCounter(counter, paidAtUs - now + lifetimeUs(rate, counter, paidAtUs))) {
    noteUnstored(policy);
  }
  if (paidAtUs > now && !keepDebt(policy, counter, paidAtUs, now)) noteUnstored(policy);
  admitsWithDebt(rate, counter, cellRing, now, paidAtUs, decision);
  return beyond;
}

function noteUnstored({ app, name }: CompiledPolicy): undefined {
  countEvent("unstored-charges");
  warnSparingly("units that were used were not charged, because there is no memory for the charge", `${app}/${name}`);
}

/** Fills `standsUs` and `debtMoved`. @returns whether the counter exists */
function load(limit: CompiledLimit, keyValues: string, now: number): boolean {
  const { rate } = limit;
  counter.rate = rate;
  counter.cost = 1;
  counter.stepped = false;
  standsUs = now;
  debtMoved = false;
  const found = loadPlaced(counter, limit, keyValues, now);
  const debt = debtOf(counter);
  if (debt === undefined) return found;
  standsUs = standsFromUs(rate, debt, now);
  debtMoved = movesWithClock(rate, debt, now);
  loadCounter(counter, standsUs);
  return found;
}

// Charges that are made after requests were admitted, in this nginx's shared memory: see
// limiter/src/algorithms/deferred-charge.ts. A debt is a cell of its own whose key begins with "debt:". Its value is a text,
// "1700000120000000 1700000000000000 5": paidAtUs, sinceUs and quota.

import { type Decision, emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import {
  admitsWithDebt,
  chargeDeferred,
  type Debt,
  movesWithClock,
  standsFromUs,
} from "../../../../limiter/src/algorithms/deferred-charge.ts";
import { lifetimeUs } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { countEvent } from "../../metrics/counts.ts";
import { nowUs } from "../../runtime/clock.ts";
import { countersDict, lifeSecondsOf, overflowDict } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import {
  cellRing,
  dictOf,
  keepCounter,
  loadCounter,
  loadRing,
  newCellCounter,
  saveCounter,
  slabOfCell,
  storeCell,
  storeShared,
} from "./counter-cells.ts";
import { isCalm, takeFromReserve } from "./counter-memory.ts";
import { acquireAll, findPlace, loadPlaced, releaseAll } from "./counter-places.ts";
import { lockOf, mustAgree } from "./node-counters.ts";

/** No counter's key has ":" among its first 16 characters. */
const debtPrefix = "debt:";

/** Clients are told to try again after this time if there is no memory to count them. */
const uncountedRetryUs = 1_000_000;

/** Work space: what is read here is written before anything yields. */
const counter = newCellCounter();
const debt: Debt = { paidAtUs: 0, sinceUs: 0, quota: 1 };
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
 * Charges the units that a request used to every limit, available or not. May yield if workers must agree.
 *
 * @param units 1 or more
 */
export function chargeDeferredOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  units: number,
): undefined {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  for (const limit of limits) chargeDeferredCell(policy, limit, keyValues, units, now);
  if (held !== undefined) releaseAll(held);
}

/** Returns what a request would be told about one limit. Charges nothing. @returns work space: read it before the next call */
export function describeWithDebt(limit: CompiledLimit, keyValues: string, now: number): Decision {
  load(limit, keyValues, now);
  admitsWithDebt(limit.rate, counter, cellRing, now, standsUs, decision);
  return decision;
}

/** @param key of the counter's own cell */
export function forgetDebt(key: string): void {
  countersDict.delete(debtPrefix + key);
  overflowDict.delete(debtPrefix + key);
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
  if (debtMoved) keepDebt(policy, standsUs, now, limit.rate.quota);
  return allowed;
}

function chargeDeferredCell(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  units: number,
  now: number,
): undefined {
  const { rate } = limit;
  const found = load(limit, keyValues, now);
  if (!found && !findPlace(counter, policy, limit, keyValues)) return noteUnstored(policy);
  loadRing(counter);
  const paidAtUs = chargeDeferred(rate, counter, cellRing, standsUs, units);
  if (!keepCounter(counter, paidAtUs - now + lifetimeUs(rate, counter, paidAtUs))) return noteUnstored(policy);
  if (paidAtUs > now && !keepDebt(policy, paidAtUs, now, rate.quota)) noteUnstored(policy);
}

/** Stores the debt of the counter in the work space. @returns false: there is no memory for it */
function keepDebt(policy: CompiledPolicy, paidAtUs: number, now: number, quota: number): boolean {
  const text = string.format("%.0f %.0f %.0f", paidAtUs, now, quota);
  const key = debtPrefix + counter.key;
  const lifeSeconds = lifeSecondsOf(paidAtUs - now);
  if (!counter.shared && mayKeep(policy, key, text, lifeSeconds) && storeCell(key, text, lifeSeconds, 0)) return true;
  return storeShared(key, text, lifeSeconds, 0);
}

/** For a debt beside its counter: while memory is scarce, a policy takes no more of it with debts than with counters. */
function mayKeep({ counterPrefix }: CompiledPolicy, key: string, text: string, lifeSeconds: number): boolean {
  if (isCalm() || countersDict.get(key)[0] !== undefined) return true;
  return takeFromReserve(counterPrefix, slabOfCell(key, text.length), lifeSeconds);
}

function noteUnstored({ app, name }: CompiledPolicy): undefined {
  countEvent("unstored-charges");
  warnSparingly("a response was not charged, because there is no memory for the charge", `${app}/${name}`);
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
  const stored = storedDebt();
  if (stored === undefined) return found;
  standsUs = standsFromUs(rate, debtFrom(stored), now);
  debtMoved = movesWithClock(rate, debt, now);
  loadCounter(counter, standsUs);
  return found;
}

/** A debt that found no room beside its counter is in the overflow. */
function storedDebt(): string | undefined {
  const key = debtPrefix + counter.key;
  const [stored] = dictOf(counter).get<string>(key);
  if (stored !== undefined || counter.shared || isCalm()) return stored;
  return overflowDict.get<string>(key)[0];
}

function debtFrom(stored: string): Debt {
  const [paidAtUs, sinceUs, quota] = string.match(stored, "^(%d+) (%d+) (%d+)$");
  debt.paidAtUs = tonumber(paidAtUs) as number;
  debt.sinceUs = tonumber(sinceUs) as number;
  debt.quota = tonumber(quota) as number;
  return debt;
}

// What requests took after they went on, in this nginx's shared memory: see limiter/src/settlement.ts. A debt is a cell of its
// own behind "debt:", a text "1700000120000000 1700000000000000 5": paidAtUs, sinceUs and quota.

import { lifetimeUs } from "../../../limiter/src/algorithms/rate.ts";
import { type Decision, emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { admitsUnsettled, type Debt, settle, standsFromUs } from "../../../limiter/src/settlement.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import { nowUs } from "../runtime/clock.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import {
  cellRing,
  counterKey,
  keepCounter,
  lifeSecondsOf,
  loadCounter,
  loadRing,
  newCellCounter,
  saveCounter,
  storeCell,
} from "./counter-cells.ts";
import { acquire, release } from "./key-lock.ts";
import { lockOf, mustAgree } from "./node-store.ts";

/** No counter's key has ":" among its first 16 characters. */
const debtPrefix = "debt:";

/** Work space: what is read here is written before anything yields. */
const counter = newCellCounter();
const debt: Debt = { paidAtUs: 0, sinceUs: 0, quota: 1 };
const decision = emptyDecision();

/**
 * Whether a request may go on whose units are settled later. Charges nothing. May yield where workers must agree.
 *
 * @param limits those of the policy, or a node's share of them
 * @param verdict hears every limit; undefined when nobody is to be told
 */
export function askOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  verdict: Verdict | undefined,
): boolean {
  const lock = mustAgree() ? lockOf(policy, keyValues) : undefined;
  const locked = lock !== undefined && acquire(lock);
  const now = nowUs();
  let allowed = true;
  for (const limit of limits) {
    if (!askCell(limit, keyValues, now)) allowed = false;
    if (verdict !== undefined) hear(verdict, policy, limit.name, decision);
  }
  if (lock !== undefined && locked) release(lock);
  return allowed;
}

/** Charges every limit what a request took, whether it is there or not. May yield where workers must agree. @param units 1 or more */
export function settleOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  units: number,
): undefined {
  const lock = mustAgree() ? lockOf(policy, keyValues) : undefined;
  const locked = lock !== undefined && acquire(lock);
  const now = nowUs();
  for (const limit of limits) settleCell(limit, keyValues, units, now);
  if (lock !== undefined && locked) release(lock);
}

/** What a request would be told of one limit. Charges nothing. @returns work space: to be read before the next call */
export function describeUnsettled(limit: CompiledLimit, keyValues: string, now: number): Decision {
  const fromUs = load(limit, keyValues, now);
  admitsUnsettled(limit.rate, counter, cellRing, now, fromUs, decision);
  return decision;
}

/** @param key the counter's */
export function forgetDebt(key: string): void {
  countersDict.delete(debtPrefix + key);
}

function askCell(limit: CompiledLimit, keyValues: string, now: number): boolean {
  const fromUs = load(limit, keyValues, now);
  const allowed = admitsUnsettled(limit.rate, counter, cellRing, now, fromUs, decision);
  if (counter.stepped) saveCounter(counter, now);
  return allowed;
}

function settleCell(limit: CompiledLimit, keyValues: string, units: number, now: number): undefined {
  const { rate } = limit;
  const fromUs = load(limit, keyValues, now);
  loadRing(counter);
  const paidAtUs = settle(rate, counter, cellRing, fromUs, units);
  keepCounter(counter, paidAtUs - now + lifetimeUs(rate, counter, paidAtUs));
  if (paidAtUs === now) return;
  const text = string.format("%.0f %.0f %.0f", paidAtUs, now, rate.quota);
  storeCell(debtPrefix + counter.key, text, lifeSecondsOf(paidAtUs - now), 0);
}

/** @returns the moment from which the counter, which is loaded, stands for itself */
function load(limit: CompiledLimit, keyValues: string, now: number): number {
  const { rate } = limit;
  counter.rate = rate;
  counter.cost = 1;
  counter.key = counterKey(limit, keyValues);
  counter.stepped = false;
  const [stored] = countersDict.get<string>(debtPrefix + counter.key);
  const fromUs = stored === undefined ? now : standsFromUs(rate, debtFrom(stored), now);
  loadCounter(counter, fromUs);
  return fromUs;
}

function debtFrom(stored: string): Debt {
  const [paidAtUs, sinceUs, quota] = string.match(stored, "^(%d+) (%d+) (%d+)$");
  debt.paidAtUs = tonumber(paidAtUs) as number;
  debt.sinceUs = tonumber(sinceUs) as number;
  debt.quota = tonumber(quota) as number;
  return debt;
}

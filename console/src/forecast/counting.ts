// The counters of one key of a policy, in memory, decided and charged as a gateway's own store does it (gateway/src/stores/node): all limits
// or none. The clock of a simulation never steps back, so what a refusal drops from a counter would be dropped by the next request anyway.

import { followWindow } from "../../../limiter/src/algorithms/calendar-window.ts";
import { type Counter, chargeAll, newCounter } from "../../../limiter/src/algorithms/charge-all.ts";
import { renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { type Decision, emptyDecision } from "../../../limiter/src/algorithms/decision.ts";
import {
  admitsWithDebt,
  chargeDeferred,
  type Debt,
  standsFromUs,
} from "../../../limiter/src/algorithms/deferred-charge.ts";
import { type MemoryCounter, memoryRing } from "../../../limiter/src/algorithms/memory-ring.ts";
import { describe, refund } from "../../../limiter/src/algorithms/rate.ts";
import type { SlidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { clearMerged, type MergedDecision, mergeLimit } from "../../../limiter/src/compiled/merged-decision.ts";

export interface KeyCounters {
  readonly policy: CompiledPolicy;
  readonly counters: readonly Counter[];
  readonly debts: readonly Debt[];
}

/** Slots that a request holds. */
export interface HeldSlots {
  readonly limit: CompiledLimit;
  readonly counter: Counter;
  readonly cost: number;
  chargedAtUs: number;
}

/** Work space. */
const decision: Decision = emptyDecision();

export function countersOf(policy: CompiledPolicy): KeyCounters {
  return {
    policy,
    counters: policy.limits.map(({ rate }) => {
      const counter = newCounter(rate, policy.policy.cost) as Counter & MemoryCounter;
      counter.ticks = [];
      counter.starts = [];
      return counter;
    }),
    debts: policy.limits.map(({ rate }) => ({ paidAtUs: 0, sinceUs: 0, quota: rate.quota })),
  };
}

/**
 * Decides a request and charges it.
 *
 * @param merged receives every limit, or only those that may delay the request
 * @param isTold whether it receives all
 */
export function decide(
  { policy, counters, debts }: KeyCounters,
  nowUs: number,
  cost: number,
  merged: MergedDecision,
  isTold: boolean,
): boolean {
  clearMerged(merged);
  const { limits } = policy;
  if (policy.policy.deferred) return askWithDebt(policy, counters, debts, nowUs, merged);
  for (const { rate } of limits) if (rate.algorithm === "calendar-window") followWindow(rate, nowUs);
  const count = limits.length;
  for (let i = 0; i < count; i++) (counters[i] as Counter).cost = cost;
  const allowed = chargeAll(counters, count, memoryRing, nowUs);
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as Counter;
    if (!isTold && !(allowed && counter.rate.algorithm === "leaky-bucket")) continue;
    describe(counter.rate, counter, memoryRing, nowUs, cost, counter.allowed, decision);
    mergeLimit(merged, policy, (limits[i] as CompiledLimit).name, decision);
  }
  return allowed;
}

/** For a policy whose requests cost what their responses take: nothing is charged yet. */
function askWithDebt(
  policy: CompiledPolicy,
  counters: readonly Counter[],
  debts: readonly Debt[],
  nowUs: number,
  merged: MergedDecision,
): boolean {
  let allowed = true;
  for (let i = 0; i < counters.length; i++) {
    const counter = counters[i] as Counter;
    counter.cost = 1;
    counter.allowed = admitsWithDebt(
      counter.rate,
      counter,
      memoryRing,
      nowUs,
      standsAt(counter, debts[i], nowUs),
      decision,
    );
    if (!counter.allowed) allowed = false;
    mergeLimit(merged, policy, (policy.limits[i] as CompiledLimit).name, decision);
  }
  return allowed;
}

/** Charges what a response took. @param units 1 or more */
export function settle({ counters, debts }: KeyCounters, nowUs: number, units: number): void {
  for (let i = 0; i < counters.length; i++) {
    const counter = counters[i] as Counter;
    const debt = debts[i] as Debt;
    const paidAtUs = chargeDeferred(counter.rate, counter, memoryRing, standsAt(counter, debt, nowUs), units);
    if (paidAtUs === nowUs) continue;
    debt.paidAtUs = paidAtUs;
    debt.sinceUs = nowUs;
  }
}

/** Returns from when the counter's state is in force, and makes windows of the calendar those around then. */
function standsAt({ rate }: Counter, debt: Debt | undefined, nowUs: number): number {
  if (rate.algorithm === "calendar-window") followWindow(rate, nowUs);
  if (debt === undefined || debt.paidAtUs <= nowUs) return nowUs;
  const fromUs = standsFromUs(rate, debt, nowUs);
  if (rate.algorithm === "calendar-window") followWindow(rate, fromUs);
  return fromUs;
}

/** Returns the slots that the request took which `decide` has just admitted. */
export function slotsTaken({ policy, counters }: KeyCounters): HeldSlots[] {
  const held: HeldSlots[] = [];
  for (let i = 0; i < counters.length; i++) {
    const limit = policy.limits[i] as CompiledLimit;
    const counter = counters[i] as Counter;
    if (limit.rate.algorithm !== "concurrency") continue;
    held.push({ limit, counter, cost: counter.cost, chargedAtUs: counter.atUs });
  }
  return held;
}

export function giveBack(held: readonly HeldSlots[], nowUs: number): void {
  for (const { counter, cost, chargedAtUs } of held) {
    refund(counter.rate, counter, memoryRing, nowUs, chargedAtUs, cost);
  }
}

/** Renews slots for another life, as the gateway does while their request lasts. */
export function renew(held: readonly HeldSlots[], nowUs: number): void {
  for (const slots of held) {
    const { counter, cost, chargedAtUs } = slots;
    const renewedAtUs = renewSlots(counter.rate as SlidingWindow, counter, memoryRing, nowUs, chargedAtUs, cost);
    slots.chargedAtUs = renewedAtUs ?? chargedAtUs;
  }
}

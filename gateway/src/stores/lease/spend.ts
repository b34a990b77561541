// Spends units of a lease: a request only subtracts from a cell that all workers share. Everything else is what the worker knows
// from its last read of the record. The deadline that it knows can only be earlier than the record's, and the units of another
// life are in another cell.

import { emptyDecision, never } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import { type CompiledLimit, type CompiledPolicy, isEverHeld } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { isLive, mayRefund } from "../../../../limiter/src/lease/holder.ts";
import { countLeaseAdmission, countLeaseRefund } from "../../metrics/lease-counts.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import type { Charge, Check, Outcome, Spent } from "../store.ts";
import { claim, takeOut, unclaim, unitsIn } from "./lease-cells.ts";
import { type Lease, leaseOf, refresh } from "./leases.ts";

const decision = emptyDecision();

/**
 * Decides one policy if that needs no waiting: the lease has the units, or Redis has reported that there are none. Never yields.
 *
 * @param merged receives the limit with the fewest units left, unless it is quiet and the request is allowed
 * @returns whether the request is allowed; undefined: nothing was decided
 */
export function spendLease(policy: CompiledPolicy, keyValues: string, merged: MergedDecision): boolean | undefined {
  const { cost } = policy.policy;
  const lease = leaseOf(policy, keyValues);
  const nowUs = stopwatchUs();
  const allowed = spend(lease, cost, nowUs);
  if (!allowed && nowUs >= lease.record.refusedUntilUs) return undefined;
  lease.asked += cost;
  if (!allowed) mergeRefusal(lease, policy, merged, lease.record.retryAtUs);
  else if (!merged.quiet) mergePermission(lease, policy, decision.remaining, merged);
  return allowed;
}

/**
 * Takes the units from the lease, or nothing. Used while Redis does not decide.
 *
 * @returns whether the request is allowed
 */
export function spendUnspent(check: Check, outcome: Outcome): boolean {
  const lease = leaseOf(check.policy, check.keyValues);
  if (!spend(lease, check.policy.policy.cost, stopwatchUs())) return false;
  return allow(lease, check, outcome);
}

/**
 * Refunds units that were spent for a request that another policy refused: to the lease, unless Redis already counts them as
 * spent.
 */
export function refundLeased({ policy, keyValues }: Charge, spent: Spent): void {
  const lease = leaseOf(policy, keyValues);
  // The claim keeps other workers from reporting the lease's units to Redis meanwhile.
  const token = claim(lease.id, 1);
  if (token === undefined) return;
  refresh(lease);
  const { name } = lease.record;
  if (name === spent.name && mayRefund(lease.record, spent.seq, spent.acknowledged, stopwatchUs())) {
    takeOut(lease.cell, -policy.policy.cost);
    countLeaseRefund(policy.policy.cost);
  }
  unclaim(lease.id);
}

/** Subtracts once from the cell of all workers. */
export function spend({ record, cell }: Lease, cost: number, nowUs: number): boolean {
  if (!isLive(record, nowUs)) return false;
  if (cost > 1 && unitsIn(cell) < cost) return false;
  const [left] = countersDict.incr(cell, -cost);
  if (left === undefined || left < 0) return false;
  countLeaseAdmission(cost);
  decision.remaining = left;
  return true;
}

/** This worker knows of no units, but another worker may have received more: reads the record again. */
export function spendElse(lease: Lease, cost: number): boolean {
  const { record } = lease;
  const { acknowledged, name } = record;
  refresh(lease);
  if (record.acknowledged === acknowledged && record.name === name) return false;
  return spend(lease, cost, stopwatchUs());
}

export function allow(lease: Lease, check: Check, outcome: Outcome): boolean {
  const { policy, keyValues, chargedAt } = check;
  const { limits } = policy;
  mergePermission(lease, policy, decision.remaining, check.merged ?? outcome.merged);
  check.allowed = true;
  const { name, seq, acknowledged } = lease.record;
  outcome.charges.push({ policy, limits, keyValues, chargedAt, store: "leased", spent: { name, seq, acknowledged } });
  return true;
}

/** @param unspent units that are left of the lease */
export function mergePermission(
  { record }: Lease,
  policy: CompiledPolicy,
  unspent: number,
  merged: MergedDecision,
): void {
  const limit = policy.limits[record.mostRestrictive] as CompiledLimit;
  decision.allowed = true;
  decision.limit = capacity(limit.rate);
  decision.remaining = math.min(unspent + record.remaining, decision.limit);
  decision.retryAfterUs = 0;
  decision.resetAfterUs = math.max(0, record.resetAtUs - stopwatchUs());
  mergeLimit(merged, policy, limit.name, decision);
}

export function refuse(lease: Lease, check: Check, outcome: Outcome, untilUs: number): false {
  mergeRefusal(lease, check.policy, check.merged ?? outcome.merged, untilUs);
  check.allowed = false;
  return false;
}

/** @param untilUs when units may be available again, by the stopwatch */
export function mergeRefusal({ record }: Lease, policy: CompiledPolicy, merged: MergedDecision, untilUs: number): void {
  const nowUs = stopwatchUs();
  const limit = policy.limits[record.mostRestrictive] as CompiledLimit;
  decision.allowed = false;
  decision.limit = capacity(limit.rate);
  decision.remaining = math.min(record.remaining, policy.policy.cost - 1, decision.limit);
  decision.retryAfterUs = isEverHeld(policy) ? math.max(1, untilUs - nowUs) : never;
  decision.resetAfterUs = math.max(decision.retryAfterUs, record.resetAtUs - nowUs);
  mergeLimit(merged, policy, limit.name, decision);
}

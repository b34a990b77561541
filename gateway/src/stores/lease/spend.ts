// Spends units of a lease: a request only subtracts from a cell that all workers share. Everything else is what the worker knows
// from its last read of the record. The deadline that it knows can only be earlier than the record's, and the units of another
// life are in another cell.

import { emptyDecision, never } from "../../../../limiter/src/algorithms/decision.ts";
import { capacity } from "../../../../limiter/src/algorithms/rate.ts";
import { type CompiledLimit, type CompiledPolicy, isEverHeld } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { isLive } from "../../../../limiter/src/lease/holder.ts";
import { countLeaseAdmission } from "../../metrics/lease-counts.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { leastCost } from "../redis/replies.ts";
import type { Charge, Check, Outcome, Spent } from "../store.ts";
import { addRefunded, addUndecided, dropUndecided, termOf, unitsIn } from "./lease-cells.ts";
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
  const allowed = isEnough(lease, cost, nowUs) && spend(lease, cost);
  if (!allowed && nowUs >= lease.record.refusedUntilUs) return undefined;
  lease.asked += allowed ? cost : demandOf(lease, policy);
  if (!allowed) {
    mergeRefusal(lease, policy, merged, lease.record.retryAtUs);
  } else {
    lease.paid = cost;
    if (!merged.quiet) mergePermission(lease, policy, decision.remaining, merged);
  }
  return allowed;
}

/**
 * Takes the units from the lease, or nothing. Used while Redis does not decide.
 *
 * @returns whether the request is allowed
 */
export function spendUnspent(check: Check, outcome: Outcome): boolean {
  return allowFrom(leaseOf(check.policy, check.keyValues), check, outcome, stopwatchUs());
}

/** Refunds units of a request that another policy refused: they are in the lease again when a worker next looks after it. */
export function refundLeased({ policy }: Charge, spent: Spent): void {
  if (spent.term !== undefined) addRefunded(spent.term, policy.policy.cost);
  spent.term = undefined;
}

/** The request goes on: its units are demand, and they cannot be refunded any more. */
export function spendForGood({ policy, keyValues }: Charge, spent: Spent): void {
  const { cost } = policy.policy;
  const lease = leaseOf(policy, keyValues);
  lease.paid = cost;
  lease.asked += cost;
  if (spent.term !== undefined) dropUndecided(spent.term, cost);
  spent.term = undefined;
}

/**
 * Returns how many units of a refused request are demand: none if it costs more than was admitted before, or if the lease still has units for a
 * cheaper one. Otherwise a client that states high costs would make the gateway hold units that nobody uses.
 */
export function demandOf({ paid, record, cell }: Lease, policy: CompiledPolicy): number {
  const { cost } = policy.policy;
  if (cost > paid || (isLive(record, stopwatchUs()) && unitsIn(cell) >= leastCost(policy))) return 0;
  return cost;
}

/** Without a look at the cell for one unit: then the subtraction itself tells. */
function isEnough(lease: Lease, cost: number, nowUs: number): boolean {
  return cost === 1 ? isLive(lease.record, nowUs) : hasUnits(lease, cost, nowUs);
}

export function hasUnits({ record, cell }: Lease, cost: number, nowUs: number): boolean {
  return isLive(record, nowUs) && unitsIn(cell) >= cost;
}

/** Subtracts once from the cell of all workers. */
function spend({ cell }: Lease, cost: number): boolean {
  const [left] = countersDict.incr(cell, -cost);
  if (left === undefined || left < 0) return false;
  countLeaseAdmission(cost);
  decision.remaining = left;
  return true;
}

/** This worker knows of no units, but another worker may have received more: reads the record again. @returns whether one has */
export function hasMore(lease: Lease): boolean {
  const { record } = lease;
  const { acknowledged, name } = record;
  refresh(lease);
  return record.acknowledged !== acknowledged || record.name !== name;
}

/**
 * Allows the check if the lease has the units. They are undecided until the request goes on, because another policy may refuse it. Until then
 * they are no demand either.
 */
export function allowFrom(lease: Lease, check: Check, outcome: Outcome, nowUs: number): boolean {
  const { policy, keyValues, chargedAt } = check;
  const { limits } = policy;
  const { cost } = policy.policy;
  if (!hasUnits(lease, cost, nowUs)) return false;
  const term = termOf(lease.cell, lease.record);
  const isNoted = addUndecided(term, cost);
  if (!spend(lease, cost)) {
    if (isNoted) dropUndecided(term, cost);
    return false;
  }
  mergePermission(lease, policy, decision.remaining, check.merged ?? outcome.merged);
  check.allowed = true;
  const spent = { term: isNoted ? term : undefined };
  outcome.charges.push({ policy, limits, keyValues, chargedAt, store: "leased", spent });
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

/** @param isDemand whether a lease could have paid the request */
export function refuse(lease: Lease, check: Check, outcome: Outcome, untilUs: number, isDemand = true): false {
  if (isDemand) lease.asked += demandOf(lease, check.policy);
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

// Counts in this nginx's shared memory.
//
// A decision reads, computes and writes without a yield in between, so it needs no lock with one worker. With several workers, a
// policy with a single fixed window uses an atomic incr; everything else holds the lock of its policy and key values.

import { chargeAll, describeCounter } from "../../../../limiter/src/algorithms/charge-all.ts";
import { renewSlots } from "../../../../limiter/src/algorithms/concurrency.ts";
import { emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { isAhead, refuseUnpaid } from "../../../../limiter/src/algorithms/deferred-charge.ts";
import { admitsFixedWindow, type FixedWindow } from "../../../../limiter/src/algorithms/fixed-window.ts";
import {
  admits,
  capacity,
  charge,
  describe,
  keepsEntries,
  type Rate,
  refund,
} from "../../../../limiter/src/algorithms/rate.ts";
import { beginShare, type LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { SlidingWindow } from "../../../../limiter/src/algorithms/sliding-window.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit, mergeTarget } from "../../../../limiter/src/compiled/merged-decision.ts";
import { countEvent } from "../../metrics/counts.ts";
import { nowUs } from "../../runtime/clock.ts";
import { countersDict } from "../../runtime/shared-memory.ts";
import { warnSparingly } from "../../runtime/sparing-log.ts";
import {
  asksForEntries,
  type CellCounter,
  cellRing,
  counterKey,
  entriesKey,
  loadCounter,
  loadRing,
  newCellCounter,
  saveCounter,
  takeEntries,
  takeHead,
} from "./counter-cells.ts";
import { isCalm } from "./counter-memory.ts";
import {
  acquireAll,
  findPlace,
  loadPlaced,
  moveToShared,
  type Place,
  placeNewcomer,
  releaseAll,
} from "./counter-places.ts";
import { unpaidOnNode } from "./debts-on-node.ts";
import { acquire, acquireBeside, release } from "./key-lock.ts";
import { sharedLock } from "./shared-cells.ts";

/** How long workers of the previous generation may still answer requests after a reload. */
const reloadOverlapSeconds = 60;
/** Clients are told to try again after this time if there is no memory to count them. */
const uncountedRetryUs = 1_000_000;
/** If this time does pass, locks are acquired needlessly. */
const longestTimerSeconds = 86_400 * 365;

/** Work space: what is read here is written before anything yields. */
const counters: CellCounter[] = [];
/** The counter of a policy with a single limit. */
const lone = newCellCounter();
const decision = emptyDecision();

let workersShare = true;
let isOverlapping = false;
let exiting = false;

/** @param generation how often this nginx has read its configuration */
export function openNodeStore(workers: number, generation: number): void {
  workersShare = workers > 1;
  isOverlapping = generation > 1;
  // A timer ends it, as timers do not go by the machine's clock.
  if (isOverlapping) {
    ngx.timer.at(reloadOverlapSeconds, (premature) => {
      if (!premature) isOverlapping = false;
    });
  }
  // nginx runs all timers early when the worker begins to exit. To query that at every decision would cost up to a tenth of one.
  ngx.timer.at(longestTimerSeconds, () => {
    exiting = true;
  });
}

/**
 * Decides one policy for one key and charges it: all limits or none.
 *
 * @param limits of the policy, or a node's share of them
 * @param merged receives every limit; undefined if nothing is reported
 * @param chargedAt receives the moment of each counter's state after its charge, which a refund needs. It is negative if the
 * counter is in the overflow. Undefined if there will be no refund
 * @returns whether the request is allowed
 */
export function decideOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
): boolean {
  if (!mustAgree()) return chargeCells(policy, limits, keyValues, merged, chargedAt);

  const first = limits[0] as CompiledLimit;
  const alone = limits[1] === undefined;
  // The same counter may be charged by another plan together with others, under the lock.
  const mayIncr = alone && policy.lockLimit === undefined;
  const window = mayIncr && first.rate.algorithm === "fixed-window" ? first.rate : undefined;
  let allowed: boolean | undefined;
  if (window !== undefined) {
    allowed = chargeByIncr(policy, first, window, keyValues, merged, chargedAt);
    if (allowed !== undefined) return allowed;
  }
  const lock = lockOf(policy, keyValues);
  const locked = acquire(lock);
  // Another worker may have opened the window during the wait; then its cell is charged by incr alone.
  if (window !== undefined) allowed = chargeByIncr(policy, first, window, keyValues, merged, chargedAt);
  if (allowed === undefined) {
    // The lock has the name of the first limit's cell, if there are no plans.
    const key = policy.lockLimit === undefined ? lock : counterKey(first, keyValues);
    if (alone) allowed = chargeCell(policy, first, key, keyValues, merged, chargedAt);
    else allowed = chargeCells(policy, limits, keyValues, merged, chargedAt);
  }
  if (locked) release(lock);
  return allowed;
}

/**
 * Refunds what `decideOnNode` charged, when a later policy refused the request.
 *
 * Refunds only units that are still owed: units of a window that has ended, or that a bucket has refilled meanwhile, are already
 * available to the next requests, and refunding them as well would create units.
 *
 * @param chargedAt as the charge filled it
 */
export function refundOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  chargedAt: readonly number[],
): undefined {
  const { cost } = policy.policy;
  if (!mustAgree()) return refundCells(limits, keyValues, cost, chargedAt);
  const held = acquireAll(lockOf(policy, keyValues), policy, keyValues);
  refundCells(limits, keyValues, cost, chargedAt);
  releaseAll(held);
}

/** Does so while the caller holds the locks, or needs none. */
export function refundCells(
  limits: readonly CompiledLimit[],
  keyValues: string,
  cost: number,
  chargedAt: readonly number[],
): undefined {
  if (limits.length === 1) return refundCell(limits[0] as CompiledLimit, keyValues, cost, chargedAt[0] as number);
  for (let i = 0; i < limits.length; i++) {
    refundCell(limits[i] as CompiledLimit, keyValues, cost, chargedAt[i] as number);
  }
}

/** Refunds at the place that was charged: if the counter has another place by now, nothing is owed there. */
function refundCell(limit: CompiledLimit, keyValues: string, cost: number, chargedAtUs: number): undefined {
  if (chargedAtUs < 0) return refundShared(limit, keyValues, cost, -chargedAtUs);
  const key = counterKey(limit, keyValues);
  const [value, flags] = countersDict.get<number | string>(key);
  if (value === undefined) return;
  const now = nowUs();
  loadHead(key, limit.rate, cost, value, flags, now);
  if (keepsEntries(limit.rate)) return refundEntries(chargedAtUs, now);
  if (lone.rate.algorithm !== "fixed-window") {
    refund(lone.rate, lone, cellRing, now, chargedAtUs, cost);
    saveCounter(lone, now);
  } else if (lone.atUs === chargedAtUs) {
    // A clock step may have left this window and entered it again, and dropped its units: the count must not become negative.
    countersDict.incr(key, -math.min(cost, lone.count));
  }
}

/** The same in the overflow. */
function refundShared(limit: CompiledLimit, keyValues: string, cost: number, chargedAtUs: number): undefined {
  const now = nowUs();
  const counter = prepared(0, limit, keyValues, cost);
  moveToShared(counter, limit, keyValues);
  if (!counter.shared || !loadCounter(counter, now)) return;
  loadRing(counter);
  refund(limit.rate, counter, cellRing, now, chargedAtUs, cost);
  saveCounter(counter, now);
}

/** The same for a counter with entries; the head is in `lone`. */
function refundEntries(chargedAtUs: number, now: number): undefined {
  if (!lone.ringLoaded) {
    const [stored] = countersDict.get<string>(entriesKey(lone, 0));
    takeEntries(lone, stored);
  }
  refund(lone.rate, lone, cellRing, now, chargedAtUs, lone.cost);
  saveCounter(lone, now);
}

/** Loads the head of a counter into `lone`. */
function loadHead(
  key: string,
  rate: Rate,
  cost: number,
  value: number | string | undefined,
  flags: number | undefined,
  now: number,
) {
  lone.key = key;
  lone.rate = rate;
  lone.cost = cost;
  lone.stepped = false;
  takeHead(lone, value, flags, now);
}

/**
 * Renews concurrency slots for another lifetime.
 *
 * @param chargedAt of the charge or the last renewal
 * @returns the moment at which the slots are now held, in the form of `chargedAt`; undefined if they were lost and cannot be
 * taken again yet
 */
export function renewOnNode(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  chargedAt: number,
): number | undefined {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const renewedAtUs = renewCell(policy, limit, keyValues, chargedAt);
  if (held !== undefined) releaseAll(held);
  return renewedAtUs;
}

/** Does so while the caller holds the locks, or needs none. */
export function renewCell(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  chargedAt: number,
): number | undefined {
  const now = nowUs();
  const counter = prepared(0, limit, keyValues, policy.policy.cost);
  let renewedAtUs: number | undefined;
  if (chargedAt < 0) moveToShared(counter, limit, keyValues);
  // Slots held in a cell that is gone are renewed where the key counts now.
  const found = loadCounter(counter, now) || loadPlaced(counter, limit, keyValues, now);
  if (found || findPlace(counter, policy, limit, keyValues)) {
    loadRing(counter);
    renewedAtUs = renewSlots(limit.rate as SlidingWindow, counter, cellRing, now, math.abs(chargedAt), counter.cost);
    if (!saveCounter(counter, now)) renewedAtUs = undefined;
  }
  return renewedAtUs === undefined || !counter.shared ? renewedAtUs : -renewedAtUs;
}

/**
 * Makes a node's share start from what Redis last reported. Call this before each decision by the share. Yields if workers must
 * agree.
 *
 * @param limits the share
 */
export function beginShareOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  known: LastKnown,
): void {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  for (const limit of limits) {
    if (known.limits !== undefined && !known.limits.includes(limit.name)) continue;
    const counter = prepared(0, limit, keyValues, policy.policy.cost);
    const found = loadPlaced(counter, limit, keyValues, now);
    if (keepsEntries(limit.rate)) loadRing(counter);
    if (!beginShare(limit.rate, counter, cellRing, known, now)) continue;
    // If there is no memory, the decision refuses.
    if (found || findPlace(counter, policy, limit, keyValues)) saveCounter(counter, now);
  }
  if (held !== undefined) releaseAll(held);
}

/**
 * Returns the lock for all limits of the policy: the key of the first limit's cell, which exists as a string anyway. Plans have one lock for
 * all of them, because they may have counters in common.
 */
export function lockOf({ limits, lockLimit }: CompiledPolicy, keyValues: string): string {
  return counterKey(lockLimit ?? (limits[0] as CompiledLimit), keyValues);
}

/** Returns whether another worker may decide at the same moment: one of this generation, or one that a reload is replacing. */
export function mustAgree(): boolean {
  return workersShare || isOverlapping || exiting;
}

/** Reads, decides and writes every counter. The caller ensures that no other worker does so meanwhile. */
function chargeCells(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
): boolean {
  // Indexes instead of the length: LuaJIT has to search for the length of a table.
  if (limits[1] === undefined) {
    const limit = limits[0] as CompiledLimit;
    return chargeCell(policy, limit, counterKey(limit, keyValues), keyValues, merged, chargedAt);
  }
  const count = limits.length;
  const now = nowUs();
  let missing = false;
  for (let i = 0; i < count; i++) {
    if (!loadCounter(prepared(i, limits[i] as CompiledLimit, keyValues, policy.policy.cost), now)) missing = true;
  }
  if (missing && !isCalm()) return chargeElsewhere(policy, limits, keyValues, merged, chargedAt);
  return chargeLoaded(policy, limits, merged, chargedAt, now);
}

/** Charges counters that are loaded, wherever they are. */
function chargeLoaded(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
  now: number,
): boolean {
  const count = limits.length;
  for (let i = 0; i < count; i++) {
    const counter = counters[i] as CellCounter;
    counter.unpaidUs = unpaidOnNode(counter, now, policy);
  }
  const allowed = chargeAll(counters, count, cellRing, now);
  let stored = true;
  for (let i = 0; i < count; i++) {
    const limit = limits[i] as CompiledLimit;
    const counter = counters[i] as CellCounter;
    if ((allowed || counter.stepped) && !saveCounter(counter, now)) stored = false;
    if (chargedAt !== undefined) chargedAt[i] = counter.shared ? -counter.atUs : counter.atUs;
    if (merged !== undefined) {
      describeCounter(counter, cellRing, now, counter.cost, decision);
      mergeLimit(merged, policy, limit.name, decision);
    }
  }
  return stored ? allowed : refuseUncounted(policy, limits[0] as CompiledLimit, merged);
}

/**
 * The same if a counter has no cell of its own, and memory is or was scarce: the counter may be in the overflow, which has locks
 * of its own. Places are found first, while the lock of the key is held and nothing is loaded, because the other lock may require
 * a wait.
 */
function chargeElsewhere(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
): boolean {
  const places: Place[] = [];
  let anyShared = false;
  for (const limit of limits) {
    const [own] = countersDict.get(counterKey(limit, keyValues));
    const place = own !== undefined ? "own" : placeNewcomer(policy, limit, keyValues);
    if (place === "nowhere") return refuseUncounted(policy, limit, merged);
    if (place === "shared") anyShared = true;
    places.push(place);
  }
  const lock = anyShared && mustAgree() ? sharedLock(policy, keyValues) : undefined;
  const locked = lock !== undefined && acquireBeside(lock);
  const now = nowUs();
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as CompiledLimit;
    const counter = prepared(i, limit, keyValues, policy.policy.cost);
    if (places[i] === "shared") moveToShared(counter, limit, keyValues);
    loadCounter(counter, now);
  }
  const allowed = chargeLoaded(policy, limits, merged, chargedAt, now);
  if (lock !== undefined && locked) release(lock);
  if (anyShared) countEvent(allowed ? "overflow-admissions" : "overflow-refusals");
  return allowed;
}

/** A request that cannot be counted is not admitted. */
function refuseUncounted(
  policy: CompiledPolicy,
  { name, rate }: CompiledLimit,
  merged: MergedDecision | undefined,
): false {
  countEvent("uncounted-refusals");
  warnSparingly("requests are refused, because there is no memory to count them", `${policy.app}/${policy.name}`);
  if (merged === undefined) return false;
  decision.allowed = false;
  decision.limit = capacity(rate);
  decision.remaining = 0;
  decision.retryAfterUs = uncountedRetryUs;
  decision.resetAfterUs = uncountedRetryUs;
  decision.delayUs = 0;
  mergeLimit(merged, policy, name, decision);
  return false;
}

/**
 * The same for one limit, as most policies have: loops that run once cost LuaJIT a trace each.
 *
 * The dict is read while as few values as possible are live. Traces branch after that call, if a counter or its entries are new.
 * All live values have to be carried over into the next trace, and LuaJIT aborts if they are more than there are registers.
 */
function chargeCell(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  key: string,
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
): boolean {
  const [value, flags] = countersDict.get<number | string>(key);
  if (value === undefined && !isCalm()) return chargeElsewhere(policy, [limit], keyValues, merged, chargedAt);
  const now = nowUs();
  loadHead(key, limit.rate, policy.policy.cost, value, flags, now);
  if (keepsEntries(limit.rate)) return chargeEntries(policy, limit, merged, chargedAt, now);
  return chargeLone(policy, limit, merged, chargedAt, now);
}

/** The same for a counter with entries; the head is in `lone`. */
function chargeEntries(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
  now: number,
): boolean {
  if (asksForEntries(lone, now)) {
    const [stored] = countersDict.get<string>(entriesKey(lone, 0));
    takeEntries(lone, stored);
  }
  return chargeLone(policy, limit, merged, chargedAt, now);
}

/** Decides for `lone`, which is completely loaded. */
function chargeLone(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
  now: number,
): boolean {
  const { rate, cost } = lone;
  if (isAhead(rate, lone, now)) {
    const unpaidUs = unpaidOnNode(lone, now, policy);
    if (unpaidUs > 0) return refuseOwing(policy, limit, merged, now, unpaidUs);
  }
  const allowed = admits(rate, lone, cellRing, now, cost);
  if (allowed) charge(rate, lone, cellRing);
  if ((allowed || lone.stepped) && !saveCounter(lone, now)) return refuseUncounted(policy, limit, merged);
  if (chargedAt !== undefined) chargedAt[0] = lone.atUs;
  if (merged !== undefined && !(allowed && merged.quiet && rate.algorithm !== "leaky-bucket")) {
    const known = mergeTarget(merged, decision);
    describe(rate, lone, cellRing, now, cost, allowed, known);
    mergeLimit(merged, policy, limit.name, known);
  }
  return allowed;
}

/** Refuses because the counter in `lone` owes units, until they are paid. */
function refuseOwing(
  policy: CompiledPolicy,
  { name, rate }: CompiledLimit,
  merged: MergedDecision | undefined,
  now: number,
  unpaidUs: number,
): false {
  if (merged === undefined) return false;
  const paidAtUs = now + unpaidUs;
  const allowed = admits(rate, lone, cellRing, paidAtUs, lone.cost);
  describe(rate, lone, cellRing, paidAtUs, lone.cost, allowed, decision);
  refuseUnpaid(decision, unpaidUs);
  mergeLimit(merged, policy, name, decision);
  return false;
}

/**
 * Charges one fixed window without a lock: reads the cell, and if its window is open charges it by one atomic incr.
 *
 * @returns undefined if the cell has another window, or owes units: opening a window needs the lock
 */
function chargeByIncr(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  rate: FixedWindow,
  keyValues: string,
  merged: MergedDecision | undefined,
  chargedAt: number[] | undefined,
): boolean | undefined {
  const now = nowUs();
  const { cost } = policy.policy;
  const counter = prepared(0, limit, keyValues, cost);
  if (!loadCounter(counter, now)) return undefined;
  if (isAhead(rate, counter, now) && unpaidOnNode(counter, now, undefined) > 0) return undefined;
  const openedAtUs = counter.atUs;
  let allowed = admitsFixedWindow(rate, counter, now, cost);
  if (counter.nextAtUs !== openedAtUs) return undefined;
  if (allowed) {
    const key = counter.key;
    const [used] = countersDict.incr(key, cost);
    if (used === undefined) return undefined;
    // Other workers may have charged between the read and the incr: the result of the incr is authoritative.
    counter.count = used;
    if (used > rate.quota) {
      countersDict.incr(key, -cost);
      counter.count = used - cost;
      allowed = false;
    }
  }
  if (chargedAt !== undefined) chargedAt[0] = counter.atUs;
  if (merged !== undefined) {
    describe(rate, counter, cellRing, now, cost, allowed, decision);
    mergeLimit(merged, policy, limit.name, decision);
  }
  return allowed;
}

/** Returns a counter of the work space, ready to be loaded. */
function prepared(index: number, limit: CompiledLimit, keyValues: string, cost: number): CellCounter {
  let counter = counters[index];
  if (counter === undefined) {
    counter = newCellCounter();
    counters[index] = counter;
  }
  counter.rate = limit.rate;
  counter.cost = cost;
  counter.shared = false;
  counter.key = counterKey(limit, keyValues);
  return counter;
}

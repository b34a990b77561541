// Counts in this nginx's shared memory.
//
// Deciding is read, compute, write with no yield between, which needs no lock with one worker. With several, a single
// fixed window takes an atomic incr; everything else holds the lock of its policy and key values.

import { renewSlots } from "../../../limiter/src/algorithms/concurrency.ts";
import { admitsFixedWindow, type FixedWindow } from "../../../limiter/src/algorithms/fixed-window.ts";
import { admits, charge, describe, refund } from "../../../limiter/src/algorithms/rate.ts";
import type { SlidingWindow } from "../../../limiter/src/algorithms/sliding-window.ts";
import { chargeAll } from "../../../limiter/src/charge-all.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import { nowUs } from "../runtime/clock.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import {
  type CellCounter,
  cellRing,
  counterKey,
  loadCounter,
  loadRing,
  newCellCounter,
  saveCounter,
} from "./counter-cells.ts";
import { acquire, release } from "./key-lock.ts";

/** How long a former generation of workers may still be answering after a reload. */
const reloadOverlapSeconds = 60;

/** Work space: what is read here is written before anything yields. */
const counters: CellCounter[] = [];
const decision = emptyDecision();

let workersShare = true;
let overlapUntilSeconds = 0;

/** @param generation how many times this nginx has read its configuration */
export function openNodeStore(workers: number, generation: number): void {
  workersShare = workers > 1;
  overlapUntilSeconds = generation > 1 ? ngx.now() + reloadOverlapSeconds : 0;
}

/**
 * Decides one policy for one key and charges it: all limits or none.
 *
 * @param limits those of the policy, or a node's share of them
 * @param verdict hears every limit; undefined when nobody is to be told
 * @param receipt is filled with the moment that each counter's state has after its charge, which a refund asks for;
 *   undefined when there will be none
 * @returns whether the request is allowed
 */
export function decideOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean {
  if (!mustAgree()) return chargeCells(policy, limits, keyValues, verdict, receipt);

  const first = limits[0] as CompiledLimit;
  const window = limits.length === 1 && first.rate.algorithm === "fixed-window" ? first.rate : undefined;
  let allowed: boolean | undefined;
  if (window !== undefined) {
    allowed = chargeByIncr(policy, first, window, keyValues, verdict, receipt);
    if (allowed !== undefined) return allowed;
  }
  const lock = policy.counterPrefix + keyValues;
  const locked = acquire(lock);
  // Another worker may have opened the window while we waited; its cell is then charged by incr alone.
  if (window !== undefined) allowed = chargeByIncr(policy, first, window, keyValues, verdict, receipt);
  if (allowed === undefined) allowed = chargeCells(policy, limits, keyValues, verdict, receipt);
  if (locked) release(lock);
  return allowed;
}

/**
 * Gives back what `decideOnNode` charged, when a later policy refused the request.
 *
 * Only what is still owed: units of a window that has ended, or that a bucket has refilled meanwhile, are the next
 * requests' already, and to give them back as well would mint them.
 *
 * @param receipt what the charge filled
 */
export function refundOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  receipt: readonly number[],
): void {
  const lock = policy.counterPrefix + keyValues;
  const locked = mustAgree() && acquire(lock);
  const now = nowUs();
  for (let i = 0; i < limits.length; i++) {
    const counter = prepared(0, limits[i] as CompiledLimit, keyValues, policy.policy.cost);
    const chargedAtUs = receipt[i] as number;
    if (!loadCounter(counter, now)) continue;
    if (counter.rate.algorithm === "fixed-window") {
      // A clock that stepped may have left this window and met it again, and its units with it: no fewer than none are used.
      const returned = math.min(counter.cost, counter.count);
      if (counter.atUs === chargedAtUs) countersDict.incr(counter.key, -returned);
    } else {
      loadRing(counter);
      refund(counter.rate, counter, cellRing, now, chargedAtUs, counter.cost);
      saveCounter(counter, now);
    }
  }
  if (locked) release(lock);
}

/**
 * Holds slots of concurrency for another life.
 *
 * @returns the moment in which they are held now; undefined when they were lost and are not to be had again yet
 */
export function renewOnNode(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  heldAtUs: number,
): number | undefined {
  const lock = policy.counterPrefix + keyValues;
  const locked = mustAgree() && acquire(lock);
  const now = nowUs();
  const counter = prepared(0, limit, keyValues, policy.policy.cost);
  loadCounter(counter, now);
  loadRing(counter);
  const renewedAtUs = renewSlots(limit.rate as SlidingWindow, counter, cellRing, now, heldAtUs, counter.cost);
  saveCounter(counter, now);
  if (locked) release(lock);
  return renewedAtUs;
}

/** Whether another worker may be deciding at the same moment: of this generation, or one that a reload is replacing. */
export function mustAgree(): boolean {
  return workersShare || (overlapUntilSeconds > 0 && ngx.now() < overlapUntilSeconds) || ngx.worker.exiting();
}

/** Reads, decides and writes every counter. The caller sees to it that nobody else does meanwhile. */
function chargeCells(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean {
  const now = nowUs();
  const count = limits.length;
  if (count === 1) return chargeCell(policy, limits[0] as CompiledLimit, keyValues, now, verdict, receipt);
  for (let i = 0; i < count; i++) {
    loadCounter(prepared(i, limits[i] as CompiledLimit, keyValues, policy.policy.cost), now);
  }
  const allowed = chargeAll(counters, count, cellRing, now);
  for (let i = 0; i < count; i++) {
    const limit = limits[i] as CompiledLimit;
    const counter = counters[i] as CellCounter;
    if (allowed || counter.stepped) saveCounter(counter, now);
    if (receipt !== undefined) receipt[i] = counter.atUs;
    if (verdict !== undefined) {
      describe(limit.rate, counter, cellRing, now, counter.cost, counter.allowed, decision);
      hear(verdict, policy, limit.name, decision);
    }
  }
  return allowed;
}

/** The same for one limit, as most policies have: loops that turn once cost LuaJIT a trace each. */
function chargeCell(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
  now: number,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean {
  const { rate } = limit;
  const { cost } = policy.policy;
  const counter = prepared(0, limit, keyValues, cost);
  loadCounter(counter, now);
  counter.stepped = false;
  const allowed = admits(rate, counter, cellRing, now, cost);
  if (allowed) charge(rate, counter, cellRing);
  if (allowed || counter.stepped) saveCounter(counter, now);
  if (receipt !== undefined) receipt[0] = counter.atUs;
  if (verdict !== undefined) {
    describe(rate, counter, cellRing, now, cost, allowed, decision);
    hear(verdict, policy, limit.name, decision);
  }
  return allowed;
}

/**
 * One fixed window without a lock: reads the cell, and where its window is open charges it by one atomic incr.
 *
 * @returns undefined when the cell's window is another one: opening a window needs the lock
 */
function chargeByIncr(
  policy: CompiledPolicy,
  limit: CompiledLimit,
  rate: FixedWindow,
  keyValues: string,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean | undefined {
  const now = nowUs();
  const { cost } = policy.policy;
  const counter = prepared(0, limit, keyValues, cost);
  if (!loadCounter(counter, now)) return undefined;
  const openedAtUs = counter.atUs;
  let allowed = admitsFixedWindow(rate, counter, now, cost);
  if (counter.nextAtUs !== openedAtUs) return undefined;
  if (allowed) {
    const key = counter.key;
    const [used] = countersDict.incr(key, cost);
    if (used === undefined) return undefined;
    // Others may have charged between our read and our incr: what incr says is what counts.
    counter.count = used;
    if (used > rate.quota) {
      countersDict.incr(key, -cost);
      counter.count = used - cost;
      allowed = false;
    }
  }
  if (receipt !== undefined) receipt[0] = counter.atUs;
  if (verdict !== undefined) {
    describe(rate, counter, cellRing, now, cost, allowed, decision);
    hear(verdict, policy, limit.name, decision);
  }
  return allowed;
}

/** A counter of the work space, ready to be loaded. */
function prepared(index: number, limit: CompiledLimit, keyValues: string, cost: number): CellCounter {
  let counter = counters[index];
  if (counter === undefined) {
    counter = newCellCounter();
    counters[index] = counter;
  }
  counter.rate = limit.rate;
  counter.cost = cost;
  counter.key = counterKey(limit.counterFamily, keyValues);
  return counter;
}

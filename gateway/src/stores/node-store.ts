// Counts in this nginx's shared memory. A counter is one cell: a number with 32 bits of flags beside it.
//
//   token-bucket   value: the moment in whole µs           flags: the quota-ths of a µs
//   fixed-window   value: units used, so that incr works   flags: the window's index, modulo 2^32
//
// Deciding is read, compute, write with no yield between, which needs no lock with one worker. With several, a single
// fixed window takes an atomic incr; everything else holds the lock of its policy and key values.

import type { CounterState } from "../../../limiter/src/algorithms/counter-state.ts";
import { chargeFixedWindow, type FixedWindow } from "../../../limiter/src/algorithms/fixed-window.ts";
import { describe, lifetimeUs, type Rate, refund } from "../../../limiter/src/algorithms/rate.ts";
import { type Counter, chargeAll, newCounter } from "../../../limiter/src/charge-all.ts";
import { emptyDecision } from "../../../limiter/src/decision.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { hear, type Verdict } from "../../../limiter/src/verdict.ts";
import { countEvent } from "../metrics/counts.ts";
import { nowUs } from "../runtime/clock.ts";
import { countersDict } from "../runtime/shared-memory.ts";
import { acquire, release } from "./key-lock.ts";

const flagsRange = 4294967296;
/** A hundred years; the shared dict counts its ms in a long. */
const longestLifetimeSeconds = 3_155_760_000;
/** Each try to store evicts up to 30 of the least recently used counters; a page is free again long before this many. */
const storeTries = 100;
/** How long a former generation of workers may still be answering after a reload. */
const reloadOverlapSeconds = 60;

/** Work space: what is read here is written before anything yields. */
const counters: Counter[] = [];
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
  const prefix = policy.counterPrefix + keyValues;
  if (!mustAgree()) return chargeCells(policy, limits, prefix, verdict, receipt);

  const first = limits[0] as CompiledLimit;
  const window = limits.length === 1 && first.rate.algorithm === "fixed-window" ? first.rate : undefined;
  let allowed: boolean | undefined;
  if (window !== undefined) {
    allowed = chargeByIncr(policy, first, window, prefix, verdict, receipt);
    if (allowed !== undefined) return allowed;
  }
  const locked = acquire(prefix);
  // Another worker may have opened the window while we waited; its cell is then charged by incr alone.
  if (window !== undefined) allowed = chargeByIncr(policy, first, window, prefix, verdict, receipt);
  if (allowed === undefined) allowed = chargeCells(policy, limits, prefix, verdict, receipt);
  if (locked) release(prefix);
  return allowed;
}

/**
 * Gives back what `decideOnNode` charged, when a later policy refused the request.
 *
 * Only what is still owed: units of a window that has ended, or that a bucket has refilled meanwhile, are the next
 * requests' already, and to give them back as well would mint them.
 */
export function refundOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  receipt: readonly number[],
): void {
  const prefix = policy.counterPrefix + keyValues;
  const locked = mustAgree() && acquire(prefix);
  const now = nowUs();
  const cost = policy.policy.cost;
  for (let i = 0; i < limits.length; i++) {
    const { rate, counterSuffix } = limits[i] as CompiledLimit;
    const key = prefix + counterSuffix;
    const chargedAtUs = receipt[i] as number;
    const counter = counterAt(0);
    if (!load(key, rate, now, counter)) continue;
    if (rate.algorithm === "fixed-window") {
      if (counter.atUs === chargedAtUs) countersDict.incr(key, -cost);
    } else if (chargedAtUs >= now) {
      refund(rate, counter, cost);
      save(key, rate, now, counter);
    }
  }
  if (locked) release(prefix);
}

/** Whether another worker may be deciding at the same moment: of this generation, or one that a reload is replacing. */
function mustAgree(): boolean {
  return workersShare || ngx.now() < overlapUntilSeconds || ngx.worker.exiting();
}

/** Reads, decides and writes every cell. The caller sees to it that nobody else does meanwhile. */
function chargeCells(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  prefix: string,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean {
  const now = nowUs();
  const count = limits.length;
  for (let i = 0; i < count; i++) {
    const limit = limits[i] as CompiledLimit;
    const counter = counterAt(i);
    counter.rate = limit.rate;
    counter.cost = policy.policy.cost;
    load(prefix + limit.counterSuffix, limit.rate, now, counter);
  }
  const allowed = chargeAll(counters, count, now);
  if (receipt !== undefined) {
    for (let i = 0; i < count; i++) receipt[i] = (counters[i] as Counter).atUs;
  }
  for (let i = 0; i < count; i++) {
    const limit = limits[i] as CompiledLimit;
    const counter = counters[i] as Counter;
    // A refusal changes a state too, where the clock stepped back.
    if (counter.atUs !== counter.beforeAtUs || counter.count !== counter.beforeCount) {
      save(prefix + limit.counterSuffix, limit.rate, now, counter);
    }
    if (verdict !== undefined) {
      describe(limit.rate, counter, now, counter.cost, counter.allowed, decision);
      hear(verdict, policy, limit.name, decision);
    }
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
  prefix: string,
  verdict: Verdict | undefined,
  receipt: number[] | undefined,
): boolean | undefined {
  const now = nowUs();
  const key = prefix + limit.counterSuffix;
  const cost = policy.policy.cost;
  const counter = counterAt(0);
  if (!load(key, rate, now, counter)) return undefined;
  const openedAtUs = counter.atUs;
  let allowed = chargeFixedWindow(rate, counter, now, cost);
  if (counter.atUs !== openedAtUs) return undefined;
  if (allowed) {
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
    describe(rate, counter, now, cost, allowed, decision);
    hear(verdict, policy, limit.name, decision);
  }
  return allowed;
}

function counterAt(index: number): Counter {
  let counter = counters[index];
  if (counter === undefined) {
    counter = newCounter({ algorithm: "fixed-window", quota: 1, windowUs: 1 }, 1);
    counters[index] = counter;
  }
  return counter;
}

/** @returns false, with the state of a counter never seen, when there is no such cell */
function load(key: string, rate: Rate, now: number, state: CounterState): boolean {
  const [value, flags] = countersDict.get<number>(key);
  if (value === undefined) {
    state.atUs = 0;
    state.count = 0;
    return false;
  }
  const low = flags ?? 0;
  if (rate.algorithm === "token-bucket") {
    state.atUs = value;
    state.count = low;
  } else {
    // The index nearest to now's among those that end in the stored 32 bits.
    const index = math.floor(now / rate.windowUs);
    let behind = (index - low) % flagsRange;
    if (behind >= flagsRange / 2) behind -= flagsRange;
    state.atUs = (index - behind) * rate.windowUs;
    state.count = value;
  }
  return true;
}

function save(key: string, rate: Rate, now: number, state: CounterState): void {
  let value = state.atUs;
  let flags = state.count;
  if (rate.algorithm === "fixed-window") {
    value = state.count;
    flags = (state.atUs / rate.windowUs) % flagsRange;
  }
  // A lifetime of 0 would be for ever, so a started ms counts whole.
  const lifeSeconds = math.min(math.ceil(lifetimeUs(rate, state, now) / 1000) / 1000, longestLifetimeSeconds);
  for (let tries = 0; tries < storeTries; tries++) {
    const [stored, , forcible] = countersDict.set(key, value, lifeSeconds, flags);
    if (forcible) countEvent("evictions");
    if (stored) return;
  }
  countEvent("unstored-charges");
}

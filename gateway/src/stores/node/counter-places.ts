// Where the counter of a key is: in a cell of its own if there is one; else in the overflow, while the cell that the key shares
// there still counts something; else wherever there is memory. So a key whose units are in the overflow stays there until that
// cell is empty, and every operation finds the same place again.
//
// If workers must agree, the caller holds the lock of the policy and the key. The lock of the shared cells is acquired after it.

import { capacity, keepsEntries, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { nowUs as now } from "../../runtime/clock.ts";
import { countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { type CellCounter, counterKey, emptyCell, loadCounter } from "./counter-cells.ts";
import { isCalm, takeFromReserve } from "./counter-memory.ts";
import { acquire, acquireBeside, release } from "./key-lock.ts";
import { emptyPage, loadPacked } from "./packed-cells.ts";
import { type SharedCell, sharedCell, sharedLock } from "./shared-cells.ts";

/** nowhere: there is no memory left at all, and a request that would be counted there is refused. */
export type Place = "own" | "shared" | "nowhere";

/** The least memory that a cell takes. */
const cellBytes = 128;
/** If the request does not use the memory reserved for a counter, it is free again after this time. */
const reservedSeconds = 1;

/**
 * Finds a place for a limit that has no cell of its own for this key. If memory is scarce, an empty cell exists there afterwards.
 */
export function placeNewcomer(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): Place {
  if (isCalm()) return "own";
  const shared = sharedCell(limit, keyValues);
  if (shared !== undefined && isCounting(limit, shared)) return "shared";
  if (takeFromReserve(policy.counterPrefix, cellBytes, longestLifeSeconds(limit.rate)) && reserveOwn(limit, keyValues))
    return "own";
  return shared !== undefined && reserveShared(limit, shared) ? "shared" : "nowhere";
}

/** Points the counter to its cell in the overflow; the caller then loads it. */
export function moveToShared(counter: CellCounter, limit: CompiledLimit, keyValues: string): void {
  const cell = sharedCell(limit, keyValues);
  if (cell === undefined) return;
  counter.shared = true;
  counter.key = cell.key;
  counter.page = cell.page;
  counter.slot = cell.slot;
}

/**
 * Reads a counter from its place; `rate` and `cost` are set.
 *
 * @returns false if it has no place; the state is then that of a counter that was never used
 */
export function loadPlaced(counter: CellCounter, limit: CompiledLimit, keyValues: string, nowUs: number): boolean {
  counter.shared = false;
  counter.key = counterKey(limit, keyValues);
  if (loadCounter(counter, nowUs)) return true;
  if (isCalm()) return false;
  moveToShared(counter, limit, keyValues);
  if (loadCounter(counter, nowUs)) return true;
  counter.shared = false;
  counter.key = counterKey(limit, keyValues);
  return false;
}

/** Finds a place for a counter that has none yet and will be saved. @returns false: there is no memory for it */
export function findPlace(
  counter: CellCounter,
  policy: CompiledPolicy,
  limit: CompiledLimit,
  keyValues: string,
): boolean {
  const place = placeNewcomer(policy, limit, keyValues);
  if (place === "shared") moveToShared(counter, limit, keyValues);
  return place !== "nowhere";
}

/**
 * Waits for the locks of all counters of a policy and key, including those of the overflow. Yields.
 *
 * @param lock that of the counters' own cells
 * @returns the locks to release
 */
export function acquireAll(lock: string, policy: CompiledPolicy, keyValues: string): string[] {
  const held: string[] = [];
  if (acquire(lock)) held.push(lock);
  const shared = isCalm() ? undefined : sharedLock(policy, keyValues);
  if (shared !== undefined && acquireBeside(shared)) held.push(shared);
  return held;
}

export function releaseAll(held: readonly string[]): void {
  for (const lock of held) release(lock);
}

const looked = { atUs: 0, count: 0 };

function isCounting({ rate }: CompiledLimit, { key, page, slot }: SharedCell): boolean {
  if (keepsEntries(rate)) return overflowDict.get(key)[0] !== undefined;
  return loadPacked(looked, rate, page, slot, now());
}

function reserveOwn(limit: CompiledLimit, keyValues: string): boolean {
  return reserve(countersDict, counterKey(limit, keyValues), emptyCell(limit.rate));
}

function reserveShared({ rate }: CompiledLimit, { key, page }: SharedCell): boolean {
  return keepsEntries(rate) ? reserve(overflowDict, key, emptyCell(rate)) : reserve(overflowDict, page, emptyPage);
}

function reserve(dict: SharedDict, key: string, value: string | number): boolean {
  const [made, failure] = dict.safe_add(key, value, reservedSeconds);
  return made === true || failure === "exists";
}

/** An empty bucket needs this long to fill; of a window, two are kept. */
function longestLifeSeconds(rate: Rate): number {
  const windows = math.max(2, capacity(rate) / rate.quota);
  return math.max(1, (windows * rate.windowUs) / 1_000_000);
}

// Where the counter of a key lies: in a cell of its own where there is one, else in the overflow while the cell that the key shares
// there still counts something, else wherever there is memory. So a key whose units lie in the overflow stays there until that cell
// has emptied, and every operation finds the same place again.
//
// The lock of the policy and the key is held meanwhile, where workers must agree. That of the shared cells is taken after it.

import { capacity, type Rate } from "../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { countersDict, overflowDict } from "../runtime/shared-memory.ts";
import { type CellCounter, counterKey, emptyCell, loadCounter } from "./counter-cells.ts";
import { isCalm, takeFromReserve } from "./counter-memory.ts";
import { acquire, release } from "./key-lock.ts";
import { sharedKey, sharedLock } from "./shared-cells.ts";

/** nowhere: there is no memory left at all, and what would be counted there is refused. */
export type Place = "own" | "shared" | "nowhere";

/** What was taken for a counter is free again, should the request not use it. */
const reservedSeconds = 1;

/** For a limit that has no cell of its own for this key. Where memory is scarce, the cell is there afterwards and says nothing. */
export function placeNewcomer(policy: CompiledPolicy, limit: CompiledLimit, keyValues: string): Place {
  if (isCalm()) return "own";
  const shared = sharedKey(limit, keyValues);
  if (shared === undefined) return reserve(countersDict, limit, counterKey(limit, keyValues)) ? "own" : "nowhere";
  if (overflowDict.get(shared)[0] !== undefined) return "shared";
  if (takeFromReserve(policy, longestLifeSeconds(limit.rate))) {
    if (reserve(countersDict, limit, counterKey(limit, keyValues))) return "own";
  }
  return reserve(overflowDict, limit, shared) ? "shared" : "nowhere";
}

/** The counter is that of the overflow: to be loaded. */
export function moveToShared(counter: CellCounter, limit: CompiledLimit, keyValues: string): void {
  counter.shared = true;
  counter.key = sharedKey(limit, keyValues) ?? counter.key;
}

/**
 * Reads a counter from where it lies; `rate` and `cost` are set.
 *
 * @returns false, with the state of a counter never seen, where it lies nowhere
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

/** Finds a place for one that lies nowhere yet, and is to be saved. @returns false: there is no memory for it */
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
 * Waits for the locks of all counters of a policy and key, those of the overflow too. Yields.
 *
 * @param lock that of the counters' own cells
 * @returns which are to be released
 */
export function acquireAll(lock: string, policy: CompiledPolicy, keyValues: string): string[] {
  const held: string[] = [];
  if (acquire(lock)) held.push(lock);
  const shared = isCalm() ? undefined : sharedLock(policy, keyValues);
  if (shared !== undefined && acquire(shared)) held.push(shared);
  return held;
}

export function releaseAll(held: readonly string[]): void {
  for (const lock of held) release(lock);
}

function reserve(dict: SharedDict, { rate }: CompiledLimit, key: string): boolean {
  const [made, failure] = dict.safe_add(key, emptyCell(rate), reservedSeconds);
  return made === true || failure === "exists";
}

/** A bucket that is empty needs so long to fill; of a window two are kept. */
function longestLifeSeconds(rate: Rate): number {
  const windows = math.max(2, capacity(rate) / rate.quota);
  return math.max(1, (windows * rate.windowUs) / 1_000_000);
}

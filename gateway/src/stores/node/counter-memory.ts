// Decides whether there is memory for one more counter on this node. Nothing is ever evicted for a new counter. While a quarter
// of the dict is free, every new counter gets a cell of its own. Of the rest, each policy may take no more than it leaves to the
// others, for new counters and for logs that grow. So a spray of keys under one policy takes at most seven eighths of the dict,
// and under two policies eleven twelfths.

import { addSafely, countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { beginOverflow, overflowHasBegun } from "./overflow-seed.ts";

const reserve = 1 / 4;
const lookEverySeconds = 0.01;
/** nginx's clock stands still while it answers pipelined requests, so thousands of new counters may come at one moment. */
const lookEveryNewcomers = 64;
const shareKey = "share:";

const reserveBytes = countersDict.capacity() * reserve;
/**
 * The bytes that any policy may take in any case, if there is a place: among long-lived counters nearly no page may be free,
 * although many places are.
 */
const leastShareBytes = countersDict.capacity() / 64;
const overflowReserveBytes = overflowDict.capacity() * reserve;
let lookedAtSeconds = 0;
let newcomersSinceLook = 0;
let calm = false;

/** Returns whether less than the reserve is free. */
export function isScarce(): boolean {
  return countersDict.free_space() < reserveBytes;
}

/**
 * Returns whether every new counter may have a cell of its own, and no counter can have units in the overflow: this is so if
 * memory was never scarce since nginx started. The result is cached for some milliseconds and new counters, so that a new counter
 * costs no access to shared memory.
 */
export function isCalm(): boolean {
  const now = ngx.now();
  newcomersSinceLook += 1;
  if (newcomersSinceLook >= lookEveryNewcomers || now - lookedAtSeconds >= lookEverySeconds || now < lookedAtSeconds)
    look(now);
  return calm;
}

function look(now: number): void {
  lookedAtSeconds = now;
  newcomersSinceLook = 0;
  if (isScarce()) beginOverflow();
  calm = !overflowHasBegun();
}

/**
 * Returns whether a policy's counters may take this much more without taking too much from other policies. If so, it is counted.
 *
 * @param owner names the policy, or a limit of it
 * @param lifeSeconds the longest lifetime of its counters
 */
export function takeFromReserve(owner: string, bytes: number, lifeSeconds: number): boolean {
  const freeBytes = countersDict.free_space();
  if (freeBytes >= reserveBytes) return true;
  const key = shareKey + owner;
  const taken = countersDict.get<number>(key)[0] ?? 0;
  if (taken >= math.max(freeBytes, leastShareBytes)) return false;
  return addSafely(countersDict, key, bytes, lifeSeconds) !== undefined;
}

/** Returns whether data in the overflow may still grow: the last quarter is left to new counters. */
export function overflowMayGrow(): boolean {
  return overflowDict.free_space() >= overflowReserveBytes;
}

// Whether there is memory for one more counter on this node. Nothing is ever evicted for it: while a quarter of the dict is free
// anybody's newcomers have cells of their own, and of what is left then each policy may take no more than it leaves to the others,
// for newcomers and for logs that grow. So a spray of keys under one policy takes seven eighths of the dict at most, under two
// policies eleven twelfths.

import { addSafely, countersDict, overflowDict } from "../../runtime/shared-memory.ts";
import { beginOverflow, overflowHasBegun } from "./overflow-seed.ts";

const reserve = 1 / 4;
const lookEverySeconds = 0.01;
/** nginx's clock stands while it answers requests that came together, pipelined: thousands of newcomers at one moment. */
const lookEveryNewcomers = 64;
const shareKey = "share:";

const reserveBytes = countersDict.capacity() * reserve;
/** What any policy may take where there is a place: among counters that live long nearly no page may be free, and many places be. */
const leastShareBytes = countersDict.capacity() / 64;
const overflowReserveBytes = overflowDict.capacity() * reserve;
let lookedAtSeconds = 0;
let askedSince = 0;
let calm = false;

/** Whether less than the reserve is free. */
export function isScarce(): boolean {
  return countersDict.free_space() < reserveBytes;
}

/**
 * Whether every newcomer may have a cell of its own, and none can have units in the overflow: as long as memory was never scarce
 * since nginx was started. Known for some ms and newcomers, so that it costs a newcomer no shared memory.
 */
export function isCalm(): boolean {
  const now = ngx.now();
  askedSince += 1;
  if (askedSince >= lookEveryNewcomers || now - lookedAtSeconds >= lookEverySeconds || now < lookedAtSeconds) look(now);
  return calm;
}

function look(now: number): void {
  lookedAtSeconds = now;
  askedSince = 0;
  if (isScarce()) beginOverflow();
  calm = !overflowHasBegun();
}

/**
 * Whether a policy's counters may take so much more, as far as the others are concerned; it is counted then.
 *
 * @param owner names the policy, or a limit of it
 * @param lifeSeconds for how long its counters may last
 */
export function takeFromReserve(owner: string, bytes: number, lifeSeconds: number): boolean {
  const freeBytes = countersDict.free_space();
  if (freeBytes >= reserveBytes) return true;
  const key = shareKey + owner;
  const taken = countersDict.get<number>(key)[0] ?? 0;
  if (taken >= math.max(freeBytes, leastShareBytes)) return false;
  return addSafely(countersDict, key, bytes, lifeSeconds) !== undefined;
}

/** Whether what lies in the overflow may still grow: less than a quarter is left to those that come. */
export function overflowMayGrow(): boolean {
  return overflowDict.free_space() >= overflowReserveBytes;
}

// One holder at a time for a key, among all workers of this nginx. A free lock is taken by one `safe_add` of its key, as
// lua-resty-lock's first step is an `add`, which would evict another's lock where the dict is full. Only who finds it taken waits:
// by lua-resty-lock where the runtime has it, else by the same contract in our own words. A lock whose holder was killed falls
// open by itself.

import { countEvent } from "../metrics/counts.ts";
import { lockLibrary } from "../runtime/lua-modules.ts";
import { locksDict } from "../runtime/shared-memory.ts";

/** How long a lock outlives a holder that was killed. Holding takes microseconds: nothing yields meanwhile. */
const holdSeconds = 0.5;
const timeoutSeconds = 0.6;
const firstPauseSeconds = 0.001;
const pauseGrowth = 2;
const longestPauseSeconds = 0.02;

/** The lua-resty-locks that this worker had to wait for and holds now. */
const heldLocks: Record<string, RestyLock | undefined> = {};
let heldCount = 0;

/**
 * Waits for the lock. May yield to other requests before it is had, never after.
 *
 * @returns false when it was not had in time: whoever goes on without it may lose another's simultaneous charge
 */
export function acquire(key: string): boolean {
  const [free, failure] = locksDict.safe_add(key, true, holdSeconds);
  return free === true || waitFor(key, failure);
}

/**
 * Deletes the key, as lua-resty-lock does. A holder must be done within `holdSeconds`: after that another may hold the lock,
 * and would lose it.
 */
export function release(key: string): void {
  if (heldCount === 0 || !releaseResty(key)) locksDict.delete(key);
}

function waitFor(key: string, failure: string | undefined): boolean {
  // Where it is memory that was missing, lua-resty-lock would evict a lock that another holds.
  const acquired = lockLibrary === undefined || failure !== "exists" ? waitOwn(key) : waitResty(key);
  if (!acquired) countEvent("lock-timeouts");
  return acquired;
}

function waitOwn(key: string): boolean {
  let pause = firstPauseSeconds;
  let waited = 0;
  while (waited < timeoutSeconds) {
    ngx.sleep(pause);
    waited += pause;
    if (locksDict.safe_add(key, true, holdSeconds)[0]) return true;
    pause = math.min(pause * pauseGrowth, longestPauseSeconds);
  }
  return false;
}

function waitResty(key: string): boolean {
  // An object for each wait: lua-resty-lock frees the key of one that is thrown away, which must not be another's by then.
  const [lock] = (lockLibrary as NonNullable<typeof lockLibrary>).new("sluice_locks", {
    exptime: holdSeconds,
    timeout: timeoutSeconds,
    step: firstPauseSeconds,
    ratio: pauseGrowth,
    max_step: longestPauseSeconds,
  });
  if (lock === undefined) return false;
  const [waited] = lock.lock(key);
  if (waited === undefined) return false;
  heldLocks[key] = lock;
  heldCount += 1;
  return true;
}

/** @returns false when the lock was free and no lua-resty-lock holds it */
function releaseResty(key: string): boolean {
  const lock = heldLocks[key];
  if (lock === undefined) return false;
  heldLocks[key] = undefined;
  heldCount -= 1;
  lock.unlock();
  return true;
}

// One holder at a time for a key, among all workers of this nginx. lua-resty-lock where the runtime has it; else the
// same contract in our own words: wait with growing pauses up to a time-out, and a lock whose holder was killed falls
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

/** What releases the lua-resty-locks that this worker holds. */
const heldLocks: Record<string, RestyLock | undefined> = {};

/**
 * Waits for the lock. May yield to other requests before it is had, never after.
 *
 * @returns false when it was not had in time: whoever goes on without it may lose another's simultaneous charge
 */
export function acquire(key: string): boolean {
  const acquired = lockLibrary === undefined ? acquireOwn(key) : acquireResty(key);
  if (!acquired) countEvent("lock-timeouts");
  return acquired;
}

export function release(key: string): void {
  const lock = heldLocks[key];
  if (lock === undefined) {
    locksDict.delete(key);
  } else {
    heldLocks[key] = undefined;
    lock.unlock();
  }
}

function acquireOwn(key: string): boolean {
  if (locksDict.add(key, true, holdSeconds)[0]) return true;
  let pause = firstPauseSeconds;
  let waited = 0;
  while (waited < timeoutSeconds) {
    ngx.sleep(pause);
    waited += pause;
    if (locksDict.add(key, true, holdSeconds)[0]) return true;
    pause = math.min(pause * pauseGrowth, longestPauseSeconds);
  }
  return false;
}

function acquireResty(key: string): boolean {
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
  return true;
}

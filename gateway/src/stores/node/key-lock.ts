// One holder at a time for a key, among all workers of this nginx. A free lock is taken by one `safe_add` of its key, as
// lua-resty-lock's first step is an `add`, which would evict another's lock where the dict is full. Only who finds it taken waits:
// by lua-resty-lock where the runtime has it, else by the same contract in our own words. A lock whose holder was killed falls
// open by itself.

import { countEvent } from "../../metrics/counts.ts";
import { lockLibrary } from "../../runtime/lua-modules.ts";
import { locksDict } from "../../runtime/shared-memory.ts";
import { stopwatchSeconds } from "../../runtime/stopwatch.ts";

/**
 * How long a lock outlives a holder that was killed. Holding takes microseconds: nothing yields meanwhile but the wait for a
 * second lock, which is shorter.
 */
const holdSeconds = 0.5;
const timeoutSeconds = 0.6;
/** Beside a lock that is held. What is left of that one then is for a worker that stands still as long. */
const timeoutBesideSeconds = 0.4;
/** Where there is no memory for a lock. It comes back when others are released, which takes microseconds, or not soon. */
const memoryTimeoutSeconds = 0.02;
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
 * The same for who has just taken another lock, and releases it after this wait: that one must not have lapsed meanwhile, and be
 * another's.
 */
export function acquireBeside(key: string): boolean {
  const [free, failure] = locksDict.safe_add(key, true, holdSeconds);
  return free === true || counted(waitOwn(key, failure, timeoutBesideSeconds));
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
  return counted(
    lockLibrary === undefined || failure !== "exists" ? waitOwn(key, failure, timeoutSeconds) : waitResty(key),
  );
}

function counted(acquired: boolean): boolean {
  if (!acquired) countEvent("lock-timeouts");
  return acquired;
}

/** @param failure why it was not had at once */
function waitOwn(key: string, failure: string | undefined, longestSeconds: number): boolean {
  const begunAtSeconds = stopwatchSeconds();
  let pause = firstPauseSeconds;
  let reason = failure;
  while (true) {
    const patience = reason === "no memory" ? memoryTimeoutSeconds : longestSeconds;
    const left = patience - (stopwatchSeconds() - begunAtSeconds);
    // nginx sleeps whole ms.
    if (left < firstPauseSeconds) return false;
    ngx.sleep(math.min(pause, left));
    const [free, again] = locksDict.safe_add(key, true, holdSeconds);
    if (free) return true;
    reason = again;
    pause = math.min(pause * pauseGrowth, longestPauseSeconds);
  }
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

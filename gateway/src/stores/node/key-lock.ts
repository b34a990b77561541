// A lock for a key, with one holder at a time among all workers of this nginx. A free lock is acquired by one `safe_add` of its
// key: lua-resty-lock begins with `add`, which would evict another lock if the dict is full. Only a caller that finds the lock
// taken waits, by lua-resty-lock if it is installed, else by an implementation of the same contract here. A lock whose holder was
// killed expires. A lock whose holder breaks off with an error is released by whoever catches that.

import { countEvent } from "../../metrics/counts.ts";
import { afterDefects } from "../../runtime/defects.ts";
import { lockLibrary } from "../../runtime/lua-modules.ts";
import { locksDict } from "../../runtime/shared-memory.ts";
import { stopwatchSeconds } from "../../runtime/stopwatch.ts";

/**
 * How long a lock outlives a holder that was killed. A lock is held for microseconds: nothing yields meanwhile except the wait
 * for a second lock, which is shorter than this.
 */
const holdSeconds = 0.5;
const timeoutSeconds = 0.6;
/**
 * The timeout while another lock is held. The rest of that lock's lifetime is a margin for a worker that is blocked for that
 * long.
 */
const timeoutBesideSeconds = 0.4;
/**
 * The timeout if there is no memory for a lock. Memory is available again when other locks are released, which takes
 * microseconds, or not soon.
 */
const memoryTimeoutSeconds = 0.02;
const firstPauseSeconds = 0.001;
const pauseGrowth = 2;
const longestPauseSeconds = 0.02;

/** The lua-resty-locks that this worker had to wait for and now holds. */
const heldLocks: Record<string, RestyLock | undefined> = {};
let heldCount = 0;

/**
 * The locks that the running code holds. While it holds one, nothing yields except the wait for a second one, and the code that runs
 * meanwhile does not find the first one here.
 */
let held: string | undefined;
let heldBeside: string | undefined;

afterDefects(() => {
  if (heldBeside !== undefined) release(heldBeside);
  if (held !== undefined) release(held);
});

/**
 * Waits for the lock. May yield to other requests before it is acquired, never after.
 *
 * @returns false if it was not acquired in time: going on without it may lose a simultaneous charge by another worker
 */
export function acquire(key: string): boolean {
  const [free, failure] = locksDict.safe_add(key, true, holdSeconds);
  if (free !== true && !waitFor(key, failure)) return false;
  held = key;
  return true;
}

/**
 * The same for a caller that has just acquired another lock, and releases that one after this wait: the first lock must not
 * expire meanwhile and be acquired by another worker.
 */
export function acquireBeside(key: string): boolean {
  const [free, failure] = locksDict.safe_add(key, true, holdSeconds);
  if (free !== true && !waitBeside(key, failure)) return false;
  heldBeside = key;
  return true;
}

function waitBeside(key: string, failure: string | undefined): boolean {
  const first = held;
  held = undefined;
  const [waited, acquired] = pcall(waitOwn, key, failure, timeoutBesideSeconds);
  held = first;
  if (!waited) error(acquired, 0);
  return counted(acquired as boolean);
}

/**
 * Deletes the key, as lua-resty-lock does. A holder must be done within `holdSeconds`: after that another worker may hold the
 * lock, and would lose it.
 */
export function release(key: string): void {
  if (key === held) held = undefined;
  else heldBeside = undefined;
  if (heldCount === 0 || !releaseResty(key)) locksDict.delete(key);
}

function waitFor(key: string, failure: string | undefined): boolean {
  // If memory was missing, lua-resty-lock would evict another worker's lock.
  return counted(
    lockLibrary === undefined || failure !== "exists" ? waitOwn(key, failure, timeoutSeconds) : waitResty(key),
  );
}

function counted(acquired: boolean): boolean {
  if (!acquired) countEvent("lock-timeouts");
  return acquired;
}

/** @param failure why the lock was not acquired at once */
function waitOwn(key: string, failure: string | undefined, longestSeconds: number): boolean {
  const begunAtSeconds = stopwatchSeconds();
  let pause = firstPauseSeconds;
  let reason = failure;
  while (true) {
    const patience = reason === "no memory" ? memoryTimeoutSeconds : longestSeconds;
    const left = patience - (stopwatchSeconds() - begunAtSeconds);
    // nginx sleeps for whole milliseconds.
    if (left < firstPauseSeconds) return false;
    ngx.sleep(math.min(pause, left));
    const [free, again] = locksDict.safe_add(key, true, holdSeconds);
    if (free) return true;
    reason = again;
    pause = math.min(pause * pauseGrowth, longestPauseSeconds);
  }
}

function waitResty(key: string): boolean {
  // A new object for each wait: lua-resty-lock deletes its key when an object is collected, which must not be another holder's by
  // then.
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

/** @returns false if no lua-resty-lock holds the lock */
function releaseResty(key: string): boolean {
  const lock = heldLocks[key];
  if (lock === undefined) return false;
  heldLocks[key] = undefined;
  heldCount -= 1;
  lock.unlock();
  return true;
}

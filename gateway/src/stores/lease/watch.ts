// Checks the leases in use every few milliseconds, so that units are there before requests need them.

import { runInTimer } from "../../runtime/background.ts";
import { noteDefect } from "../../runtime/defects.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { forgetBegun, look } from "./exchange.ts";
import { forgetKnownLeases, keepLease, knownLease, type Lease, refresh } from "./leases.ts";

const lookEverySeconds = 0.005;
/** If a watcher has not run for this long, nginx has dropped its timer. */
const watcherGoneUs = 1_000_000;
/** In units per horizon. */
const leastDemand = 0.1;

let watched: Lease[] = [];
/** When the watcher last ran, or was started. */
let watcherSeenUs = 0;
let watchers = 0;

/** Checks a lease, and watches it if it is in use. */
export function lookAndWatch(lease: Lease): void {
  if (look(lease)) watch(lease);
}

/**
 * Forgets what this worker knows of leases besides the records. Watched leases stay watched until they have returned their units.
 */
export function forgetLeases(): void {
  forgetKnownLeases();
  for (const lease of watched) {
    lease.refusal = undefined;
    refresh(lease);
  }
}

function watch(lease: Lease): void {
  if (lease.watched) return;
  lease.watched = true;
  watched.push(lease);
  keepWatching(stopwatchUs());
}

/** Starts a watcher if there are leases to watch and none runs. */
export function keepWatching(nowUs: number): void {
  if (watched.length === 0 || nowUs - watcherSeenUs < watcherGoneUs || ngx.worker.exiting()) return;
  watchers += 1;
  const watcher = watchers;
  if (runInTimer(() => watchAll(watcher)) === undefined) watcherSeenUs = nowUs;
}

/**
 * Runs until there are no leases to watch, another watcher runs, or the worker ends: then the other workers go on with its
 * leases.
 */
function watchAll(watcher: number): void {
  while (watched.length > 0 && watcher === watchers && !ngx.worker.exiting()) {
    watcherSeenUs = stopwatchUs();
    forgetBegun();
    const leases = watched;
    watched = [];
    for (const lease of leases) {
      const [looked, failure] = pcall(look, lease);
      if (!looked) noteDefect("redis", "a lease was not checked", failure);
      if (isInUse(lease)) keepWatched(lease);
      else lease.watched = false;
    }
    ngx.sleep(lookEverySeconds);
  }
  if (watcher === watchers) watcherSeenUs = 0;
}

/** A lease is not in use if next to nothing is requested and no units are left. */
function isInUse({ record }: Lease): boolean {
  return record.demand >= leastDemand || record.out > 0 || record.waiting === 1;
}

/**
 * Keeps watching the lease, or the one that has taken its place in this worker: perhaps only the policy was compiled again. A
 * lease with other limits is not watched.
 */
function keepWatched(lease: Lease): void {
  const known = knownLease(lease);
  if (known === undefined || known === lease) {
    keepLease(lease);
    watched.push(lease);
    return;
  }
  lease.watched = false;
  if (known.id === lease.id) watch(known);
}

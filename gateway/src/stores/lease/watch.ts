// Looks every few ms at the leases that were asked for, so that units are there before requests need them.

import { warnSparingly } from "../../runtime/sparing-log.ts";
import { stopwatchUs } from "../../runtime/stopwatch.ts";
import { forgetBegun, look } from "./exchange.ts";
import { forgetKnownLeases, keepLease, knownLease, type Lease, refresh } from "./leases.ts";

const lookEverySeconds = 0.005;
/** Of a watcher that was not seen for so long nginx has dropped the timer. */
const watcherGoneUs = 1_000_000;
/** Units a horizon. */
const leastDemand = 0.1;

let watched: Lease[] = [];
/** When the watcher was last seen, or begun. */
let watcherSeenUs = 0;
let watchers = 0;

/** Looks at a lease, and watches it if it is in use. */
export function lookAndWatch(lease: Lease): void {
  if (look(lease)) watch(lease);
}

/** What this worker knows of them besides the records. Those that are watched are so until they have given back what they hold. */
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

/** Where leases are to be watched, and nobody does. */
export function keepWatching(nowUs: number): void {
  if (watched.length === 0 || nowUs - watcherSeenUs < watcherGoneUs || ngx.worker.exiting()) return;
  watchers += 1;
  const watcher = watchers;
  const [started] = ngx.timer.at(0, () => watchAll(watcher));
  if (started !== undefined) watcherSeenUs = nowUs;
}

/** Until there are none to be watched, another does, or the worker is to end: the others go on with what it leaves. */
function watchAll(watcher: number): void {
  while (watched.length > 0 && watcher === watchers && !ngx.worker.exiting()) {
    watcherSeenUs = stopwatchUs();
    forgetBegun();
    const leases = watched;
    watched = [];
    for (const lease of leases) {
      const [looked, failure] = pcall(look, lease);
      if (!looked) warnSparingly("a lease was not looked at", `${failure}`);
      if (isInUse(lease)) keepWatched(lease);
      else lease.watched = false;
    }
    ngx.sleep(lookEverySeconds);
  }
  if (watcher === watchers) watcherSeenUs = 0;
}

/** Not where next to nothing is asked for and nothing in hand. */
function isInUse({ record }: Lease): boolean {
  return record.demand >= leastDemand || record.out > 0 || record.waiting === 1;
}

/** Or whoever has its place in this worker: only the policy may have been compiled anew. Not where it has other limits by now. */
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

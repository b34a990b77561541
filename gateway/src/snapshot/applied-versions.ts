// Which version of the policies each worker decides by.

import { stateDict } from "../runtime/shared-memory.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

const appliedKey = "snapshot-applied:";
const applyPollSeconds = 0.001;

let appliedVersion = 0;

/** The version that this worker decides by. */
export function ownVersion(): number {
  return appliedVersion;
}

export function noteApplied(version: number): void {
  appliedVersion = version;
  const id = ngx.worker.id();
  // During a reload, a worker that starts has the same id as one that ends. The new one's record counts.
  if (id !== undefined && !ngx.worker.exiting()) stateDict.safe_set(`${appliedKey}${id}`, version);
}

/** Waits until every worker uses this version. Yields. @returns false if that took longer than `seconds` */
export function waitUntilApplied(version: number, seconds: number, goesOn: (this: void) => boolean): boolean {
  const deadlineSeconds = stopwatchSeconds() + seconds;
  while (!allApplied(version)) {
    if (stopwatchSeconds() >= deadlineSeconds || !goesOn()) return false;
    ngx.sleep(applyPollSeconds);
  }
  return true;
}

export function allApplied(version: number): boolean {
  for (let id = 0; id < ngx.worker.count(); id++) {
    const [applied] = stateDict.get<number>(`${appliedKey}${id}`);
    if (applied === undefined || applied < version) return false;
  }
  return true;
}

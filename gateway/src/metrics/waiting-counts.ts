// Publishes how many requests wait on each worker, so that any worker can answer for the metrics.

import { stateDict } from "../runtime/shared-memory.ts";

const waitingKey = "waiting:";

/** Also called when a worker starts: one that was killed may have left its count behind. */
export function publishWaiting(requests: number): void {
  stateDict.safe_set(waitingKey + ngx.worker.id(), requests);
}

/** Requests that wait on this worker, for units and for their turn. */
export function waitingRequests(worker: number): number {
  return stateDict.get<number>(waitingKey + worker)[0] ?? 0;
}

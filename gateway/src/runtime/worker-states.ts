// Numbers that each worker publishes about itself, so that any worker can tell those of all: in the metrics and to the control plane.

import { stateDict } from "./shared-memory.ts";

export type WorkerState =
  | "lua-memory"
  | "overloaded"
  | "waiting"
  | "open-breakers"
  | "revision"
  | "policies"
  | "in-force-since"
  | "longest-slice";

/** Numbers that change by events are also published when a worker starts: one that was killed may have left its own behind. */
export function publishState(state: WorkerState, value: number): void {
  const id = ngx.worker.id();
  // After a reload, a worker that ends has a successor with its number.
  if (id !== undefined && ngx.worker.exiting()) return;
  stateDict.safe_set(`${state}:${id}`, value);
}

/** Returns what this worker has published last. Undefined: nothing yet. */
export function publishedState(state: WorkerState, worker: number): number | undefined {
  return stateDict.get<number>(`${state}:${worker}`)[0];
}

// Publishes which workers decide by their share by choice, because Redis is overloaded, so that any worker can say so in the metrics
// and to the control plane.

import { publishedState, publishState } from "../runtime/worker-states.ts";
import { addPending, flushedCount } from "./counts.ts";

const decisionsKey = "overload-decisions";

/** Also called when a worker starts: one that was killed may have left its state behind. */
export function publishOverload(isOverloaded: boolean): void {
  publishState("overloaded", isOverloaded ? 1 : 0);
}

/** Returns how many workers of this nginx are overloaded. */
export function overloadedWorkers(): number {
  let count = 0;
  for (let id = 0; id < ngx.worker.count(); id++) if (publishedState("overloaded", id) === 1) count += 1;
  return count;
}

/** Counts a decision without Redis that was made by choice. It is counted as degraded, too. */
export function countOverloadDecision(): void {
  addPending(decisionsKey, 1);
}

export function overloadDecisions(): number {
  return flushedCount(decisionsKey);
}

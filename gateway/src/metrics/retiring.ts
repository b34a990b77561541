// Counts of policies that are gone: shown no longer at once, and dropped from shared memory before long, so that what
// is kept is bounded by the policies that there are.

import { policiesOf } from "../ask/directory.ts";
import { type DecisionCount, decisionCounts, retire } from "./counts.ts";

/** Long after the last worker has flushed what it counted of a policy before that went. */
const sweepEverySeconds = 60;

export function inSnapshot({ app, policy }: DecisionCount): boolean {
  return policiesOf(app)[policy] !== undefined;
}

/** For each worker's start. */
export function retireGonePolicies(): void {
  if (ngx.worker.id() !== 0) return;
  ngx.timer.every(sweepEverySeconds, (premature) => {
    if (premature) return;
    for (const count of decisionCounts()) {
      if (!inSnapshot(count)) retire(count);
    }
  });
}

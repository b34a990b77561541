// Counts of policies that are gone: shown no longer at once, and dropped from shared memory before long, so that what
// is kept is bounded by the policies that there are.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { addSafely, metricsDict } from "../runtime/shared-memory.ts";
import { besideRequests } from "../runtime/slices.ts";
import { policiesOf } from "../snapshot/current.ts";
import { policyOfSeries } from "./counts.ts";

/** Long after the last worker has flushed what it counted of a policy before that went. */
const sweepEverySeconds = 60;
const sweepKey = "sweeps";
/** All workers wait for the dict while so many of its keys are listed: some ten µs. */
const mostKeysAtOnce = 100;
/** No key with its number takes less. */
const leastBytesOfKey = 64;

/** For each worker's start. */
export function retireGonePolicies(): void {
  if (ngx.worker.id() !== 0) return;
  ngx.timer.every(sweepEverySeconds, (premature) => {
    if (!premature) besideRequests(sweep);
  });
}

/**
 * The dict lists first what was used longest ago, and what is looked at goes to the end. So does the key that the sweep begins
 * with: when it comes, everything that there was has been looked at. Where somebody empties the dict it never comes.
 */
function sweep(pause: Pause): void {
  if (addSafely(metricsDict, sweepKey, 1, 0) === undefined) return;
  for (let left = metricsDict.capacity() / leastBytesOfKey; left > 0; left -= mostKeysAtOnce) {
    for (const key of metricsDict.get_keys(mostKeysAtOnce)) {
      if (key === sweepKey) return;
      lookAt(key);
    }
    if (ngx.worker.exiting()) return;
    pause();
  }
}

function lookAt(key: string): void {
  const [app, policy] = policyOfSeries(key);
  const gone = app !== undefined && policiesOf(app)[policy as string] === undefined;
  if (gone) metricsDict.delete(key);
  else metricsDict.get(key);
}

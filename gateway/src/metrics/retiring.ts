// Counts of removed policies, plans, limits and tokens disappear from the metrics at once and from shared memory soon afterwards. So the memory is bounded
// by the policies, plans, limits and tokens in force.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { runEvery } from "../runtime/background.ts";
import { addSafely, metricsDict } from "../runtime/shared-memory.ts";
import { besideRequests } from "../runtime/slices.ts";
import { currentState } from "../snapshot/current.ts";
import { callerOfSeries, shortHash } from "./caller-counts.ts";
import { isSeriesInForce } from "./series.ts";

/** Much longer than it takes the last worker to flush what it counted before the policy was removed. */
const sweepEverySeconds = 60;
const sweepKey = "sweeps";
/** While the dict lists this many keys, all workers wait for it: some ten µs. */
const mostKeysAtOnce = 100;
/** No key takes less space with its number. */
const leastBytesOfKey = 64;

/** Called when a worker starts. */
export function retireGonePolicies(): void {
  if (ngx.worker.id() !== 0) return;
  runEvery(sweepEverySeconds, (premature) => {
    if (!premature) besideRequests(sweep);
  });
}

/**
 * The dict lists the least recently used keys first, and every access moves a key to the end. This includes the sweep's own key,
 * which it touches first: when that key comes up, all other keys have been visited. If something empties the dict, it never comes
 * up.
 */
function sweep(pause: Pause): void {
  if (addSafely(metricsDict, sweepKey, 1, 0) === undefined) return;
  const callers = emptyTable<true>();
  for (const sha256 in currentState().callers) callers[shortHash(sha256)] = true;
  for (let left = metricsDict.capacity() / leastBytesOfKey; left > 0; left -= mostKeysAtOnce) {
    for (const key of metricsDict.get_keys(mostKeysAtOnce)) {
      if (key === sweepKey) return;
      visit(key, callers);
    }
    if (ngx.worker.exiting()) return;
    pause();
  }
}

function visit(key: string, callers: Record<string, true>): void {
  const inForce = isSeriesInForce(key);
  const caller = inForce === undefined ? callerOfSeries(key) : undefined;
  if (inForce === false || (caller !== undefined && callers[caller] === undefined)) metricsDict.delete(key);
  else metricsDict.get(key);
}

// Reports whether Redis answers this nginx. It is derived from the metrics of all workers' calls; nothing else is counted for it.

import type { RedisReport } from "../../../limiter/src/protocol/push-messages.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { overloadedWorkers } from "./overload-state.ts";
import { redisCallCounts, redisFailureCount, redisFailures } from "./redis-calls.ts";

/**
 * As of the last report. Undefined before this worker's first report: there is no telling when the other workers counted what
 * they did.
 */
let answered: number | undefined;
let failed = 0;
const identityKey = "redis-identity";
let state: RedisReport["state"] = "unused";
let sinceSeconds = ngx.now();

/**
 * Called by the owner of the push socket at each report. Redis counts as failing if any call has failed since the last report.
 */
export function redisReport(): RedisReport {
  let calls = 0;
  for (const count of redisCallCounts()) calls += count;
  let failures = 0;
  for (const kind of redisFailures) failures += redisFailureCount(kind);
  // Calls without a connection and late requests are not among `calls`; every other failed call is.
  const answers = calls - failures + redisFailureCount("connect") + redisFailureCount("late");
  if (answered === undefined) {
    if (failures === 0 && answers > 0) become("ok");
  } else if (failures > failed) become("failing");
  else if (answers > answered) become("ok");
  answered = answers;
  failed = failures;
  const [id] = stateDict.get<string>(identityKey);
  const overloaded = overloadedWorkers();
  const overload = overloaded === 0 ? undefined : overloaded;
  return { state, sinceSeconds: math.floor(sinceSeconds), id, overloadedWorkers: overload };
}

/** Called by any worker that has read it. @param id names the data that Redis has */
export function noteRedisIdentity(id: string): void {
  if (stateDict.get<string>(identityKey)[0] !== id) stateDict.set(identityKey, id);
}

function become(next: RedisReport["state"]): void {
  if (state === next) return;
  state = next;
  sinceSeconds = ngx.now();
}

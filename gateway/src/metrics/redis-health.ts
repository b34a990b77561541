// Whether Redis answers this nginx, from what its workers' calls came to: nothing is counted for it besides the metrics.

import type { RedisReport } from "../../../limiter/src/protocol/push-messages.ts";
import { redisCallCounts, redisFailureCount, redisFailures } from "./redis-calls.ts";

/** At the last report; undefined before this worker's first: what others counted is of an unknown time. */
let answered: number | undefined;
let failed = 0;
let state: RedisReport["state"] = "unused";
let sinceSeconds = ngx.now();

/** For the owner of the push socket, each time that it reports: a failure since the last report is a failing Redis. */
export function redisReport(): RedisReport {
  let calls = 0;
  for (const count of redisCallCounts()) calls += count;
  let failures = 0;
  for (const kind of redisFailures) failures += redisFailureCount(kind);
  // A call that had no connection is no call there, nor is a request that was late; every other failed one is.
  const answers = calls - failures + redisFailureCount("connect") + redisFailureCount("late");
  if (answered === undefined) {
    if (failures === 0 && answers > 0) become("ok");
  } else if (failures > failed) become("failing");
  else if (answers > answered) become("ok");
  answered = answers;
  failed = failures;
  return { state, sinceSeconds: math.floor(sinceSeconds) };
}

function become(next: RedisReport["state"]): void {
  if (state === next) return;
  state = next;
  sinceSeconds = ngx.now();
}

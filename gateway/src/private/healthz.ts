// GET /sluice/healthz answers 200 while this nginx serves. It reports the revision in force, whether the control plane is connected,
// and whether all workers use the same Redis. A gateway without its control plane is healthy, because it goes on limiting. A gateway
// that never had any policies lets everything pass, and reports that; if the operator requires a snapshot, it is unhealthy until it
// has one. Without the call of sluice.initWorker() it is always unhealthy.

import { redisIdentities } from "../metrics/redis-health.ts";
import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { currentState, hasSnapshot } from "../snapshot/current.ts";
import { isConnected } from "../snapshot/live-gateways.ts";

const unavailable = 503;

/** @param initWorkerCalled whether sluice.initWorker() was called in this worker; without it, the worker receives no policies */
export function healthz({ requireSnapshot }: Settings, initWorkerCalled: boolean): void {
  const { revision } = currentState().position;
  const redis = redisIdentities();
  if (!initWorkerCalled || (requireSnapshot && !hasSnapshot())) ngx.status = unavailable;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  const ids = redis.length === 0 ? undefined : redis.map(({ id }) => id);
  ngx.print(
    cjson.encode({ status: statusOf(initWorkerCalled, redis.length), revision, connected: isConnected(), redis: ids }),
  );
}

function statusOf(initWorkerCalled: boolean, redisCount: number): string {
  if (!initWorkerCalled) return "sluice.initWorker() was not called";
  if (!hasSnapshot()) return "no policies yet";
  return redisCount > 1 ? "workers use different Redis servers, and count apart" : "ok";
}

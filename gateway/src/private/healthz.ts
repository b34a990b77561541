// GET /sluice/healthz answers 200 while this nginx serves. It reports the revision in force, whether the control plane is connected,
// and whether all workers use the same Redis. A gateway without its control plane is healthy, because it goes on limiting. A gateway
// that never had any policies lets everything pass, and reports that; if the operator requires a snapshot, it is unhealthy until it
// has one. It reports defects of Sluice and warnings, and stays healthy: the next request may be decided. A worker that did not begin, or
// cannot keep policies, is always unhealthy.

import { redisIdentities } from "../metrics/redis-health.ts";
import { defectCounts, recentDefects } from "../runtime/defects.ts";
import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { currentState, hasSnapshot } from "../snapshot/current.ts";
import { isConnected } from "../snapshot/live-gateways.ts";
import { warningsOf } from "../warnings.ts";

/**
 * - begun: sluice.initWorker() has run in this worker.
 * - failed: it broke off.
 * - missing: it was not called, and the worker receives no policies.
 * - ends: this Lua state ends with the request, because lua_code_cache is off.
 */
export type WorkerStart = "begun" | "failed" | "missing" | "ends";

const unavailable = 503;
const unhealthy: Readonly<Record<Exclude<WorkerStart, "begun">, string>> = {
  failed: "sluice.initWorker() failed",
  missing: "sluice.initWorker() was not called",
  ends: "lua_code_cache is off",
};

export function healthz(settings: Settings, start: WorkerStart): void {
  const { revision } = currentState().position;
  const redis = redisIdentities();
  const isUnhealthy = start !== "begun" || (settings.requireSnapshot && !hasSnapshot());
  if (isUnhealthy) ngx.status = unavailable;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  const status = start === "begun" ? statusOf(redis.length) : unhealthy[start];
  const ids = redis.length === 0 ? undefined : redis.map(({ id }) => id);
  const found = warningsOf(settings);
  // An empty list of Lua would be written as {}.
  const warnings = found.length === 0 ? undefined : found;
  ngx.print(cjson.encode({ status, revision, connected: isConnected(), redis: ids, errors: defectCounts(), warnings }));
}

function statusOf(redisCount: number): string {
  const recent = recentDefects();
  if (recent.length > 0) return `Sluice failed lately: ${recent.join(", ")}`;
  if (!hasSnapshot()) return "no policies yet";
  return redisCount > 1 ? "workers use different Redis servers, and count apart" : "ok";
}

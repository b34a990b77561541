// GET /sluice/healthz answers 200 while this nginx serves. It reports the revision in force and whether the control plane is
// connected. A gateway without its control plane is healthy, because it goes on limiting. A gateway that never had any policies
// lets everything pass, and reports that; if the operator requires a snapshot, it is unhealthy until it has one. Without the call
// of sluice.initWorker() it is always unhealthy.

import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { currentState, hasSnapshot } from "../snapshot/current.ts";
import { isConnected } from "../snapshot/live-gateways.ts";

const unavailable = 503;

/** @param initWorkerCalled whether sluice.initWorker() was called in this worker; without it, the worker receives no policies */
export function healthz({ requireSnapshot }: Settings, initWorkerCalled: boolean): void {
  const { revision } = currentState().position;
  const status = initWorkerCalled ? (hasSnapshot() ? "ok" : "no policies yet") : "sluice.initWorker() was not called";
  if (!initWorkerCalled || (requireSnapshot && !hasSnapshot())) ngx.status = unavailable;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.print(cjson.encode({ status, revision, connected: isConnected() }));
}

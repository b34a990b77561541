// GET /sluice/healthz: 200 while this nginx serves, with the revision that it decides by and whether the control plane
// is connected. A gateway without its control plane is healthy: it goes on limiting. One that never had any policies lets
// everything pass, and says so; where the operator requires a snapshot it is not healthy until it has one, and nowhere without
// the call that begins its workers.

import { cjson } from "../runtime/lua-modules.ts";
import type { Settings } from "../settings.ts";
import { currentSnapshot, hasSnapshot } from "../snapshot/current.ts";
import { isConnected } from "../snapshot/live-gateways.ts";

const unavailable = 503;

/** @param begun whether this worker was begun by sluice.initWorker(); without it, it is told of no policy */
export function healthz({ requireSnapshot }: Settings, begun: boolean): void {
  const { revision } = currentSnapshot();
  const status = begun ? (hasSnapshot() ? "ok" : "no policies yet") : "sluice.initWorker() was not called";
  if (!begun || (requireSnapshot && !hasSnapshot())) ngx.status = unavailable;
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.print(cjson.encode({ status, revision, connected: isConnected() }));
}

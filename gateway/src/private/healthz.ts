// GET /sluice/healthz: 200 while this nginx serves, with the revision that it decides by and whether the control plane
// is connected. A gateway without its control plane is healthy: it goes on limiting.

import { isConnected } from "../push/fleet.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { currentSnapshot } from "../snapshot/current.ts";

export function healthz(): void {
  const { revision } = currentSnapshot();
  ngx.header["Content-Type"] = "application/json";
  ngx.header["Cache-Control"] = "no-store";
  ngx.print(cjson.encode({ status: "ok", revision, connected: isConnected() }));
}

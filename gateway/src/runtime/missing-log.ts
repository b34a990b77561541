// A configuration that lacks `sluice.log()` looks well for a long time: what shows that the log phase of a request never ran
// is told, once an hour and nginx.

import { stateDict } from "./shared-memory.ts";

const toldKey = "told-missing-log";
const quietSeconds = 3600;

/** A request has ended and its log phase has not come by here. */
export function reportMissingLog(): void {
  if (stateDict.add(toldKey, true, quietSeconds)[0] !== true) return;
  ngx.log(
    ngx.ERR,
    "sluice: a request ended without sluice.log(): call it in a log_by_lua_block of every server, or of every location that ",
    "has one of its own, where requests come through sluice.access(). Without it, slots of concurrency come back late ",
    "and responses are not charged by their bytes",
  );
}

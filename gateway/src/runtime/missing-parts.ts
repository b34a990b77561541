// Parts of a configuration whose lack looks well for a long time: what shows that one is missing is told, once an hour and nginx.

import { stateDict } from "./shared-memory.ts";

const reportedKey = "told-missing:";
const quietSeconds = 3600;

/** A request has ended and its log phase has not come by here. */
export function reportMissingLog(): void {
  report(
    "log",
    "a request ended without sluice.log(): call it in a log_by_lua_block of every server, or of every location that has one of " +
      "its own, where requests come through sluice.access(). Without it, slots of concurrency come back late and responses " +
      "are not charged by their bytes",
  );
}

/** A worker is asked to decide, and nobody has begun it. */
export function reportMissingInitWorker(): void {
  report(
    "init-worker",
    "sluice.initWorker() was not called: call it in an init_worker_by_lua_block of the http block. Without it, no policy and no " +
      "change of one reaches this nginx",
  );
}

/** A policy of scope cluster is met, and there is no Redis. */
export function reportMissingRedis(): void {
  report(
    "redis",
    "a policy of scope cluster is met, and SLUICE_REDIS_URL is not set here: set it as at the control plane, and let nginx have it " +
      'by "env SLUICE_REDIS_URL;". Without it, such policies are decided by their onStoreFailure',
  );
}

/** A series of a policy finds no room. */
export function reportSmallMetrics(): void {
  report(
    "metrics-memory",
    "lua_shared_dict sluice_metrics is full: decisions of some policies are not in sluice_decisions_total, and are counted in " +
      "sluice_unlisted_decisions_total. Make it larger: 1 KB for each policy does",
  );
}

function report(what: string, sentence: string): void {
  if (stateDict.add(reportedKey + what, true, quietSeconds)[0] === true) ngx.log(ngx.ERR, "sluice: ", sentence);
}

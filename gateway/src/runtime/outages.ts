// Reports outages of services that nginx can do without for a while. If the log says that one is down, it also says when it is
// back. The lines are at the level that error_log has by default, so that operators see them. What all workers observe is
// reported once.

import { stateDict } from "./shared-memory.ts";

const outageKey = "outage:";

/** @param what the name of the service @param sentence what happened; reported once until the service is back */
export function noteOutage(what: string, sentence: string): void {
  if (stateDict.get(outageKey + what)[0] === sentence) return;
  stateDict.safe_set(outageKey + what, sentence);
  ngx.log(ngx.ERR, "sluice: ", what, ": ", sentence);
}

/** @param sentence logged only if an outage was reported before */
export function noteReturn(what: string, sentence: string): void {
  if (stateDict.get(outageKey + what)[0] === undefined) return;
  stateDict.delete(outageKey + what);
  ngx.log(ngx.ERR, "sluice: ", what, ": ", sentence);
}

// What nginx needs and may be without for a while: who was told in the log that it went is told when it is back. At the level
// that error_log has by default, which an operator reads; what all workers find is told once.

import { stateDict } from "./shared-memory.ts";

const outageKey = "outage:";

/** @param what names it @param sentence what happened: the same one is told once until it is back */
export function noteOutage(what: string, sentence: string): void {
  if (stateDict.get(outageKey + what)[0] === sentence) return;
  stateDict.set(outageKey + what, sentence);
  ngx.log(ngx.ERR, "sluice: ", what, ": ", sentence);
}

/** @param sentence is told where an outage was told before */
export function noteReturn(what: string, sentence: string): void {
  if (stateDict.get(outageKey + what)[0] === undefined) return;
  stateDict.delete(outageKey + what);
  ngx.log(ngx.ERR, "sluice: ", what, ": ", sentence);
}

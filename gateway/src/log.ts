// The log phase: what is worth telling the operator, told when the client has its answer already.

import type { CompiledPolicy } from "../../limiter/src/policy/compile.ts";

/** Requests of this worker that have something to report: while there are none, the log phase reads nothing. */
let reports = 0;

/** A shadow policy would have refused the current request. */
export function reportShadowRefusal({ app, policy }: CompiledPolicy): void {
  const names = ngx.ctx["sluiceShadow"] as string[] | undefined;
  const name = `${app}/${policy.name}`;
  if (names !== undefined) {
    names.push(name);
    return;
  }
  ngx.ctx["sluiceShadow"] = [name];
  reports += 1;
}

export function log(): void {
  if (reports === 0) return;
  const names = ngx.ctx["sluiceShadow"] as string[] | undefined;
  if (names === undefined) return;
  reports -= 1;
  ngx.log(ngx.NOTICE, "sluice: shadow policy would have refused: ", names.join(", "));
}

// The log phase: what the request held is given back, and what is worth telling the operator is told, when the client
// has its answer already.

import type { CompiledPolicy } from "../../limiter/src/policy/compile.ts";
import { forgetRedirect } from "./respond/over-limit.ts";
import { leavePlace } from "./respond/wait.ts";
import { releaseSlots } from "./stores/held-slots.ts";
import { settleResponse } from "./stores/settlements.ts";

/** How long a request may take and still be reported. */
const longestRequestSeconds = 3600;

/** Until then a request of this worker may have something to report: otherwise the log phase reads nothing. */
let reportsUntilSeconds = 0;
let reports = false;

/** A shadow policy would have refused the current request. */
export function reportShadowRefusal({ app, policy }: CompiledPolicy): void {
  const name = `${app}/${policy.name}`;
  const names = ngx.ctx["sluiceShadow"] as string[] | undefined;
  if (names !== undefined) names.push(name);
  else ngx.ctx["sluiceShadow"] = [name];
  reportsUntilSeconds = ngx.now() + longestRequestSeconds;
  reports = true;
}

export function log(): void {
  releaseSlots();
  settleResponse();
  leavePlace();
  forgetRedirect();
  if (!reports) return;
  reports = ngx.now() <= reportsUntilSeconds;
  const names = ngx.ctx["sluiceShadow"] as string[] | undefined;
  if (names === undefined) return;
  ngx.log(ngx.NOTICE, "sluice: shadow policy would have refused: ", names.join(", "));
}

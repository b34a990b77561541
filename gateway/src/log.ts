// The log phase: what the request held is given back, and what is worth telling the operator is told, when the client
// has its answer already.

import type { CompiledPolicy } from "../../limiter/src/policy/compile.ts";
import { forgetRedirect } from "./respond/over-limit.ts";
import { leavePlace } from "./respond/wait.ts";
import { requestAddress } from "./runtime/lua-modules.ts";
import { giveBackUndecided } from "./stores/charges.ts";
import { abandonAsked } from "./stores/group-commit.ts";
import { releaseSlots } from "./stores/held-slots.ts";
import { settleResponse } from "./stores/settlements.ts";

/** What is to be told of requests, by request: its address outlives internal redirects, where ngx.ctx does not. */
const refusedInShadow: Record<string, string[] | undefined> = {};
let reports = 0;

/** A shadow policy would have refused the current request. */
export function reportShadowRefusal({ app, policy }: CompiledPolicy): void {
  const name = `${app}/${policy.name}`;
  const request = requestAddress();
  const names = refusedInShadow[request];
  if (names !== undefined) {
    names.push(name);
    return;
  }
  refusedInShadow[request] = [name];
  reports += 1;
}

export function log(): void {
  releaseSlots();
  settleResponse();
  leavePlace();
  abandonAsked();
  giveBackUndecided();
  forgetRedirect();
  if (reports > 0) tellShadowRefusals();
}

function tellShadowRefusals(): void {
  const request = requestAddress();
  const names = refusedInShadow[request];
  if (names === undefined) return;
  refusedInShadow[request] = undefined;
  reports -= 1;
  ngx.log(ngx.NOTICE, "sluice: shadow policy would have refused: ", names.join(", "));
}

// The access phase, in the order of the flow: snapshot, match, key, decide, respond.

import { candidates, singleCandidate } from "../../limiter/src/index/policy-index.ts";
import { decideAll } from "./decide/decide-all.ts";
import { decideFast } from "./decide/fast-path.ts";
import { isBannedEverywhere } from "./request/applicability.ts";
import { beginExplanation, reportBan } from "./respond/explain.ts";
import { areLogged, logBan } from "./respond/log-variables.ts";
import { wasRedirected } from "./respond/over-limit.ts";
import { refuseBanned } from "./respond/refuse.ts";
import type { Settings } from "./settings.ts";
import { currentState } from "./snapshot/current.ts";

/** Decides the current request: lets it go on with headers, or answers it. */
export function access(settings: Settings): undefined {
  const { index, bannedEverywhere } = currentState();
  if (bannedEverywhere !== undefined && isBannedEverywhere(ngx.var["remote_addr"] ?? "")) {
    return refuseBannedAddress(settings);
  }
  const path = index.needsPath ? (ngx.var["uri"] ?? "") : "";
  const host = index.needsHost ? (ngx.var["host"] ?? "") : "";
  if (wasRedirected()) return;
  if (host !== "" && settings.debugSecret === undefined) {
    const single = singleCandidate(index, host, path);
    if (single !== undefined) return decideFast(settings, single);
  }
  const policies = index.needsHost || index.needsPath ? candidates(index, host, path) : index.everywhere;
  if (settings.debugSecret !== undefined) {
    const explanation = beginExplanation(settings.debugSecret);
    if (explanation !== undefined) return decideAll(settings, policies, path, explanation);
  }
  const policy = policies[0];
  if (policy === undefined) return;
  if (policy.policy.fastPath && policies[1] === undefined) return decideFast(settings, policy);
  return decideAll(settings, policies, path, undefined);
}

/** No policy has been met yet: what policies say does not matter. */
function refuseBannedAddress({ debugSecret }: Settings): undefined {
  if (debugSecret !== undefined && beginExplanation(debugSecret) !== undefined) reportBan("default");
  if (areLogged()) logBan();
  refuseBanned();
}

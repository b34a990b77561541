// The access phase, in the order of the flow: snapshot, match, key, decide, respond.

import type { CompiledPolicy } from "../../limiter/src/compiled/compile.ts";
import { candidates, type PolicyIndex, singleCandidate } from "../../limiter/src/index/policy-index.ts";
import { decideAll } from "./decide/decide-all.ts";
import { decideFast } from "./decide/fast-path.ts";
import { hasAmbiguousHost, hasAmbiguousPath } from "./request/ambiguous-target.ts";
import { isBannedEverywhere } from "./request/applicability.ts";
import { type DecidedBefore, decidedBefore, wasDecidedBy } from "./request/decided-before.ts";
import { beginExplanation, reportAmbiguous, reportBan } from "./respond/explain.ts";
import { areLogged, logAmbiguous, logBan } from "./respond/log-variables.ts";
import { refuseAmbiguous, refuseBanned } from "./respond/refuse.ts";
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
  const before = decidedBefore();
  if (before !== undefined) return decideRest(settings, host, path, before);
  if (index.guardsPaths && hasAmbiguousPath(index, host, path)) return refuseAsAmbiguous(settings, "path");
  if (index.guardsHosts && hasAmbiguousHost(host)) return refuseAsAmbiguous(settings, "host");
  if (host !== "" && settings.debugSecret === undefined) {
    const single = singleCandidate(index, host, path);
    if (single !== undefined) return decideFast(settings, single);
  }
  const policies = candidatesFor(index, host, path);
  if (settings.debugSecret !== undefined) {
    const explanation = beginExplanation(settings.debugSecret);
    if (explanation !== undefined) return decideAll(settings, policies, path, undefined, explanation);
  }
  const policy = policies[0];
  if (policy === undefined) return;
  if (policy.policy.fastPath && policies[1] === undefined) return decideFast(settings, policy);
  return decideAll(settings, policies, path, undefined, undefined);
}

function candidatesFor(index: PolicyIndex, host: string, path: string): readonly CompiledPolicy[] {
  return index.needsHost || index.needsPath ? candidates(index, host, path) : index.everywhere;
}

/** For a request that nginx has redirected here: each policy decides it once. */
function decideRest(settings: Settings, host: string, path: string, before: DecidedBefore): undefined {
  const policies = candidatesFor(currentState().index, host, path).filter((policy) => !wasDecidedBy(before, policy));
  if (policies.length > 0) decideAll(settings, policies, path, before, undefined);
}

/** No policy has been met yet: what policies say does not matter. */
function refuseBannedAddress({ debugSecret }: Settings): undefined {
  if (debugSecret !== undefined && beginExplanation(debugSecret) !== undefined) reportBan("default");
  if (areLogged()) logBan();
  refuseBanned();
}

/** It is not known which policies the service would have the request meet. */
function refuseAsAmbiguous({ debugSecret }: Settings, what: "path" | "host"): undefined {
  if (debugSecret !== undefined && beginExplanation(debugSecret) !== undefined) reportAmbiguous(what);
  if (areLogged()) logAmbiguous(what);
  refuseAmbiguous(what);
}

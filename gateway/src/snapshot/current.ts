// The snapshot that this worker decides by. It is replaced whole, between requests, never changed.

import { indexPolicies } from "../../../limiter/src/match/policy-index.ts";
import type { CompiledSnapshot } from "../../../limiter/src/policy/read-snapshot.ts";

const noPolicies: CompiledSnapshot = {
  epoch: "",
  revision: 0,
  proof: undefined,
  policies: [],
  policiesByName: {},
  index: indexPolicies([]),
  bans: [],
  bannedEverywhere: undefined,
  callers: [],
  source: undefined,
};

let current = noPolicies;
let takenAtSeconds = ngx.now();

export function currentSnapshot(): CompiledSnapshot {
  return current;
}

/** Whether there is one, of the control plane's or of the disk's; it may be empty. */
export function hasSnapshot(): boolean {
  return current !== noPolicies;
}

export function replaceSnapshot(snapshot: CompiledSnapshot): void {
  current = snapshot;
  takenAtSeconds = ngx.now();
}

/** How long this worker has been deciding by its snapshot. */
export function snapshotAgeSeconds(): number {
  return ngx.now() - takenAtSeconds;
}

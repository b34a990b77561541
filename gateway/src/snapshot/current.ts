// The snapshot that this worker decides by. It is replaced as a whole between requests, and never modified.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { indexPolicies } from "../../../limiter/src/index/policy-index.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/load-snapshot.ts";

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

const noPoliciesOfApp = emptyTable<CompiledPolicy>();
let current = noPolicies;
let takenAtSeconds = ngx.now();

export function currentSnapshot(): CompiledSnapshot {
  return current;
}

/** The policies of an app by name, regardless of who may use them. */
export function policiesOf(app: string): Readonly<Record<string, CompiledPolicy>> {
  return current.policiesByName[app] ?? noPoliciesOfApp;
}

/** Returns whether there is a snapshot, from the control plane or from disk; it may be empty. */
export function hasSnapshot(): boolean {
  return current !== noPolicies;
}

export function replaceSnapshot(snapshot: CompiledSnapshot): void {
  current = snapshot;
  takenAtSeconds = ngx.now();
}

/** How long this worker has been using its snapshot. */
export function snapshotAgeSeconds(): number {
  return ngx.now() - takenAtSeconds;
}

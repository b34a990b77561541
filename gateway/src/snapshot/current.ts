// The snapshot that this worker decides by. It is replaced whole, between requests, never changed.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { indexPolicies } from "../../../limiter/src/index/policy-index.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/read-snapshot.ts";

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

/** The policies of an app by name, whoever may use them. */
export function policiesOf(app: string): Readonly<Record<string, CompiledPolicy>> {
  return current.policiesByName[app] ?? noPoliciesOfApp;
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

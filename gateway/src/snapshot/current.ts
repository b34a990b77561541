// The policies that this worker decides by. A change comes into force between requests, as a whole (limiter/src/state).

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { emptyState, nowhere, type PolicyState } from "../../../limiter/src/state/policy-state.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { publishState } from "../runtime/worker-states.ts";

const noPoliciesOfApp = emptyTable<CompiledPolicy>();
let current = emptyState();

export function currentState(): PolicyState {
  return current;
}

/** The policies of an app by name, regardless of who may use them. Do not keep it: a later change may replace it. */
export function policiesOf(app: string): Readonly<Record<string, CompiledPolicy>> {
  return current.policiesByName[app] ?? noPoliciesOfApp;
}

/** Returns whether there is a snapshot, from the control plane or from disk; it may be empty. */
export function hasSnapshot(): boolean {
  return current.position !== nowhere;
}

/** For a state that was not made by changing the present one. */
export function replaceState(state: PolicyState): void {
  current = state;
}

/** Publishes what is in force now. Also called when a worker starts. */
export function noteChanged(): void {
  publishState("revision", current.position.revision);
  publishState("policies", current.policyCount);
  publishState("in-force-since", stopwatchSeconds());
}

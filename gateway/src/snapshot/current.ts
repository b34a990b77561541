// The policies that this worker decides by. A change comes into force between requests, as a whole (limiter/src/state).

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { emptyState, nowhere, type PolicyState } from "../../../limiter/src/state/policy-state.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";

const noPoliciesOfApp = emptyTable<CompiledPolicy>();
let current = emptyState();
let changedAtSeconds = stopwatchSeconds();

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

export function noteChanged(): void {
  changedAtSeconds = stopwatchSeconds();
}

/** How long this worker has been using the revision that it uses. */
export function snapshotAgeSeconds(): number {
  return stopwatchSeconds() - changedAtSeconds;
}

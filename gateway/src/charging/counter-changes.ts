// An operator changes a counter, here or in Redis: this nginx then drops what it keeps about it, which is out of date.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { stores } from "./stores.ts";

/**
 * Drops all that is kept about these counters: the cells that count on this node, also as a share while Redis is away, and what
 * workers remember of refusals by Redis, those of leases too.
 *
 * Called in the worker that owns the push socket, for the policy and for its override if the key has one. May yield.
 */
export function counterChanged(policy: CompiledPolicy, keyValues: string): void {
  stores.node.forget(policy, keyValues);
  stores.leased.forget(policy, keyValues);
  stores.exact.forget(policy, keyValues);
}

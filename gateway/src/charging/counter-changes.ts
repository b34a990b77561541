// What this nginx keeps of a counter that an operator has changed, here or in Redis, is no longer so.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { forgetLeaseRefusal } from "../stores/lease/leases.ts";
import { forgetOnNode } from "../stores/node/operator-changes.ts";
import { forgetRefusalsEverywhere } from "../stores/redis/refusal-cache.ts";

/**
 * Drops all that is kept of these counters: the cells that count on this node, also as a share while Redis is away, and what
 * workers remember of refusals by Redis, of leases too.
 *
 * Called in the worker that owns the push socket, for the policy and for its override where the key has one. May yield
 * where workers must agree.
 */
export function counterChanged(policy: CompiledPolicy, keyValues: string): void {
  forgetOnNode(policy, keyValues);
  forgetLeaseRefusal(policy, keyValues);
  forgetRefusalsEverywhere();
}

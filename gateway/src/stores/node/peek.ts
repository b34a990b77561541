// Looks at counters in this nginx's shared memory, and changes nothing.

import { admitsAll, describeCounter } from "../../../../limiter/src/algorithms/charge-all.ts";
import { emptyDecision } from "../../../../limiter/src/algorithms/decision.ts";
import { keepsEntries } from "../../../../limiter/src/algorithms/rate.ts";
import { beginShare, type LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { type MergedDecision, mergeLimit } from "../../../../limiter/src/compiled/merged-decision.ts";
import { nowUs } from "../../runtime/clock.ts";
import { cellRing, loadRing, newCellCounter } from "./counter-cells.ts";
import { acquireAll, loadPlaced, releaseAll } from "./counter-places.ts";
import { unpaidOnNode } from "./debts-on-node.ts";
import { lockOf, mustAgree } from "./node-counters.ts";

/** Work space: what is read here is written before anything yields. */
const counter = newCellCounter();
const counters = [counter];
const decision = emptyDecision();

/**
 * Returns whether a charge would be allowed now. May yield if workers must agree.
 *
 * @param limits of the policy, or a node's share of them
 * @param known what Redis last reported, from which a share begins; undefined: nothing, or these are the policy's own limits
 * @param merged receives every limit, with the units that are left now
 */
export function peekOnNode(
  policy: CompiledPolicy,
  limits: readonly CompiledLimit[],
  keyValues: string,
  known: LastKnown | undefined,
  merged: MergedDecision,
): boolean {
  const held = mustAgree() ? acquireAll(lockOf(policy, keyValues), policy, keyValues) : undefined;
  const now = nowUs();
  let allowed = true;
  for (const limit of limits) {
    const { rate, name } = limit;
    counter.rate = rate;
    counter.cost = policy.policy.cost;
    counter.stepped = false;
    loadPlaced(counter, limit, keyValues, now);
    if (keepsEntries(rate)) loadRing(counter);
    if (known !== undefined && (known.limits === undefined || known.limits.includes(name))) {
      beginShare(rate, counter, cellRing, known, now);
    }
    counter.unpaidUs = unpaidOnNode(counter, now, undefined);
    const own = admitsAll(counters, 1, cellRing, now);
    describeCounter(counter, cellRing, now, counter.cost, decision);
    mergeLimit(merged, policy, name, decision);
    if (!own) allowed = false;
  }
  if (held !== undefined) releaseAll(held);
  return allowed;
}

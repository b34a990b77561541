// Decides instead of the stores of a fleet while Redis does not: what is left of a lease is spent first; then the policy's
// onStoreFailure decides, with `local` by this node's share of the limits. The share begins where Redis left off, as far as this node
// knows. What goes on is owed to Redis, and charged there when it answers again.

import type { LastKnown } from "../../../../limiter/src/algorithms/share.ts";
import type { CompiledLimit } from "../../../../limiter/src/compiled/compile.ts";
import type { MergedDecision } from "../../../../limiter/src/compiled/merged-decision.ts";
import { configuredRedis } from "../../redis/redis-settings.ts";
import { lastKnownOfLease } from "../lease/leases.ts";
import { spendUnspent } from "../lease/spend.ts";
import { chargeDeferredOnNode } from "../node/deferred-charge.ts";
import { beginShareOnNode } from "../node/node-counters.ts";
import { admitOnNode, nodeStore } from "../node/node-store.ts";
import { peekOnNode } from "../node/peek.ts";
import { noteUncharged, owe, oweForGood } from "../redis/debts.ts";
import { lastRefusal } from "../redis/refusal-cache.ts";
import { firstKey } from "../redis/slot-groups.ts";
import type { Check, DeferredCharge, Outcome, Store } from "../store.ts";
import { nodeShare } from "./node-share.ts";

export const shareStore: Store = { ...nodeStore, admit, peek, report };

/** Sets the outcome's denial if the policy denies while Redis does not decide. */
function admit(this: void, check: Check, outcome: Outcome): boolean {
  if (admitWithout(check, outcome)) return true;
  const { policy } = check;
  if (policy.policy.onStoreFailure === "deny") outcome.denial = { policy, reason: "undecided" };
  return false;
}

function admitWithout(check: Check, outcome: Outcome): boolean {
  const { policy, keyValues, chargedAt, charged } = check;
  const { onStoreFailure } = policy.policy;
  const redis = configuredRedis();
  if (policy.policy.store === "leased" && redis !== undefined && spendUnspent(check, outcome)) return true;
  if (onStoreFailure === "deny") return false;
  let limits: readonly CompiledLimit[] = [];
  if (onStoreFailure === "local") {
    limits = nodeShare(policy);
    const known = redis === undefined ? undefined : lastKnown(check);
    if (known !== undefined) beginShareOnNode(policy, limits, keyValues, known);
    if (!admitOnNode(check, limits, check.merged ?? outcome.merged)) return false;
  }
  // A request that goes on without Redis holds no slots there.
  if (charged !== undefined && !policy.policy.holdsSlots) {
    charged.wentOn = true;
    outcome.charges.push({ policy, limits, keyValues, chargedAt, store: "share" }, charged.charge);
    return true;
  }
  const owed = redis === undefined ? undefined : { policy, keyValues, unanswered: check.unanswered };
  outcome.charges.push({ policy, limits, keyValues, chargedAt, store: "share", owed });
  return true;
}

function peek(this: void, check: Check, merged: MergedDecision): boolean {
  const { policy, keyValues } = check;
  const { onStoreFailure } = policy.policy;
  if (onStoreFailure !== "local") return onStoreFailure === "allow";
  const known = configuredRedis() === undefined ? undefined : lastKnown(check);
  return peekOnNode(policy, nodeShare(policy), keyValues, known, merged);
}

/** What Redis does not say that it has charged: charged to the share with `local`, and owed to Redis unless the policy denies. */
function report(this: void, check: Check, units: number, merged: MergedDecision): number | undefined {
  const { policy, keyValues, unanswered } = check;
  const { onStoreFailure } = policy.policy;
  if (onStoreFailure === "deny") return undefined;
  if (configuredRedis() !== undefined) {
    oweForGood({ policy, keyValues, reported: units, unanswered });
    if (policy.policy.deferred) noteUncharged(policy, keyValues);
  }
  if (onStoreFailure === "allow") return 0;
  const limits = nodeShare(policy);
  const known = configuredRedis() === undefined ? undefined : lastKnown(check);
  if (known !== undefined) beginShareOnNode(policy, limits, keyValues, known);
  return chargeDeferredOnNode(policy, limits, keyValues, units, merged);
}

function lastKnown(check: Check): LastKnown | undefined {
  return check.policy.policy.store === "leased" ? lastKnownOfLease(check) : lastRefusal(check.policy, firstKey(check));
}

/** Charges the share with what Redis refused to be charged for responses: the share decides until Redis has been charged. */
export function chargeShareInstead(this: void, { policy, keyValues, units }: DeferredCharge): void {
  owe(policy, keyValues, units, true);
  noteUncharged(policy, keyValues);
  if (policy.policy.onStoreFailure !== "local") return;
  chargeDeferredOnNode(policy, nodeShare(policy), keyValues, units, undefined);
}

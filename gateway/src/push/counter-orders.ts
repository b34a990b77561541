// An operator's orders about one counter, executed on this nginx: it is read, forgotten or topped up.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { policyInPlan } from "../../../limiter/src/compiled/compile.ts";
import { encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import type { ControlMessage, CounterReading, GatewayMessage } from "../../../limiter/src/protocol/push-messages.ts";
import { policyNamed } from "../../../limiter/src/state/policy-state.ts";
import { counterChanged } from "../charging/counter-changes.ts";
import { limitsFor } from "../request/applicability.ts";
import { sha1Hex } from "../request/key-values.ts";
import { noteDefect } from "../runtime/defects.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { currentState } from "../snapshot/current.ts";
import { readOnNode, topUpOnNode } from "../stores/node/operator-changes.ts";

export type CounterMessage = Extract<ControlMessage, { type: "counter" }>;

/** In Lua, what is absent cannot be iterated over. */
const noPlans: Readonly<Record<string, never>> = emptyTable();
const actions = ["read", "forget", "top-up"];

/** Returns whether the message is an order as control planes write it. @param message of type counter, as decoded from JSON */
export function isCounterOrder(message: unknown): message is CounterMessage {
  const { id, do: action, app, policy, key, plan, limit, units } = message as Record<string, unknown>;
  if (!isWhole(id) || !isText(action) || !actions.includes(action) || !isText(app) || !isText(policy)) return false;
  if (typeof key !== "object" || !(key as unknown[]).every((value) => isText(value))) return false;
  if (limit !== undefined && !isText(limit)) return false;
  if (plan !== undefined && !isText(plan)) return false;
  // Earlier control planes send units with each order about a change; only a top-up uses them.
  return units === undefined ? action !== "top-up" : isWhole(units) && units > 0;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** Rejects NaN and the infinities. */
function isWhole(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 9007199254740991 && value % 1 === 0;
}

/** @returns the answer. May yield if workers must agree. */
export function obey({ id, do: what, app, policy: name, key, plan, limit, units }: CounterMessage): GatewayMessage {
  const policy = policyNamed(currentState(), app, name);
  // If the policy was just edited, its key may differ from the one that the control plane used.
  if (policy === undefined || policy.policy.key.length !== key.length) return { type: "counter", id };
  const keyValues = encodeKeyValues(key, key.length, sha1Hex);
  const applied = limitsFor(policy, key, plan);
  if (what === "forget") {
    counterChanged(policy, keyValues);
    if (applied !== policy) counterChanged(applied, keyValues);
    // Nobody knows what the key has used under which of its plans.
    for (const other in policy.plans?.policies ?? noPlans) {
      counterChanged(policyInPlan(policy, other), keyValues);
    }
  } else if (what === "top-up") {
    topUpOnNode(applied, keyValues, limit, units ?? 0);
  }
  const limits = readOnNode(applied, keyValues);
  if (limits.every((limit) => isReading(limit))) return { type: "counter", id, limits };
  // The control plane would end the connection of a gateway that says what cannot be.
  noteDefect("push", "a counter was read, and its numbers cannot be", `${app}/${name}: ${cjson.encode(limits)}`);
  return { type: "counter", id };
}

function isReading({ capacity, remaining, resetAfterUs }: CounterReading): boolean {
  return isWhole(capacity) && isWhole(remaining) && isWhole(resetAfterUs);
}

// How a policy applies to the requests of one key: what gateway/src/request/applicability.ts finds out for every request. Which requests a
// policy matches by host, path, method and headers is not asked: the traffic is what meets the policy.

import {
  type CompiledPolicy,
  isExemptAddress,
  isExemptKey,
  overrideFor,
  planOfKey,
  policyInPlan,
} from "../../../limiter/src/compiled/compile.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import type { TrafficKey } from "./traffic.ts";

/** ignored: the policy does not count these requests. denied: their key lacks a value, and the policy refuses that. */
export type AppliedPolicy = "ignored" | "denied" | { readonly policy: CompiledPolicy; readonly counter: string };

/** Schedules are left out here: they depend on the time of the request. */
export function appliedTo(policy: CompiledPolicy, trafficKey: TrafficKey): AppliedPolicy {
  const { mode, key, onMissingKey } = policy.policy;
  if (mode === "off") return "ignored";
  const address = trafficKey.address ?? addressIn(key, trafficKey.values);
  if (address !== undefined && isExemptAddress(policy, address)) return "ignored";
  const values = key.map((part, i) => readValue(part, trafficKey.values[i] ?? ""));
  if (onMissingKey !== "shared" && values.includes("")) {
    return onMissingKey === "deny" && mode === "enforce" ? "denied" : "ignored";
  }
  if (isExemptKey(policy, values)) return "ignored";
  // Of a plan that is not part of the key, the traffic says nothing: the default plan is played.
  const applied = overrideFor(policy, values) ?? policyInPlan(policy, planOfKey(policy, values));
  return applied.policy.mode === "off" ? "ignored" : { policy: applied, counter: JSON.stringify(values) };
}

function addressIn(key: readonly KeyPart[], values: readonly string[]): string | undefined {
  const place = key.findIndex(({ source }) => source === "ip");
  return place < 0 ? undefined : values[place];
}

function readValue(part: KeyPart, value: string): string {
  if (part.source === "const") return part.name;
  return part.source === "ip" && value !== "" ? ipPrefix(value, part.v4Bits, part.v6Bits) : value;
}

// Finds the counters that an operator's query means: the policy as gateways hold it, and the key values as gateways would
// read them from a request.

import { createHash } from "node:crypto";
import {
  type CompiledPolicy,
  compilePolicy,
  hasPlan,
  overrideFor,
  planOfKey,
  policyInPlan,
} from "@sluice/limiter/compiled/compile.ts";
import { policyOfConsumer } from "@sluice/limiter/compiled/consumer-limits.ts";
import { encodeKeyValues } from "@sluice/limiter/compiled/counter-key.ts";
import type { Policy } from "@sluice/limiter/document/policy.ts";
import { describeValue, type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { addressGroups, ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { parseKeyPart } from "@sluice/limiter/key/key-part.ts";
import { refuseProblems } from "../schemas/read-body.ts";
import { resolveTemplates, type Templates } from "../templates/resolve-templates.ts";
import { canonicalZones, withZones } from "../zones/policy-zones.ts";

/** Of a consumer. */
interface Terms {
  readonly plan: string;
  /** Its own limits, as JSON: lists of limits by the name of the policy. Null: none. */
  readonly overrides: string | null;
}

export interface AskedCounter {
  /**
   * The policy that applies to the key: the policy itself, one of its plans, with the limits that a consumer has of its own, or the
   * override that matches its values.
   */
  readonly policy: CompiledPolicy;
  /** All policies that may have counters of the key: that one, the policy itself, and its plans. */
  readonly policies: readonly CompiledPolicy[];
  /** Key values in the order of the key's parts. */
  readonly values: readonly string[];
  /** The same values, encoded as in the counter's key. */
  readonly keyValues: string;
}

/**
 * @param document as it was put
 * @param key one value for each part of the policy's key, as a request would have it
 * @param literal whether a * at the end of a value is part of the value. In other places it stands for any value: a caller
 * who does not set this may mean that, and would get the counter of a key that nobody has
 * @param plan the plan whose limits are meant; undefined: the one that the key or the consumer has, or the default plan
 * @param consumer whom the key names; undefined: nobody that is known, or the policy does not ask for consumers
 * @throws ApiError invalid-request with the problems of the key and the plan
 */
export function askedCounter(
  app: string,
  document: unknown,
  templates: Templates,
  key: readonly string[],
  literal: boolean,
  plan: string | undefined,
  consumer: Terms | undefined,
): AskedCounter {
  const resolved = JSON.stringify(resolveTemplates(document, templates).document);
  const { sent, zones } = withZones(resolved, Math.floor(Date.now() / 1000));
  const { policy } = validatePolicy(JSON.parse(sent));
  if (policy === undefined) throw new Error("a stored policy is none");
  const values = readValues(policy, (document as { key?: readonly string[] }).key ?? [], key, literal);
  // The schedule is left out: a policy uses the same counters whether its schedule is on or off.
  const transitions = Object.fromEntries(zones.map((zone) => [zone.name, zone.transitions]));
  const compiled = compilePolicy(app, { ...policy, schedule: undefined }, transitions);
  refuseUnknownPlan(compiled, plan);
  const applied = overrideFor(compiled, values) ?? policyOfClient(compiled, values, plan, consumer);
  return {
    policy: applied,
    policies: [compiled, ...Object.values(compiled.plans?.policies ?? {}), applied],
    values,
    keyValues: encodeKeyValues(values, values.length, sha1Hex),
  };
}

/** Returns the policy as gateways apply it to a client without an override. */
function policyOfClient(
  policy: CompiledPolicy,
  values: readonly string[],
  plan: string | undefined,
  consumer: Terms | undefined,
): CompiledPolicy {
  if (plan !== undefined || consumer === undefined) return policyInPlan(policy, plan ?? planOfKey(policy, values));
  const inPlan = policyInPlan(policy, consumer.plan);
  if (consumer.overrides === null) return inPlan;
  const overrides = canonicalZones(consumer.overrides);
  return policyOfConsumer(policy, inPlan, JSON.parse(overrides), overrides);
}

function refuseUnknownPlan(policy: CompiledPolicy, plan: string | undefined): void {
  if (plan === undefined || hasPlan(policy, plan)) return;
  const expected =
    policy.plans === undefined
      ? "nothing: the policy has no plans"
      : `one of the policy's plans: ${[policy.plans.default, ...Object.keys(policy.plans.policies)].join(", ")}`;
  refuseProblems([{ path: "plan", expected, got: describeValue(plan) }]);
}

const oneAddress = "one IP address: neither a network nor *, which stands for no other values here";

/** @param written the policy's key as the document has it */
function readValues(policy: Policy, written: readonly string[], key: readonly string[], literal: boolean): string[] {
  if (key.length !== policy.key.length) {
    const expected = `${countOf(policy.key)}, for the policy's key [${written.join(", ")}]`;
    refuseProblems([{ path: "key", expected, got: countOf(key) }]);
  }
  const problems: Problem[] = [];
  const values = key.map((value, i) => {
    const refuse = (expected: string) => {
      problems.push({ path: `key[${i}]`, expected, got: describeValue(value) });
      return value;
    };
    const part = parseKeyPart(written[i] as string);
    if (value === "" && policy.onMissingKey !== "shared") return refuse("a value: without one nothing is counted");
    if (value === "") return value;
    if (part?.source === "const") return value === part.name ? value : refuse(describeValue(part.name));
    if (part?.source === "ip") {
      return addressGroups(value) === undefined ? refuse(oneAddress) : ipPrefix(value, part.v4Bits, part.v6Bits);
    }
    if (!value.endsWith("*") || literal) return value;
    return refuse("a value of one key: * stands for no other values here, and for itself with ?literal=true");
  });
  refuseProblems(problems);
  return values;
}

function countOf(values: readonly unknown[]): string {
  return values.length === 1 ? "1 value" : `${values.length} values`;
}

function sha1Hex(text: string): string {
  return createHash("sha1").update(text, "utf8").digest("hex");
}

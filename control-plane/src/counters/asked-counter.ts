// From what an operator wrote to the counters that are meant: the policy as gateways hold it, and the key values as they
// would have read them from a request.

import { createHash } from "node:crypto";
import { type CompiledPolicy, compilePolicy, overrideFor } from "@sluice/limiter/compiled/compile.ts";
import { encodeKeyValues } from "@sluice/limiter/compiled/counter-key.ts";
import type { Policy } from "@sluice/limiter/document/policy.ts";
import { describeValue, type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import { addressGroups, ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { parseKeyPart } from "@sluice/limiter/key/key-part.ts";
import { resolveTemplates, type Templates } from "../policies/resolve-templates.ts";
import { refuseProblems } from "../schemas/read-body.ts";

export interface AskedCounter {
  /** What holds for the key: the policy, or the override that its values match. */
  readonly policy: CompiledPolicy;
  /** All whose counters the key may have: the policy, and the override. */
  readonly policies: readonly CompiledPolicy[];
  /** In the key's order. */
  readonly values: readonly string[];
  /** The same as the counter's key has them. */
  readonly keyValues: string;
}

/**
 * @param document as it was put
 * @param key a value for each part of the policy's key, as a request would have it
 * @param literal whether a * at the end of a value is the value's own. Elsewhere it stands for any: who does not say so
 *   may mean that, and would be told of a key that nobody has
 * @throws ApiError invalid-request with what is wrong with the key
 */
export function askedCounter(
  app: string,
  document: unknown,
  templates: Templates,
  key: readonly string[],
  literal: boolean,
): AskedCounter {
  const { policy } = validatePolicy(resolveTemplates(document, templates).document);
  if (policy === undefined) throw new Error("a stored policy is none");
  const values = readValues(policy, (document as { key?: readonly string[] }).key ?? [], key, literal);
  // Off or on by its schedule, it counts in the same counters.
  const compiled = compilePolicy(app, { ...policy, schedule: undefined });
  const override = overrideFor(compiled, values);
  return {
    policy: override ?? compiled,
    policies: override === undefined ? [compiled] : [compiled, override],
    values,
    keyValues: encodeKeyValues(values, values.length, sha1Hex),
  };
}

const oneAddress = "one IP address: neither a network nor *, which stands for no other values here";

/** @param written the policy's key, as the document has it */
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

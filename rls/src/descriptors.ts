// Translates a descriptor of Envoy into a check of Sluice: which policy is asked, by which key, for how many units. The operator's map has
// the first word; without a rule of it, the names in the descriptor say it. docs/envoy.md explains the rule to operators.

import type { DescriptorMap } from "./descriptor-map.ts";
import { InvalidRequest } from "./invalid-request.ts";
import { fitting } from "./key-values.ts";
import { isPolicyReference, policyNameOf } from "./policy-names.ts";
import type { Descriptor, Entry, RateLimitRequest } from "./protocol.ts";

/** One check for the gateway. */
export interface Question {
  readonly policy: string;
  readonly key: readonly string[];
  /** Undefined: the policy's own. */
  readonly cost: number | undefined;
  /** Whether it only looks, and charges nothing. */
  readonly isPeek: boolean;
}

/** A first entry of this name says which policy is meant, and is no part of the key. */
const namingKeys = ["generic_key", "sluice_policy"];
const mostDescriptors = 100;
const mostEntries = 100;
/** No policy has more parts of a key. */
const mostKeyValues = 8;
const mostUnits = 2147483648;

/**
 * @returns for each descriptor what to ask; undefined: it names nothing that could be a policy
 * @throws InvalidRequest if there is something in it that Sluice would have to ignore, or that Envoy never sends
 */
export function questionsOf(request: RateLimitRequest, map: DescriptorMap | undefined): (Question | undefined)[] {
  const { domain, descriptors, hitsAddend } = request;
  if (domain === "") throw new InvalidRequest("domain", "the name of a domain", "an empty text");
  if (descriptors.length === 0 || descriptors.length > mostDescriptors) {
    throw new InvalidRequest("descriptors", `1 to ${mostDescriptors} of them`, `${descriptors.length}`);
  }
  return descriptors.map((descriptor, i) => {
    const units = unitsOf(descriptor, hitsAddend, `descriptors[${i}]`);
    const target = targetOf(domain, descriptor, `descriptors[${i}]`, map);
    if (target === undefined) return undefined;
    if (target.key.length > mostKeyValues) {
      const expected = `at most ${mostKeyValues} values for the key of policy ${target.policy}`;
      throw new InvalidRequest(`descriptors[${i}].entries`, expected, `${target.key.length}`);
    }
    return { ...target, key: fitting(target.key), ...units };
  });
}

type Target = Pick<Question, "policy" | "key">;

function targetOf(
  domain: string,
  { entries, limit, isNegativeHits }: Descriptor,
  path: string,
  map: DescriptorMap | undefined,
): Target | undefined {
  if (entries.length === 0 || entries.length > mostEntries) {
    throw new InvalidRequest(`${path}.entries`, `1 to ${mostEntries} of them`, `${entries.length}`);
  }
  // To ignore these would count by another limit than Envoy was told to use, or charge what was to be refunded.
  if (limit !== null) throw new InvalidRequest(`${path}.limit`, "none: the policy has the limit", "an override");
  if (isNegativeHits) throw new InvalidRequest(`${path}.is_negative_hits`, "false: nothing is refunded", "true");
  const mapped = map?.targetOf(domain, entries);
  if (mapped !== undefined) return mapped;
  return map?.hasDefaultRule === false ? undefined : defaultTargetOf(domain, entries);
}

function defaultTargetOf(domain: string, entries: readonly Entry[]): Target | undefined {
  const [first, ...others] = entries as readonly [Entry, ...Entry[]];
  const isNamed = namingKeys.includes(first.key);
  const policy = isNamed ? first.value : policyNameOf([domain, ...entries.map(({ key }) => key)]);
  if (policy === undefined || !isPolicyReference(policy)) return undefined;
  return { policy, key: (isNamed ? others : entries).map(({ value }) => value) };
}

/** A descriptor's own number replaces that of the request. In the request, 0 means that none was said. */
function unitsOf({ hitsAddend }: Descriptor, ofRequest: number, path: string): Pick<Question, "cost" | "isPeek"> {
  const units = hitsAddend?.value ?? (ofRequest === 0 ? undefined : ofRequest);
  if (units === undefined) return { cost: undefined, isPeek: false };
  if (units > mostUnits) {
    const field = hitsAddend === null ? "hits_addend" : `${path}.hits_addend`;
    throw new InvalidRequest(field, `at most ${mostUnits}`, `${units}`);
  }
  return units === 0 ? { cost: undefined, isPeek: true } : { cost: units, isPeek: false };
}

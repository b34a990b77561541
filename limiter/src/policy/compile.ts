// From a validated policy to what a request needs of it, so that nothing is parsed, joined or looked up twice.

import { type Rate, rateOf } from "../algorithms/rate.ts";
import { counterPrefix, counterSuffix } from "../key/counter-key.ts";
import { type PathPattern, pathPattern } from "../match/path-pattern.ts";
import { rateLimitPolicyItem } from "../response-headers.ts";
import type { Policy } from "./policy.ts";
import { emptyTable } from "./table.ts";

export interface CompiledPolicy {
  readonly app: string;
  readonly policy: Policy;
  readonly limits: readonly CompiledLimit[];
  readonly counterPrefix: string;
  /** Whether a limit is of concurrency: what it charges is given back when the request ends. */
  readonly holdsSlots: boolean;
  /** Value of the `RateLimit-Policy` header. */
  readonly policyHeader: string;
  /** Empty: every path. */
  readonly paths: readonly PathPattern[];
  /** Undefined: every method. */
  readonly methods: Readonly<Record<string, boolean>> | undefined;
  readonly byCost: CostMemory;
}

/** The same policy at other costs: for `atCost` alone. */
export interface CostMemory {
  count: number;
  readonly policies: Record<number, CompiledPolicy>;
}

export interface CompiledLimit {
  readonly name: string;
  readonly rate: Rate;
  readonly counterSuffix: string;
  /** Names the counters of the limit among those of all limits: the prefix and the suffix of their keys. */
  readonly counterFamily: string;
  /** What a store's own keys of these counters begin with: the store's to set, once. */
  cellPrefix?: string;
}

export function compilePolicy(app: string, policy: Policy): CompiledPolicy {
  const prefix = counterPrefix(app, policy.name);
  const limits: CompiledLimit[] = [];
  const items: string[] = [];
  for (const limit of policy.limits) {
    const rate = rateOf(limit);
    const suffix = counterSuffix(limit);
    limits.push({ name: limit.name, rate, counterSuffix: suffix, counterFamily: prefix + suffix });
    items.push(rateLimitPolicyItem(limit.name, rate));
  }
  const paths: PathPattern[] = [];
  for (const path of policy.match.paths) paths.push(pathPattern(path));
  let methods: Record<string, boolean> | undefined;
  if (policy.match.methods.length > 0) {
    methods = emptyTable<boolean>();
    for (const method of policy.match.methods) methods[method] = true;
  }
  return {
    app,
    policy,
    limits,
    counterPrefix: prefix,
    holdsSlots: policy.limits.some(({ algorithm }) => algorithm === "concurrency"),
    policyHeader: items.join(", "),
    paths,
    methods,
    byCost: { count: 0, policies: emptyTable() },
  };
}

/** How many costs of one policy are remembered: more than honest clients state, fewer than a hostile one can. */
const mostCostsRemembered = 256;

/**
 * The policy for a request of this cost, to be decided and given back as it is: `policy.cost` is what the request
 * stated. Of one limit list, so that stores know the counters again.
 *
 * @param cost what `costFrom` said
 */
export function atCost(policy: CompiledPolicy, cost: number): CompiledPolicy {
  if (cost === policy.policy.cost) return policy;
  const { byCost } = policy;
  const known = byCost.policies[cost];
  if (known !== undefined) return known;
  const priced = { ...policy, policy: { ...policy.policy, cost } };
  if (byCost.count < mostCostsRemembered) {
    byCost.policies[cost] = priced;
    byCost.count += 1;
  }
  return priced;
}

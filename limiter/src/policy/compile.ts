// From a validated policy to what a request needs of it, so that nothing is parsed, joined or looked up twice.

import { type Rate, rateOf } from "../algorithms/rate.ts";
import { counterPrefix, counterSuffix } from "../key/counter-key.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns } from "../key/key-patterns.ts";
import { isWithin, type Networks, networksOf } from "../key/networks.ts";
import { type PathPattern, pathPattern } from "../match/path-pattern.ts";
import { rateLimitPolicyItem } from "../response-headers.ts";
import type { Exempt, Limit, Override, Policy } from "./policy.ts";
import { type CompiledSchedule, compileSchedule, type Schedule, type Zones, type ZoneTransition } from "./schedule.ts";
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
  /** Undefined: none. */
  readonly overrides: CompiledOverrides | undefined;
  /** Undefined: nobody. */
  readonly exempt: CompiledExempt | undefined;
  /** Undefined: always on. */
  readonly schedule: CompiledSchedule | undefined;
}

export interface CompiledExempt {
  readonly networks: Networks;
  readonly patterns: KeyPatterns;
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

/** The same policy for particular key values. */
export interface CompiledOverrides {
  readonly patterns: KeyPatterns;
  readonly policies: readonly CompiledPolicy[];
}

/** @param zones has the one of the policy's schedule */
export function compilePolicy(app: string, policy: Policy, zones: Zones = {}): CompiledPolicy {
  const prefix = counterPrefix(app, policy.name);
  const limits = policy.limits.map((limit) => compileLimit(limit, prefix));
  const paths: PathPattern[] = [];
  for (const path of policy.match.paths) paths.push(pathPattern(path));
  let methods: Record<string, boolean> | undefined;
  if (policy.match.methods.length > 0) {
    methods = emptyTable<boolean>();
    for (const method of policy.match.methods) methods[method] = true;
  }
  const compiled: CompiledPolicy = {
    app,
    policy,
    limits,
    counterPrefix: prefix,
    holdsSlots: policy.limits.some(({ algorithm }) => algorithm === "concurrency"),
    policyHeader: policyHeaderOf(limits),
    paths,
    methods,
    byCost: noCosts(),
    overrides: undefined,
    exempt: policy.exempt === undefined ? undefined : compileExempt(policy.key, policy.exempt),
    schedule: policy.schedule === undefined ? undefined : compileScheduleIn(zones, policy.schedule),
  };
  return policy.overrides === undefined
    ? compiled
    : { ...compiled, overrides: compileOverrides(compiled, policy.overrides) };
}

/**
 * The policy as it is for these key values where an override matches them: its limits, and `policy.mode`. Undefined:
 * the policy itself holds.
 *
 * @param values in the key's order, not encoded; an absent one is ""
 */
export function overrideFor(policy: CompiledPolicy, values: readonly string[]): CompiledPolicy | undefined {
  if (policy.overrides === undefined) return undefined;
  const { patterns, policies } = policy.overrides;
  const place = firstMatch(patterns, values);
  return place === undefined ? undefined : policies[place];
}

/** Whether the policy leaves this client's requests alone, whatever else they say. @param address $remote_addr */
export function isExemptAddress({ exempt }: CompiledPolicy, address: string): boolean {
  return exempt !== undefined && isWithin(exempt.networks, address);
}

/** Whether it leaves requests with these key values alone. @param values in the key's order, not encoded */
export function isExemptKey({ exempt }: CompiledPolicy, values: readonly string[]): boolean {
  return exempt !== undefined && firstMatch(exempt.patterns, values) !== undefined;
}

function compileExempt(key: Policy["key"], { cidrs, keys }: Exempt): CompiledExempt {
  return { networks: networksOf(cidrs), patterns: indexKeyPatterns(key, keys) };
}

function compileScheduleIn(zones: Zones, schedule: Schedule): CompiledSchedule {
  return compileSchedule(schedule, zones[schedule.timezone] as readonly ZoneTransition[]);
}

function compileLimit(limit: Limit, prefix: string): CompiledLimit {
  const suffix = counterSuffix(limit);
  return { name: limit.name, rate: rateOf(limit), counterSuffix: suffix, counterFamily: prefix + suffix };
}

function compileOverrides(compiled: CompiledPolicy, overrides: readonly Override[]): CompiledOverrides {
  const { policy, counterPrefix: prefix } = compiled;
  const keys: (readonly string[])[] = [];
  const policies: CompiledPolicy[] = [];
  for (const { key, mode, limits } of overrides) {
    keys.push(key);
    // A limit that stays as it is stays the same one, which stores have made ready once.
    const own = limits.map((limit, i) =>
      limit === policy.limits[i] ? (compiled.limits[i] as CompiledLimit) : compileLimit(limit, prefix),
    );
    policies.push({
      ...compiled,
      policy: { ...policy, mode, limits, overrides: undefined },
      limits: own,
      policyHeader: policyHeaderOf(own),
      byCost: noCosts(),
    });
  }
  return { patterns: indexKeyPatterns(policy.key, keys), policies };
}

function policyHeaderOf(limits: readonly CompiledLimit[]): string {
  return limits.map(({ name, rate }) => rateLimitPolicyItem(name, rate)).join(", ");
}

function noCosts(): CostMemory {
  return { count: 0, policies: emptyTable() };
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

// Compiles a validated policy into what a request needs of it, so that nothing is parsed, joined or looked up twice.

import type { Limit } from "../algorithms/limit.ts";
import { type Rate, rateOf } from "../algorithms/rate.ts";
import { shared, sharing } from "../basics/sharing.ts";
import { emptyTable } from "../basics/table.ts";
import type { Exempt, Override, Policy } from "../document/policy.ts";
import {
  type CompiledSchedule,
  compileSchedule,
  type Schedule,
  type Zones,
  type ZoneTransition,
} from "../document/schedule.ts";
import { rateLimitPolicyItem } from "../header-values.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns } from "../key/key-patterns.ts";
import { isWithin, type Networks, networksOf } from "../key/networks.ts";
import { leaseParameters } from "../lease/holder.ts";
import { isLeasable } from "../lease/ledger.ts";
import { type PathTest, pathTest } from "../match/path-pattern.ts";
import type { PolicyBans } from "./bans.ts";
import { counterPrefix, counterSuffix } from "./counter-key.ts";

/** It never changes. What a part of the gateway keeps beside it is in a weak table of that part. */
export interface CompiledPolicy {
  readonly app: string;
  readonly policy: Policy;
  readonly limits: readonly CompiledLimit[];
  readonly counterPrefix: string;
  /** True if a limit is of concurrency: its charge is refunded when the request ends. */
  readonly holdsSlots: boolean;
  /** True if requests cost what their responses take. They are charged when the responses have been sent, and not before. */
  readonly deferred: boolean;
  /** Where its counters are. */
  readonly store: StoreName;
  /** The value of the `RateLimit-Policy` header. */
  readonly policyHeader: string;
  /** False: every candidate request meets the policy. */
  readonly conditional: boolean;
  /** Undefined: every path for which the policy is a candidate. */
  readonly paths: PathTest | undefined;
  /** Undefined: every method. */
  readonly methods: Readonly<Record<string, boolean>> | undefined;
  /** A request must have all of these headers, each with one of its values. */
  readonly headers: readonly CompiledHeader[];
  /** True if the policy is enforced, by rejection, for every candidate: it is decided without further checks. */
  readonly fastPath: boolean;
  /** Undefined: none. */
  readonly overrides: CompiledOverrides | undefined;
  /** Undefined: none. */
  readonly bans: PolicyBans | undefined;
  /** Undefined: nobody. */
  readonly exempt: CompiledExempt | undefined;
  /** Undefined: always on. */
  readonly schedule: CompiledSchedule | undefined;
}

/** node: on each gateway. exact: in Redis. leased: in Redis, which debits units in advance that gateways then spend. */
export type StoreName = "node" | "exact" | "leased";

export interface CompiledExempt {
  readonly networks: Networks;
  readonly patterns: KeyPatterns;
}

export interface CompiledHeader {
  /** In lower case. */
  readonly name: string;
  readonly values: Readonly<Record<string, boolean>>;
}

export interface CompiledLimit {
  readonly name: string;
  readonly rate: Rate;
  readonly counterSuffix: string;
  /** The prefix and the suffix of the counters' keys. They tell this limit's counters from those of all other limits. */
  readonly counterFamily: string;
  /**
   * For an override's own limits: the override's key. Undefined: the limit is the policy's. Different owners never share cells.
   */
  readonly owner?: string | undefined;
}

/** The same policy for particular key values. */
export interface CompiledOverrides {
  readonly patterns: KeyPatterns;
  readonly policies: readonly CompiledPolicy[];
}

const rates = sharing<Rate>();
const noHeaders: readonly CompiledHeader[] = [];

/** @param zones contains the zone of the policy's schedule @param bans those that the policy checks */
export function compilePolicy(app: string, policy: Policy, zones: Zones = {}, bans?: PolicyBans): CompiledPolicy {
  const prefix = counterPrefix(app, policy.name);
  const limits = policy.limits.map((limit) => compileLimit(limit, prefix));
  const { match } = policy;
  const paths = pathTest(match.paths);
  const methods = match.methods.length > 0 ? setOf(match.methods) : undefined;
  const headers: CompiledHeader[] = [];
  for (const name in match.headers) headers.push({ name, values: setOf(match.headers[name] as readonly string[]) });
  const conditional = paths !== undefined || methods !== undefined || headers.length > 0;
  const compiled: CompiledPolicy = {
    app,
    policy,
    limits,
    counterPrefix: prefix,
    holdsSlots: policy.limits.some(({ algorithm }) => algorithm === "concurrency"),
    deferred: isDeferred(policy),
    store: storeOf(policy, limits),
    policyHeader: policyHeaderOf(limits),
    conditional,
    paths,
    methods,
    headers: headers.length === 0 ? noHeaders : headers,
    fastPath:
      !conditional &&
      !hasConditions(policy) &&
      bans === undefined &&
      policy.mode === "enforce" &&
      policy.onLimit.action === "reject",
    overrides: undefined,
    bans,
    exempt: policy.exempt === undefined ? undefined : compileExempt(policy.key, policy.exempt),
    schedule: policy.schedule === undefined ? undefined : compileScheduleIn(zones, policy.schedule),
  };
  return policy.overrides === undefined
    ? compiled
    : { ...compiled, overrides: compileOverrides(compiled, policy.overrides) };
}

/**
 * Returns the policy as it is for these key values if an override matches them: with the limits and the `policy.mode` of the
 * override. Undefined: the policy itself applies.
 *
 * @param values in the key's order, not encoded; an absent value is ""
 */
export function overrideFor(policy: CompiledPolicy, values: readonly string[]): CompiledPolicy | undefined {
  if (policy.overrides === undefined) return undefined;
  const { patterns, policies } = policy.overrides;
  const place = firstMatch(patterns, values);
  return place === undefined ? undefined : policies[place];
}

/** Returns whether the policy exempts this client, whatever else its requests say. @param address $remote_addr */
export function isExemptAddress({ exempt }: CompiledPolicy, address: string): boolean {
  return exempt !== undefined && isWithin(exempt.networks, address);
}

/** Returns whether the policy exempts requests with these key values. @param values in the key's order, not encoded */
export function isExemptKey({ exempt }: CompiledPolicy, values: readonly string[]): boolean {
  return exempt !== undefined && firstMatch(exempt.patterns, values) !== undefined;
}

/** Returns whether something in the request determines if it is counted, or by what. */
function hasConditions({ costSource, overrides, exempt, schedule }: Policy): boolean {
  return costSource !== undefined || overrides !== undefined || exempt !== undefined || schedule !== undefined;
}

function compileExempt(key: Policy["key"], { cidrs, keys }: Exempt): CompiledExempt {
  return { networks: networksOf(cidrs), patterns: indexKeyPatterns(key, keys) };
}

function compileScheduleIn(zones: Zones, schedule: Schedule): CompiledSchedule {
  return compileSchedule(schedule, zones[schedule.timezone] as readonly ZoneTransition[]);
}

function compileLimit(limit: Limit, prefix: string, owner?: string): CompiledLimit {
  const suffix = counterSuffix(limit);
  const { algorithm, quota, windowUs, burst, precisionUs } = limit;
  const rateName = `${algorithm} ${quota} ${windowUs} ${burst} ${precisionUs}`;
  const rate = shared(rates, rateName, () => rateOf(limit));
  return { name: limit.name, rate, counterSuffix: suffix, counterFamily: prefix + suffix, owner };
}

function compileOverrides(compiled: CompiledPolicy, overrides: readonly Override[]): CompiledOverrides {
  const { policy, counterPrefix: prefix } = compiled;
  const keys: (readonly string[])[] = [];
  const policies: CompiledPolicy[] = [];
  for (const { key, mode, limits } of overrides) {
    keys.push(key);
    // A limit that the override does not change remains the same object, which stores have prepared once.
    const own = limits.map((limit, i) =>
      limit === policy.limits[i] ? (compiled.limits[i] as CompiledLimit) : compileLimit(limit, prefix, key.join("\n")),
    );
    policies.push({
      ...compiled,
      policy: { ...policy, mode, limits, overrides: undefined },
      limits: own,
      store: storeOf(policy, own),
      policyHeader: policyHeaderOf(own),
    });
  }
  return { patterns: indexKeyPatterns(policy.key, keys), policies };
}

function isDeferred({ costSource }: Policy): boolean {
  return costSource !== undefined && costSource.from === "response-bytes";
}

function storeOf(policy: Policy, limits: readonly CompiledLimit[]): StoreName {
  if (policy.scope === "node") return "node";
  // Deferred charges are made by Redis alone, so such a policy is never leased.
  if (policy.consistency !== "leased" || isDeferred(policy)) return "exact";
  for (const { rate } of limits) {
    if (!isLeasable(rate, leaseParameters)) return "exact";
  }
  return "leased";
}

function policyHeaderOf(limits: readonly CompiledLimit[]): string {
  return limits.map(({ name, rate }) => rateLimitPolicyItem(name, rate)).join(", ");
}

/**
 * Returns the policy for a request of this cost, with which the request is both decided and refunded: `policy.cost` is what the
 * request stated. It shares its list of limits with the original policy, so that stores recognize the counters.
 *
 * @param cost the result of `costFrom`
 */
export function atCost(policy: CompiledPolicy, cost: number): CompiledPolicy {
  return cost === policy.policy.cost ? policy : { ...policy, policy: { ...policy.policy, cost } };
}

function setOf(texts: readonly string[]): Record<string, boolean> {
  const set = emptyTable<boolean>();
  for (const text of texts) set[text] = true;
  return set;
}

// From a validated policy to what a request needs of it, so that nothing is parsed, joined or looked up twice.

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
import { firstMatch, indexKeyPatterns, type KeyPatterns } from "../key/key-patterns.ts";
import { isWithin, type Networks, networksOf } from "../key/networks.ts";
import { leaseParameters } from "../lease/holder.ts";
import { isLeasable } from "../lease/ledger.ts";
import { type PathTest, pathTest } from "../match/path-pattern.ts";
import { rateLimitPolicyItem } from "../response-headers.ts";
import type { PolicyBans } from "./bans.ts";
import { counterPrefix, counterSuffix } from "./counter-key.ts";

export interface CompiledPolicy {
  readonly app: string;
  readonly policy: Policy;
  readonly limits: readonly CompiledLimit[];
  readonly counterPrefix: string;
  /** Whether a limit is of concurrency: what it charges is given back when the request ends. */
  readonly holdsSlots: boolean;
  /** Whether its requests cost what their responses take: charged when these have been sent, and not before. */
  readonly deferred: boolean;
  /** Where its counters are. */
  readonly store: StoreName;
  /** Value of the `RateLimit-Policy` header. */
  readonly policyHeader: string;
  /** False: being a candidate is all that it takes to meet the policy. */
  readonly conditional: boolean;
  /** Undefined: every path of which the policy is a candidate. */
  readonly paths: PathTest | undefined;
  /** Undefined: every method. */
  readonly methods: Readonly<Record<string, boolean>> | undefined;
  /** All of them have to be there with one of their values. */
  readonly headers: readonly CompiledHeader[];
  /** Whether it is enforced for every candidate, by a refusal: decided without further questions. */
  readonly fastPath: boolean;
  /** What was decided since the decisions were last counted. */
  readonly counts: DecisionCounts;
  /** Of other costs than its own, once there were any. */
  byCost?: CostMemory;
  /** Undefined: none. */
  readonly overrides: CompiledOverrides | undefined;
  /** Undefined: none. */
  readonly bans: PolicyBans | undefined;
  /** Undefined: nobody. */
  readonly exempt: CompiledExempt | undefined;
  /** Undefined: always on. */
  readonly schedule: CompiledSchedule | undefined;
}

/** node: on each gateway. exact: in Redis. leased: in Redis, of which gateways spend units that it has debited ahead. */
export type StoreName = "node" | "exact" | "leased";

export interface CompiledExempt {
  readonly networks: Networks;
  readonly patterns: KeyPatterns;
}

/** The same policy at other costs: for `atCost` alone. */
export interface CostMemory {
  count: number;
  readonly policies: Record<number, CompiledPolicy>;
}

/** Decisions by result. A policy's own numbers, so that counting looks nothing up. */
export interface DecisionCounts {
  allowed: number;
  refused: number;
  "shadow-refused": number;
  degraded: number;
  /** Whether it is among those that wait to be counted. */
  pending: boolean;
}

export function noDecisions(): DecisionCounts {
  return { allowed: 0, refused: 0, "shadow-refused": 0, degraded: 0, pending: false };
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
  /** Names the counters of the limit among those of all limits: the prefix and the suffix of their keys. */
  readonly counterFamily: string;
  /** What a store's own keys of these counters begin with: the store's to set, once. */
  cellPrefix?: string;
  /** Its numbers as a store sends them: the store's to set, once. */
  numberTexts?: NumberTexts;
  /** Whose: of an override's own limits, the override's key. Undefined: the policy's. Their cells are never shared with others'. */
  readonly owner?: string | undefined;
}

export type NumberTexts = readonly [quota: string, windowUs: string, size: string];

/** The same policy for particular key values. */
export interface CompiledOverrides {
  readonly patterns: KeyPatterns;
  readonly policies: readonly CompiledPolicy[];
}

const rates = sharing<Rate>();
const noHeaders: readonly CompiledHeader[] = [];

/** @param zones has the one of the policy's schedule @param bans those that the policy looks at */
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
    counts: noDecisions(),
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

/** Whether something of the request decides if it is counted, or by what. */
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
    // A limit that stays as it is stays the same one, which stores have made ready once.
    const own = limits.map((limit, i) =>
      limit === policy.limits[i] ? (compiled.limits[i] as CompiledLimit) : compileLimit(limit, prefix, key.join("\n")),
    );
    policies.push({
      ...compiled,
      policy: { ...policy, mode, limits, overrides: undefined },
      limits: own,
      store: storeOf(policy, own),
      policyHeader: policyHeaderOf(own),
      byCost: noCosts(),
    });
  }
  return { patterns: indexKeyPatterns(policy.key, keys), policies };
}

function isDeferred({ costSource }: Policy): boolean {
  return costSource !== undefined && costSource.from === "response-bytes";
}

function storeOf(policy: Policy, limits: readonly CompiledLimit[]): StoreName {
  if (policy.scope === "node") return "node";
  // What is charged later is charged by Redis alone.
  if (policy.consistency !== "leased" || isDeferred(policy)) return "exact";
  for (const { rate } of limits) {
    if (!isLeasable(rate, leaseParameters)) return "exact";
  }
  return "leased";
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
  const byCost = policy.byCost ?? noCosts();
  policy.byCost = byCost;
  const known = byCost.policies[cost];
  if (known !== undefined) return known;
  const priced = { ...policy, policy: { ...policy.policy, cost } };
  if (byCost.count < mostCostsRemembered) {
    byCost.policies[cost] = priced;
    byCost.count += 1;
  }
  return priced;
}

function setOf(texts: readonly string[]): Record<string, boolean> {
  const set = emptyTable<boolean>();
  for (const text of texts) set[text] = true;
  return set;
}

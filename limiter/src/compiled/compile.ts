// Compiles a validated policy into what a request needs of it, so that nothing is parsed, joined or looked up twice.

import { calendarWindow } from "../algorithms/calendar-window.ts";
import { lifetimeWindowUs } from "../algorithms/fixed-window.ts";
import type { LeakyBucket } from "../algorithms/leaky-bucket.ts";
import type { Calendar, Limit } from "../algorithms/limit.ts";
import { capacity, type Rate, rateOf, sizeOf } from "../algorithms/rate.ts";
import type { ShapedBucket } from "../algorithms/shaped-bucket.ts";
import type { TokenBucket } from "../algorithms/token-bucket.ts";
import { noPause, type Pause } from "../basics/pause.ts";
import { shared, sharedList, sharing, textOfValue } from "../basics/sharing.ts";
import { emptyTable } from "../basics/table.ts";
import { followCalendar } from "../document/calendar.ts";
import type { Override, Plans, Policy } from "../document/policy.ts";
import {
  type CompiledSchedule,
  compileSchedule,
  type Schedule,
  transitionsOf,
  utc,
  type Zones,
} from "../document/schedule.ts";
import { rateLimitPolicyItem } from "../header-values.ts";
import { type KeyPart, keyPartText, readsForm, readsPath } from "../key/key-part.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns } from "../key/key-patterns.ts";
import type { NetworkLists } from "../key/network-lists.ts";
import { leaseParameters } from "../lease/holder.ts";
import { isLeasable } from "../lease/ledger.ts";
import { type PathTest, pathTest } from "../match/path-pattern.ts";
import type { PolicyBans } from "./bans.ts";
import { counterPrefix, counterSuffix } from "./counter-key.ts";
import { type AppExemptions, type CompiledExempt, compileExempt, exemptsAddress, exemptsKey } from "./exemptions.ts";

/**
 * It never changes. What a part of the gateway keeps beside it is in a weak table of that part, except for what nearly every request
 * needs: `counts`, and `cellPrefix` of a limit.
 *
 * A worker has ten thousand of these. So the record has no more fields than most policies need (in Lua, a ninth doubles its size), and what
 * policies have in common is stored once. What is undefined for most policies is absent there.
 */
export interface CompiledPolicy {
  readonly app: string;
  readonly name: string;
  /** Policies that say the same share this. */
  readonly policy: Terms;
  readonly limits: readonly CompiledLimit[];
  readonly counterPrefix: string;
  /** The value of the `RateLimit-Policy` header. */
  readonly policyHeader: string;
  readonly match: CompiledMatch;
  /**
   * What the gateway counts of the policy's decisions. All records of one policy may have the same.
   */
  counts?: object | undefined;
  /** Absent: none. */
  readonly overrides?: CompiledOverrides;
  /** Absent: none. The limits beside it are those of the default plan. */
  readonly plans?: CompiledPlans;
  /** The plan whose limits these are. Absent: the policy has no plans, or these are the limits of an override. */
  readonly plan?: string;
  /** Of a policy as one of its plans has it, and of its overrides: the limit after which all of them name their lock. */
  readonly lockLimit?: CompiledLimit;
  /** Absent: none. */
  readonly bans?: PolicyBans;
  /** Absent: nobody. */
  readonly exempt?: CompiledExempt;
  /** Absent: always on. */
  readonly schedule?: CompiledSchedule;
  /** What the fields above were compiled from; absent where they are. */
  readonly written?: Written;
}

/** Which requests meet the policy. */
export interface CompiledMatch {
  /** The patterns, as the policy lists them. */
  readonly hosts: readonly string[];
  readonly paths: readonly string[];
  /** Absent: every path for which the policy is a candidate. */
  readonly pathTest?: PathTest;
  /** Absent: every method. */
  readonly methods?: Readonly<Record<string, boolean>>;
  /** A request must have all of these headers, each with one of its values. Absent: none. */
  readonly headers?: readonly CompiledHeader[];
}

/** What a policy says, besides which requests it meets and how many of them it allows. */
export interface Terms
  extends Pick<
    Policy,
    | "mode"
    | "priority"
    | "key"
    | "onMissingKey"
    | "cost"
    | "costSource"
    | "scope"
    | "consistency"
    | "onStoreFailure"
    | "maxStoreWaitUs"
    | "onLimit"
    | "sharedWith"
  > {
  /** True if a limit is of concurrency: its charge is refunded when the request ends. */
  readonly holdsSlots: boolean;
  /** True if requests cost what their responses take. They are charged when the responses have been sent, and not before. */
  readonly deferred: boolean;
  /** The cost is one that a request stated. Absent: it is the policy's own. */
  readonly isPriced?: true;
  /** The request's body is read before its key and its plan. Absent: it is not. */
  readonly readsForm?: true;
  /** Where its counters are. */
  readonly store: StoreName;
  /** False: every candidate request meets the policy. */
  readonly conditional: boolean;
  /** True if the policy is enforced, by rejection, for every candidate: it is decided without further checks. */
  readonly fastPath: boolean;
}

export interface Written extends Pick<Policy, "limits" | "plans" | "overrides" | "exempt" | "schedule"> {
  readonly methods: Policy["match"]["methods"];
  readonly headers: Policy["match"]["headers"];
}

/** node: on each gateway. exact: in Redis. leased: in Redis, which debits units in advance that gateways then spend. */
export type StoreName = "node" | "exact" | "leased";

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
   * For an override's own limits: the override's key; for those of a plan: its name. Absent: the limit is the policy's. Different owners
   * never share cells of the overflow.
   */
  readonly owner?: string | undefined;
  /** What the gateway begins the keys of this limit's counters on this node with. Undefined: none was needed yet. */
  cellPrefix?: string | undefined;
}

/** The same policy for particular key values. */
export interface CompiledOverrides {
  readonly patterns: KeyPatterns;
  readonly policies: readonly CompiledPolicy[];
  /** Whether any of these policies is enforced. */
  readonly enforces: boolean;
}

/** The same policy for requests of particular plans. */
export interface CompiledPlans {
  /** Undefined: the first value of the key names a consumer, who has a plan. */
  readonly by: KeyPart | undefined;
  /** The part of the key that names the plan, too. Absent: none does. */
  readonly keyPlace?: number;
  /** The default plan, which is the policy itself. */
  readonly default: string;
  /** The other plans, by name. */
  readonly policies: Readonly<Record<string, CompiledPolicy>>;
  /** The zones that the policy goes by: a consumer's own limits may go by these. */
  readonly zones: Zones;
}

type Mutable<Record> = { -readonly [Name in keyof Record]: Record[Name] };

const rates = sharing<Rate>();
const terms = sharing<Terms>();

const noExemptions: readonly AppExemptions[] = [];

/**
 * @param zones contains those of `timezonesOf`; the clocks of others are taken to show UTC
 * @param bans those that the policy checks
 * @param ofApps the exemptions of its app and of app `default`
 * @param lists the lists of networks, also those that come later; absent: references lead nowhere
 */
export function compilePolicy(
  app: string,
  policy: Policy,
  zones: Zones = {},
  bans?: PolicyBans,
  pause: Pause = noPause,
  ofApps = noExemptions,
  lists?: NetworkLists,
): CompiledPolicy {
  const { name, match, schedule } = policy;
  const exempt = compileExempt(policy.key, policy.exempt, ofApps, lists === undefined ? undefined : { lists, app });
  const prefix = counterPrefix(app, name);
  const limits = compileLimits(
    policy.plans === undefined ? policy.limits : keptIn(shapedCountersOf(policy.plans), policy.limits),
    prefix,
    zones,
  );
  const compiledMatch = compileMatch(match);
  const { pathTest: test, methods, headers } = compiledMatch;
  const conditional = test !== undefined || methods !== undefined || headers !== undefined;
  const compiled: Mutable<CompiledPolicy> = {
    app,
    name,
    policy: termsOf(policy, limits, conditional, bans !== undefined || exempt !== undefined),
    limits,
    counterPrefix: prefix,
    policyHeader: policyHeaderOf(limits),
    match: compiledMatch,
    counts: undefined,
  };
  if (bans !== undefined) compiled.bans = bans;
  if (exempt !== undefined) compiled.exempt = exempt;
  if (schedule !== undefined) compiled.schedule = compileScheduleIn(zones, schedule);
  if (policy.plans !== undefined) compiled.lockLimit = limits[0] as CompiledLimit;
  // Both are copies of what is there so far.
  const plans = policy.plans === undefined ? undefined : compilePlans(compiled, policy, policy.plans, zones, pause);
  if (policy.overrides !== undefined)
    compiled.overrides = compileOverrides(compiled, policy, policy.overrides, zones, pause);
  if (plans !== undefined) {
    compiled.plans = plans;
    compiled.plan = plans.default;
  }
  const written = writtenOf(policy);
  if (written !== undefined) compiled.written = written;
  return compiled;
}

function compileMatch({ hosts, paths, methods, headers }: Policy["match"]): CompiledMatch {
  const match: Mutable<CompiledMatch> = { hosts: sharedList(hosts), paths: sharedList(paths) };
  const test = pathTest(paths);
  if (test !== undefined) match.pathTest = test;
  if (methods.length > 0) match.methods = setOf(methods);
  const compiled: CompiledHeader[] = [];
  for (const name in headers) compiled.push({ name, values: setOf(headers[name] as readonly string[]) });
  if (compiled.length > 0) match.headers = compiled;
  return match;
}

/** Returns the policy as it can be compiled again. Its description is not kept. */
export function policyOf({ name, policy, limits, match, written }: CompiledPolicy): Policy {
  return {
    name,
    description: "",
    mode: policy.mode,
    priority: policy.priority,
    match: {
      hosts: match.hosts,
      paths: match.paths,
      methods: written?.methods ?? [],
      headers: written?.headers ?? emptyTable(),
    },
    key: policy.key,
    onMissingKey: policy.onMissingKey,
    limits: written?.limits ?? limits.map((limit) => limitOf(limit.name, limit.rate)),
    ...(written?.plans === undefined ? {} : { plans: written.plans }),
    cost: policy.cost,
    costSource: policy.costSource,
    scope: policy.scope,
    ...(policy.consistency === undefined ? {} : { consistency: policy.consistency }),
    onStoreFailure: policy.onStoreFailure,
    ...(policy.maxStoreWaitUs === undefined ? {} : { maxStoreWaitUs: policy.maxStoreWaitUs }),
    onLimit: policy.onLimit,
    ...(policy.sharedWith === undefined ? {} : { sharedWith: policy.sharedWith }),
    overrides: written?.overrides,
    exempt: written?.exempt,
    schedule: written?.schedule,
  };
}

/** Returns the numbers that a rate was made with, which is not of the calendar. */
function limitOf(name: string, rate: Rate): Limit {
  if (rate.algorithm === "shaped-bucket") return shapedLimitOf(name, rate);
  const { quota, windowUs } = rate;
  const algorithm = rate.algorithm as Limit["algorithm"];
  const isBucket = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return {
    name,
    algorithm,
    quota,
    windowUs,
    burst: isBucket ? sizeOf(rate) : quota,
    precisionUs: isBucket ? 0 : sizeOf(rate),
  };
}

function shapedLimitOf(name: string, { quota, windowUs, burst, initial, warmUpUs }: ShapedBucket): Limit {
  const limit: Mutable<Limit> = { name, algorithm: "token-bucket", quota, windowUs, burst, precisionUs: 0 };
  if (initial !== burst) limit.initial = initial;
  if (warmUpUs > 0) limit.warmUpUs = warmUpUs;
  return limit;
}

function writtenOf({ limits, match, plans, overrides, exempt, schedule }: Policy): Written | undefined {
  const { methods, headers } = match;
  let isPlain = methods.length === 0 && overrides === undefined && exempt === undefined && schedule === undefined;
  for (const _ in headers) isPlain = false;
  for (const limit of limits) if (limit.calendar !== undefined) isPlain = false;
  const written = { limits, methods, headers, overrides, exempt, schedule };
  if (plans !== undefined) return { ...written, plans };
  return isPlain ? undefined : written;
}

/** Returns whether the policy names paths or counts by them. */
export function usesPath({ match, policy }: CompiledPolicy): boolean {
  return match.paths.length > 0 || readsPath(policy.key);
}

/** @param isChecked whether the policy has bans or exemptions */
function termsOf(policy: Policy, limits: readonly CompiledLimit[], conditional: boolean, isChecked: boolean): Terms {
  const { mode, priority, key, onMissingKey, cost, costSource, scope, consistency } = policy;
  const { onStoreFailure, maxStoreWaitUs, onLimit, sharedWith } = policy;
  const store = storeOf(policy, limits);
  let holdsSlots = false;
  for (const { rate } of limits) if (rate.algorithm === "concurrency") holdsSlots = true;
  const needsBody = readsForm(key) || policy.plans?.by?.source === "form";
  const isPlain = !isChecked && !hasConditions(policy) && !needsBody;
  const fastPath = !conditional && isPlain && mode === "enforce" && onLimit.action === "reject";
  // The texts in the middle contain no spaces.
  let name = `${mode} ${priority} ${onMissingKey} ${cost} ${scope} ${consistency} ${onStoreFailure} ${maxStoreWaitUs} `;
  name += `${store} ${holdsSlots} ${conditional} ${fastPath} ${needsBody} `;
  if (costSource !== undefined) name += textOfValue(costSource);
  if (sharedWith !== undefined) name += textOfValue(sharedWith);
  for (const part of key) name += textOfValue(`${keyPartText(part)} ${part.secret}`);
  name += textOfOnLimit(onLimit);
  // A closure is made only where it is called: LuaJIT compiles no code that makes one.
  const known = terms.known[name];
  if (known !== undefined) return known;
  return shared(terms, name, () => {
    const made: Mutable<Terms> = {
      mode,
      priority,
      key,
      onMissingKey,
      cost,
      costSource,
      scope,
      onStoreFailure,
      onLimit,
      holdsSlots,
      deferred: isDeferred(policy),
      store,
      conditional,
      fastPath,
    };
    if (needsBody) made.readsForm = true;
    if (consistency !== undefined) made.consistency = consistency;
    if (maxStoreWaitUs !== undefined) made.maxStoreWaitUs = maxStoreWaitUs;
    if (sharedWith !== undefined) made.sharedWith = sharedWith;
    return made;
  });
}

let lastOnLimit: Policy["onLimit"] | undefined;
let textOfLast = "";

/** Policies that say nothing about it share the record. */
function textOfOnLimit(onLimit: Policy["onLimit"]): string {
  if (onLimit !== lastOnLimit) {
    textOfLast = textOfValue(onLimit);
    lastOnLimit = onLimit;
  }
  return textOfLast;
}

/**
 * Returns the policy as it is for these key values if an override matches them: with the limits and the `policy.mode` of the
 * override. Undefined: the policy itself applies.
 *
 * @param values in the key's order, not encoded; an absent value is ""
 */
export function overrideFor(policy: CompiledPolicy, values: readonly string[]): CompiledPolicy | undefined {
  const { overrides } = policy;
  if (overrides === undefined) return undefined;
  const { patterns, policies } = overrides;
  const place = firstMatch(patterns, values);
  return place === undefined ? undefined : policies[place];
}

/**
 * Returns which plan a key names, where the key is all that is known of a request.
 *
 * @param values in the key's order, not encoded
 */
export function planOfKey({ plans }: CompiledPolicy, values: readonly string[]): string | undefined {
  return plans?.keyPlace === undefined ? undefined : values[plans.keyPlace];
}

/** Returns whether the policy has a plan of this name. */
export function hasPlan({ plans }: CompiledPolicy, name: string): boolean {
  return plans !== undefined && (name === plans.default || plans.policies[name] !== undefined);
}

/**
 * Returns the policy as it is for requests of this plan.
 *
 * @param name undefined, or no plan's: the default plan applies
 */
export function policyInPlan(policy: CompiledPolicy, name: string | undefined): CompiledPolicy {
  const { plans } = policy;
  return plans === undefined || name === undefined ? policy : (plans.policies[name] ?? policy);
}

/** Returns whether every limit can hold as many units as a request takes. If not, waiting cannot help. */
export function isEverHeld({ limits, policy }: CompiledPolicy): boolean {
  for (const { rate } of limits) if (capacity(rate) < policy.cost) return false;
  return true;
}

/** Returns whether the policy exempts this client, whatever else its requests say. @param address $remote_addr */
export function isExemptAddress({ exempt }: CompiledPolicy, address: string): boolean {
  return exempt !== undefined && exemptsAddress(exempt, address);
}

/** Returns whether the policy exempts requests with these key values. @param values in the key's order, not encoded */
export function isExemptKey({ exempt }: CompiledPolicy, values: readonly string[]): boolean {
  return exempt !== undefined && exemptsKey(exempt, values);
}

/** Returns whether something in the request determines if it is counted, or by what. */
function hasConditions({ costSource, plans, overrides, schedule }: Policy): boolean {
  return costSource !== undefined || plans !== undefined || overrides !== undefined || schedule !== undefined;
}

function compileScheduleIn(zones: Zones, schedule: Schedule): CompiledSchedule {
  return compileSchedule(schedule, transitionsOf(zones, schedule.timezone));
}

function compileLimits(limits: readonly Limit[], prefix: string, zones: Zones): CompiledLimit[] {
  const first = limits[0];
  // In LuaJIT such a list is one piece of memory, and one that grows is two.
  if (first !== undefined && limits.length === 1) return [compileLimit(first, prefix, zones)];
  const compiled: CompiledLimit[] = [];
  for (const limit of limits) compiled.push(compileLimit(limit, prefix, zones));
  return compiled;
}

function compileLimit(limit: Limit, prefix: string, zones: Zones): Mutable<CompiledLimit> {
  const suffix = counterSuffix(limit);
  const { algorithm, quota, windowUs, burst, precisionUs, initial, warmUpUs, calendar } = limit;
  let rateName = `${algorithm} ${quota} ${windowUs} ${burst} ${precisionUs}`;
  if (initial !== undefined || warmUpUs !== undefined) rateName += ` ${initial} ${warmUpUs}`;
  const rate =
    calendar === undefined
      ? (rates.known[rateName] ?? shared(rates, rateName, () => rateOf(limit)))
      : calendarRate(limit, calendar, zones);
  return { name: limit.name, rate, counterSuffix: suffix, counterFamily: prefix + suffix, cellPrefix: undefined };
}

/** Not shared: policies with windows of the calendar are few, and another zone's changes would make another rate. */
function calendarRate({ quota, windowUs }: Limit, calendar: Calendar, zones: Zones): Rate {
  const transitions = transitionsOf(zones, calendar.timezone);
  return calendarWindow(quota, windowUs, (window, nowUs) => followCalendar(calendar, transitions, window, nowUs));
}

function compileOwnLimit(limit: Limit, prefix: string, owner: string, zones: Zones): Mutable<CompiledLimit> {
  const compiled = compileLimit(limit, prefix, zones);
  compiled.owner = owner;
  return compiled;
}

/** @param compiled as it is without its overrides and plans */
function compilePlans(
  compiled: CompiledPolicy,
  policy: Policy,
  plans: Plans,
  zones: Zones,
  pause: Pause,
): CompiledPlans {
  const policies = emptyTable<CompiledPolicy>();
  // The default plan's limits are the policy's own. Gateways must agree on the order of the others.
  const names: string[] = [];
  for (const name in plans.limits) if (name !== plans.default) names.push(name);
  names.sort();
  const shaped = shapedCountersOf(plans);
  const shared = emptyTable<CompiledLimit[]>();
  for (const limit of compiled.limits) shared[limit.counterSuffix] = [limit];
  for (const name of names) {
    const own: CompiledLimit[] = [];
    for (const limit of keptIn(shaped, plans.limits[name] as readonly Limit[])) {
      const compiledLimit = compileOwnLimit(limit, compiled.counterPrefix, `plan ${name}`, zones);
      const { rate, counterSuffix: suffix } = compiledLimit;
      shared[suffix] ??= [];
      const others = shared[suffix];
      // Only an operator moves a consumer, so it cannot go to and fro between its plans.
      const other = others.find((one) => plans.by === undefined || canTakeTurns(one.rate, rate));
      if (other !== undefined) {
        compiledLimit.counterSuffix = other.counterSuffix;
        compiledLimit.counterFamily = other.counterFamily;
      } else {
        if (others.length > 0) countApart(compiledLimit, compiled, name);
        others.push(compiledLimit);
      }
      own.push(compiledLimit);
    }
    const inPlan: Mutable<CompiledPolicy> = variantOf(compiled, policy, own);
    inPlan.plan = name;
    policies[name] = inPlan;
    pause();
  }
  const compiledPlans: Mutable<CompiledPlans> = { by: plans.by, default: plans.default, policies, zones };
  if (plans.by === undefined) return compiledPlans;
  const by = keyPartText(plans.by);
  for (let i = 0; i < policy.key.length; i++) {
    if (keyPartText(policy.key[i] as KeyPart) === by) compiledPlans.keyPlace = i;
  }
  return compiledPlans;
}

/** The counters of limits with `initial` or `warmUp`, of all plans. */
type ShapedCounters = Readonly<Record<string, true>>;

function shapedCountersOf(plans: Plans): ShapedCounters {
  const found = emptyTable<true>();
  for (const name in plans.limits) {
    for (const limit of plans.limits[name] as readonly Limit[]) {
      if (isShaped(limit)) found[counterSuffix(limit)] = true;
    }
  }
  return found;
}

/**
 * Returns a plan's limits. A plain bucket is deleted when it is full, and one with `initial` is kept, because otherwise it begins anew. So if
 * another plan has the same counter with `initial` or `warmUp`, the plain one is kept, too: it is one that begins full.
 */
function keptIn(shaped: ShapedCounters, limits: readonly Limit[]): readonly Limit[] {
  return limits.map((limit) => (shaped[counterSuffix(limit)] === true ? beginningFull(limit) : limit));
}

function isShaped({ initial, warmUpUs }: Limit): boolean {
  return initial !== undefined || warmUpUs !== undefined;
}

function beginningFull(limit: Limit): Limit {
  return limit.algorithm !== "token-bucket" || isShaped(limit) ? limit : { ...limit, initial: limit.burst };
}

/**
 * Returns whether requests by two rates may use one counter in turn. A bucket that fills sooner forgets what another owes beyond that, even
 * when it refuses, and a plain one takes a bucket that warms for a full one: a client that has requests of two plans would be admitted
 * without end.
 */
function canTakeTurns(one: Rate, other: Rate): boolean {
  return !isBucket(one) || !isBucket(other) || (one.fullUs === other.fullUs && warms(one) === warms(other));
}

function isBucket(rate: Rate): rate is TokenBucket | LeakyBucket | ShapedBucket {
  const written = writtenAlgorithm(rate);
  return written === "token-bucket" || written === "leaky-bucket";
}

function warms(rate: Rate): boolean {
  return rate.algorithm === "shaped-bucket" && rate.warmUpUs > 0;
}

/** Gives a plan's limit counters that no other plan has. */
function countApart(limit: Mutable<CompiledLimit>, { counterPrefix: prefix }: CompiledPolicy, plan: string): void {
  limit.counterSuffix += `/${plan}`;
  limit.counterFamily = prefix + limit.counterSuffix;
}

/** Returns the policy with other limits. @param policy what it is compiled from, with the variant's mode */
function variantOf(compiled: CompiledPolicy, policy: Policy, limits: readonly CompiledLimit[]): CompiledPolicy {
  return {
    ...compiled,
    policy: termsOf(policy, limits, compiled.policy.conditional, true),
    limits,
    policyHeader: policyHeaderOf(limits),
  };
}

/**
 * Returns the policy with a consumer's own limits, which hold instead of those of the same names and algorithms.
 *
 * @param policy as it is for all @param inPlan as it is in the consumer's plan
 * @param owner names the consumer's limits: different owners never share cells of the overflow
 */
export function withOwnLimits(
  policy: CompiledPolicy,
  inPlan: CompiledPolicy,
  limits: readonly Limit[],
  owner: string,
): CompiledPolicy {
  const zones = policy.plans?.zones ?? {};
  const own: CompiledLimit[] = [];
  for (const limit of inPlan.limits) {
    const written = writtenAlgorithm(limit.rate);
    const other = limits.find(({ name, algorithm }) => name === limit.name && algorithm === written);
    const holds = other !== undefined && isPossible(other, policy, zones);
    const kept = holds && limit.rate.algorithm === "shaped-bucket" ? beginningFull(other) : other;
    own.push(holds ? compileOwnLimit(kept as Limit, policy.counterPrefix, owner, zones) : limit);
  }
  return variantOf(inPlan, policyOf(policy), own);
}

/** A consumer's limits are validated without a policy. */
function isPossible({ windowUs, calendar }: Limit, { policy }: CompiledPolicy, zones: Zones): boolean {
  if (windowUs === lifetimeWindowUs && policy.scope === "node") return false;
  return calendar === undefined || calendar.timezone === utc || zones[calendar.timezone] !== undefined;
}

/** Returns the algorithm as people write it. */
function writtenAlgorithm({ algorithm }: Rate): Limit["algorithm"] {
  if (algorithm === "shaped-bucket") return "token-bucket";
  return algorithm === "calendar-window" ? "fixed-window" : algorithm;
}

/** @param compiled as it is without its overrides and plans */
function compileOverrides(
  compiled: CompiledPolicy,
  policy: Policy,
  overrides: readonly Override[],
  zones: Zones,
  pause: Pause,
): CompiledOverrides {
  const { counterPrefix: prefix } = compiled;
  const keys: (readonly string[])[] = [];
  const policies: CompiledPolicy[] = [];
  for (const { key, mode, limits } of overrides) {
    keys.push(key);
    // A limit that the override does not change remains the same object, which stores have prepared once.
    const own = limits.map((limit, i) =>
      limit === policy.limits[i]
        ? (compiled.limits[i] as CompiledLimit)
        : compileOwnLimit(limit, prefix, key.join("\n"), zones),
    );
    policies.push(variantOf(compiled, { ...policy, mode }, own));
    pause();
  }
  const enforces = overrides.some(({ mode }) => mode === "enforce");
  return { patterns: indexKeyPatterns(policy.key, keys, pause), policies, enforces };
}

function isDeferred({ costSource }: Policy): boolean {
  return costSource !== undefined && costSource.from === "response-bytes";
}

function storeOf(policy: Policy, limits: readonly CompiledLimit[]): StoreName {
  if (policy.scope === "node") return "node";
  // Deferred charges are made by Redis alone, so such a policy is never leased.
  if (policy.consistency !== "leased" || isDeferred(policy)) return "exact";
  // Units on lease are debited from the limits of one plan, and might be spent under another.
  if (policy.plans !== undefined) return "exact";
  for (const { rate } of limits) {
    if (!isLeasable(rate, leaseParameters)) return "exact";
  }
  return "leased";
}

function policyHeaderOf(limits: readonly CompiledLimit[]): string {
  let header = "";
  for (const { name, rate } of limits) {
    const item = rateLimitPolicyItem(name, rate);
    header = header === "" ? item : `${header}, ${item}`;
  }
  return header;
}

/**
 * Returns the policy for a request of this cost, with which the request is both decided and refunded: `policy.cost` is what the
 * request stated. It shares its list of limits with the original policy, so that stores recognize the counters.
 *
 * @param cost the result of `costFrom`
 */
export function atCost(policy: CompiledPolicy, cost: number): CompiledPolicy {
  return cost === policy.policy.cost ? policy : { ...policy, policy: { ...policy.policy, cost, isPriced: true } };
}

function setOf(texts: readonly string[]): Record<string, boolean> {
  const set = emptyTable<boolean>();
  for (const text of texts) set[text] = true;
  return set;
}

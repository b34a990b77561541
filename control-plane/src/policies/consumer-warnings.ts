// Warns of a consumer whose terms mean something else than their author may think: no policy has its plan, or its own limits name a policy or a limit
// that does not exist, limit nothing, hold less than a request costs, or begin its counters anew. A consumer may be put before its policies, so none of
// this is an error.

import { lifetimeWindowUs } from "@sluice/limiter/algorithms/fixed-window.ts";
import type { Limit } from "@sluice/limiter/algorithms/limit.ts";
import { capacity, rateOf } from "@sluice/limiter/algorithms/rate.ts";
import { counterSuffix } from "@sluice/limiter/compiled/counter-key.ts";
import { byConsumer, lifetime } from "@sluice/limiter/document/policy-shape.ts";
import { utc } from "@sluice/limiter/document/schedule.ts";
import { describeValue, limitsFrom, type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import type { Terms } from "../storage/consumer-changes.ts";
import { newestRevision, plansOfConsumers, policiesNamed } from "../storage/consumer-policies.ts";
import type { Database } from "../storage/tables.ts";
import { canonicalZones, withZoneNames } from "../zones/policy-zones.ts";

/** Of more policies than these, a body's consumers get no warnings. */
const mostPolicies = 1_000;
/** The most names that one warning has. */
const mostNamed = 20;

type OwnLimits = readonly Readonly<Record<string, unknown>>[];

/** What the policies of an app have for consumers, as far as it was read. Texts of 64 KB are not kept. */
interface Known {
  /** All plans that a consumer may have, or that too many policies have plans; undefined: not read yet. */
  plans: { readonly names: ReadonlySet<string> | undefined } | undefined;
  /** By name; undefined: the policy does not ask for consumers. */
  readonly policies: Map<string, Asking | undefined>;
}

/** A policy that asks for consumers. */
interface Asking {
  readonly plans: ReadonlySet<string>;
  readonly defaultPlan: string;
  /** By plan, of the plans that somebody has asked for. */
  readonly limits: Map<string, LimitsOfPlan>;
}

interface LimitsOfPlan {
  readonly limits: readonly Limit[];
  /** The most that a request is said to cost; 1 for response-bytes, which are charged afterwards, and for templates, which are not read here. */
  readonly mostCost: number;
  /** The policy's, whatever the plan. */
  readonly scope: unknown;
  readonly zones: ReadonlySet<string>;
}

const nothingKnown = (): Known => ({ plans: undefined, policies: new Map() });

/** Of so many apps, what was read for one consumer is known for the next. */
const mostApps = 16;
/** A list of sixteen limits takes some 3 KB. */
const mostLists = 256;

/** Keeps what the policies of apps have for consumers, for as long as the history of the app does not go on. */
export class KnownPlans {
  readonly #database: Database;
  /** The app that was read anew last is at the end. */
  readonly #apps = new Map<string, Known & { readonly revision: number | undefined }>();

  constructor(database: Database) {
    this.#database = database;
  }

  async of(app: string): Promise<Known> {
    const revision = await newestRevision(this.#database, app);
    const before = this.#apps.get(app);
    const isSame = before !== undefined && before.revision === revision;
    if (isSame && listsOf(before) < mostLists) return before;
    const known = { ...nothingKnown(), plans: isSame ? before.plans : undefined, revision };
    this.#apps.delete(app);
    this.#apps.set(app, known);
    const [oldest] = this.#apps.keys();
    if (this.#apps.size > mostApps && oldest !== undefined) this.#apps.delete(oldest);
    return known;
  }
}

function listsOf({ policies }: Known): number {
  let lists = 0;
  for (const asking of policies.values()) lists += asking?.limits.size ?? 1;
  return lists;
}

/** Looks up what the consumers of one body name, each once. */
export class ConsumerWarnings {
  readonly #database: Database;
  readonly #app: string;
  readonly #pause: () => Promise<void>;
  readonly #known: Known;
  /** The names that the consumers' own limits have. */
  readonly #named = new Set<string>();

  /** @param pause is called between steps of some milliseconds @param known is added to */
  constructor(database: Database, app: string, pause: () => Promise<void>, known: Known = nothingKnown()) {
    this.#database = database;
    this.#app = app;
    this.#pause = pause;
    this.#known = known;
  }

  /** Rejects as the pause does. */
  async of({ plan, overrides }: Terms): Promise<Problem[]> {
    const ofPlan = await this.#ofPlan(plan);
    const warnings = ofPlan === undefined ? [] : [ofPlan];
    if (overrides === null) return warnings;
    const own = JSON.parse(canonicalZones(overrides)) as Readonly<Record<string, OwnLimits>>;
    const limits = await this.#look(Object.keys(own), plan);
    for (const [name, list] of Object.entries(own)) {
      if (this.#named.has(name)) warnings.push(...ofOverride(name, list, limits.get(name)));
    }
    return warnings;
  }

  async #ofPlan(plan: string): Promise<Problem | undefined> {
    this.#known.plans ??= { names: await plansOfConsumers(this.#database, this.#app, this.#pause) };
    const { names: plans } = this.#known.plans;
    if (plans === undefined || plans.has(plan)) return undefined;
    const names = [...plans].sort();
    const known = names.length === 0 ? "and the app has none" : `like ${names.slice(0, mostNamed).join(", ")}`;
    const got = `${describeValue(plan)}, for which the default plan holds`;
    return { path: "plan", expected: `a plan of a policy with planBy: consumer, ${known}`, got };
  }

  /** @returns by policy, the limits that the plan stands for; those of policies that ask for consumers alone */
  async #look(names: readonly string[], plan: string): Promise<Map<string, LimitsOfPlan>> {
    const { policies } = this.#known;
    const found = new Map<string, LimitsOfPlan>();
    const unknown: string[] = [];
    for (const name of names) {
      if (this.#named.size < mostPolicies) this.#named.add(name);
      if (!this.#named.has(name)) continue;
      const asking = policies.get(name);
      const limits = asking?.limits.get(planIn(asking, plan));
      if (limits !== undefined) found.set(name, limits);
      else if (asking !== undefined || !policies.has(name)) unknown.push(name);
    }
    if (unknown.length === 0) return found;
    for (const { name, document } of await policiesNamed(this.#database, this.#app, unknown)) {
      const { sent, names: zones } = withZoneNames(document);
      const read = JSON.parse(sent) as Readonly<Record<string, unknown>>;
      const asking = policies.get(name) ?? askingOf(read);
      policies.set(name, asking);
      const limits = asking === undefined ? undefined : limitsOf(read, planIn(asking, plan), zones);
      if (limits !== undefined) {
        asking?.limits.set(planIn(asking, plan), limits);
        found.set(name, limits);
      }
      await this.#pause();
    }
    return found;
  }
}

function askingOf({ plans, planBy, defaultPlan }: Readonly<Record<string, unknown>>): Asking | undefined {
  if (planBy !== byConsumer) return undefined;
  return { plans: new Set(Object.keys(plans as object)), defaultPlan: defaultPlan as string, limits: new Map() };
}

function planIn({ plans, defaultPlan }: Asking, plan: string): string {
  return plans.has(plan) ? plan : defaultPlan;
}

/** @param document of a policy that has the plan. Templates have no limits, so that they need not be resolved. */
function limitsOf(
  document: Readonly<Record<string, unknown>>,
  plan: string,
  zones: ReadonlySet<string>,
): LimitsOfPlan | undefined {
  const { name, plans, planBy, key, scope, cost = 1 } = document;
  const isTemplate = typeof cost === "object" && cost !== null && "template" in cost;
  const ofPlan = { [plan]: (plans as Readonly<Record<string, unknown>>)[plan] };
  const one = { name, plans: ofPlan, planBy, defaultPlan: plan, key, scope, ...(isTemplate ? {} : { cost }) };
  const { policy } = validatePolicy(one);
  const limits = policy?.plans?.limits[plan];
  return limits && { limits, mostCost: policy?.costSource?.room ?? policy?.cost ?? 1, scope, zones };
}

/** @param ofPlan of the consumer's plan; undefined if no policy of the name asks for consumers */
function ofOverride(name: string, own: OwnLimits, ofPlan: LimitsOfPlan | undefined): Problem[] {
  const path = `overrides.${name}`;
  if (ofPlan === undefined) {
    return [{ path, expected: "the name of a policy of the app with planBy: consumer", got: describeValue(name) }];
  }
  return limitsFrom(own, ofPlan.mostCost).flatMap(
    (limit, i) => ofLimit(`${path}[${i}]`, own[i] ?? {}, limit, ofPlan) ?? [],
  );
}

/** @param written the limit as the document has it */
function ofLimit(
  path: string,
  written: OwnLimits[number],
  limit: Limit,
  { limits, mostCost, scope, zones }: LimitsOfPlan,
): Problem | undefined {
  const held = limits.find((one) => one.name === limit.name);
  if (held === undefined) {
    const expected = `one of the policy's limits: ${limits.map((one) => one.name).join(", ")}`;
    return { path: `${path}.name`, expected, got: `${describeValue(limit.name)}, which limits nothing` };
  }
  if (held.algorithm !== limit.algorithm) {
    const expected = `"${held.algorithm}", as of the policy's limit of that name`;
    return { path: `${path}.algorithm`, expected, got: `"${limit.algorithm}", which limits nothing` };
  }
  if (limit.windowUs === lifetimeWindowUs && scope !== "cluster") {
    const expected = "a duration: without scope: cluster, a gateway that restarts forgets what it has counted";
    return { path: `${path}.window`, expected, got: `"${lifetime}", which limits nothing` };
  }
  const { timezone = utc } = limit.calendar ?? {};
  if (timezone !== utc && !zones.has(timezone)) {
    const expected = `one of the time zones that the policy uses: ${[utc, ...zones].join(", ")}`;
    return { path: `${path}.timezone`, expected, got: `${describeValue(timezone)}, which limits nothing` };
  }
  if (capacity(rateOf(limit)) < mostCost) {
    const field = written["burst"] === undefined ? "quota" : "burst";
    // A leaky-bucket holds the request that departs besides those that wait.
    const least = limit.algorithm === "leaky-bucket" ? mostCost - 1 : mostCost;
    const expected = `at least ${least}, for requests that cost ${mostCost}`;
    return { path: `${path}.${field}`, expected, got: `${written[field]}, by which such requests are always refused` };
  }
  if (counterSuffix(held) === counterSuffix(limit)) return undefined;
  const expected = `the window, time zone, anchor and precision of the policy's limit "${limit.name}", so that its counter goes on`;
  return { path, expected, got: "another one, with which the consumer's counter begins anew" };
}

// Warns of a consumer whose terms mean something else than their author may think: no policy has its plan, its own limits name a policy or a limit
// that does not exist, or they begin its counters anew. A consumer may be put before its policies, so none of this is an error.

import { counterSuffix } from "@sluice/limiter/compiled/counter-key.ts";
import type { Policy } from "@sluice/limiter/document/policy.ts";
import { describeValue, limitsFrom, type Problem, validatePolicy } from "@sluice/limiter/document/validate.ts";
import type { Terms } from "../storage/consumer-changes.ts";
import { plansOfConsumers, policiesNamed } from "../storage/consumer-policies.ts";
import type { Database } from "../storage/tables.ts";

/** Of more policies than these, a body's consumers get no warnings. */
const mostPolicies = 1_000;
/** The most names that one warning has. */
const mostNamed = 20;

type OwnLimits = readonly Readonly<Record<string, unknown>>[];

/** Looks up what consumers name, each once. */
export class ConsumerWarnings {
  readonly #database: Database;
  readonly #app: string;
  /** All plans that a consumer may have; undefined: not read yet, or too many policies have plans. */
  #plans: ReadonlySet<string> | undefined;
  #arePlansRead = false;
  /** By name; undefined: there is none that asks for consumers. */
  readonly #policies = new Map<string, Policy | undefined>();

  constructor(database: Database, app: string) {
    this.#database = database;
    this.#app = app;
  }

  async of({ plan, overrides }: Terms): Promise<Problem[]> {
    const ofPlan = await this.#ofPlan(plan);
    const warnings = ofPlan === undefined ? [] : [ofPlan];
    if (overrides === null) return warnings;
    const own = JSON.parse(overrides) as Readonly<Record<string, OwnLimits>>;
    await this.#look(Object.keys(own));
    for (const [name, limits] of Object.entries(own)) {
      if (this.#policies.has(name)) warnings.push(...ofOverride(name, limits, this.#policies.get(name), plan));
    }
    return warnings;
  }

  async #ofPlan(plan: string): Promise<Problem | undefined> {
    if (!this.#arePlansRead) this.#plans = await plansOfConsumers(this.#database, this.#app);
    this.#arePlansRead = true;
    if (this.#plans === undefined || this.#plans.has(plan)) return undefined;
    const names = [...this.#plans].sort();
    const known = names.length === 0 ? "and the app has none" : `like ${names.slice(0, mostNamed).join(", ")}`;
    const got = `${describeValue(plan)}, for which the default plan holds`;
    return { path: "plan", expected: `a plan of a policy with planBy: consumer, ${known}`, got };
  }

  async #look(names: readonly string[]): Promise<void> {
    const unknown = names.filter((name) => !this.#policies.has(name)).slice(0, mostPolicies - this.#policies.size);
    if (unknown.length === 0) return;
    for (const name of unknown) this.#policies.set(name, undefined);
    for (const { name, document } of await policiesNamed(this.#database, this.#app, unknown)) {
      // Templates have no limits, so that they need not be resolved.
      const {
        name: _,
        plans,
        planBy,
        defaultPlan,
        key,
        scope,
      } = JSON.parse(document) as Readonly<Record<string, unknown>>;
      const { policy } = validatePolicy({ name, plans, planBy, defaultPlan, key, scope });
      if (policy?.plans !== undefined && policy.plans.by === undefined) this.#policies.set(name, policy);
    }
  }
}

function ofOverride(name: string, own: OwnLimits, policy: Policy | undefined, plan: string): Problem[] {
  const path = `overrides.${name}`;
  if (policy?.plans === undefined) {
    return [{ path, expected: "the name of a policy of the app with planBy: consumer", got: describeValue(name) }];
  }
  const { limits: byPlan, default: otherwise } = policy.plans;
  const limits = byPlan[plan] ?? byPlan[otherwise] ?? [];
  return limitsFrom(own, policy.cost).flatMap((limit, i): Problem[] => {
    const held = limits.find((one) => one.name === limit.name);
    if (held === undefined) {
      const expected = `one of the policy's limits: ${limits.map((one) => one.name).join(", ")}`;
      return [{ path: `${path}[${i}].name`, expected, got: `${describeValue(limit.name)}, which limits nothing` }];
    }
    if (held.algorithm !== limit.algorithm) {
      const expected = `"${held.algorithm}", as of the policy's limit of that name`;
      return [{ path: `${path}[${i}].algorithm`, expected, got: `"${limit.algorithm}", which limits nothing` }];
    }
    if (counterSuffix(held) === counterSuffix(limit)) return [];
    const expected = `the window, time zone, anchor and precision of the policy's limit "${limit.name}", so that its counter goes on`;
    return [{ path: `${path}[${i}]`, expected, got: "another one, with which the consumer's counter begins anew" }];
  });
}

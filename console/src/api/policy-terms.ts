// What a stored policy says, with the defaults of what it leaves out (docs/policies.md).

import type { Schemas } from "./client.ts";
import type { Supplied } from "./queries.ts";

/** As it is stored: the description of the API names what policies are with all defaults. */
export type StoredPolicy = Partial<Schemas["Policy"]> & Pick<Schemas["Policy"], "name">;

type Limits = NonNullable<Schemas["Policy"]["limits"]>;

export interface PolicyTerms {
  readonly name: string;
  readonly mode: "enforce" | "shadow" | "off";
  readonly key: readonly string[];
  readonly secret: StoredPolicy["secret"];
  /** With plans: those of the default plan. */
  readonly limits: readonly (Limits[number] & { readonly name: string })[];
  /** What a request takes that states no cost. A template's is not known here, and counts as one. */
  readonly cost: number;
}

export function termsOf(policy: StoredPolicy): PolicyTerms {
  const { name, mode = "enforce", key = [], secret, plans = {}, defaultPlan = "", cost = 1 } = policy;
  const limits = policy.limits ?? plans[defaultPlan] ?? [];
  return {
    name,
    mode,
    key,
    secret,
    limits: limits.map((limit) => ({ ...limit, name: limit.name ?? "default" })),
    cost: typeof cost === "number" ? cost : "default" in cost ? cost.default : 1,
  };
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Says what the control plane makes of a document (control-plane/src/library, templates).
 *
 * @param templates of the app: they come before what is supplied @param library absent for a stored document, which has copies of it
 * @returns the document with the content of the templates that it names; a name that there is not stays
 */
export function withTemplates(
  document: Json,
  templates: readonly { readonly name: string; readonly document: Partial<Schemas["Template"]> }[],
  library: readonly Supplied[] = [],
): Record<string, unknown> {
  const whole = completed(document, library);
  for (const field of ["cost", "onLimit"] as const) {
    const name = templateOf(whole[field]);
    const own = templates.find((one) => one.name === name)?.document[field];
    const content = own ?? library.find((one) => one.kind === "action" && one.name === name)?.document[field];
    if (name !== undefined && content !== undefined) whole[field] = content;
  }
  return whole;
}

function completed(document: Json, library: readonly Supplied[]): Record<string, unknown> {
  const { template, ...own } = document;
  const supplied = library.find(({ kind, name }) => kind === "policy" && name === template)?.document;
  if (supplied === undefined) return { ...document };
  const [match, ownMatch] = [supplied["match"], own["match"]];
  const both = isObject(match) && isObject(ownMatch) ? { match: { ...match, ...ownMatch } } : {};
  return { ...supplied, ...own, ...both };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @returns the name of the template that a policy's field refers to; undefined: none */
export function templateOf(field: unknown): string | undefined {
  if (typeof field !== "object" || field === null || !("template" in field)) return undefined;
  return typeof field.template === "string" ? field.template : undefined;
}

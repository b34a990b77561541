// What a stored policy says, with the defaults of what it leaves out (docs/policies.md).

import type { Schemas } from "./client.ts";

/** As it is stored: the description of the API names what policies are with all defaults. */
export type StoredPolicy = Partial<Schemas["Policy"]> & Pick<Schemas["Policy"], "name">;

type Limits = NonNullable<Schemas["Policy"]["limits"]>;

export interface PolicyTerms {
  readonly name: string;
  readonly mode: "enforce" | "shadow" | "off";
  readonly key: readonly string[];
  /** With plans: those of the default plan. */
  readonly limits: readonly (Limits[number] & { readonly name: string })[];
  /** What a request takes that states no cost. A template's is not known here, and counts as one. */
  readonly cost: number;
}

export function termsOf(policy: StoredPolicy): PolicyTerms {
  const { name, mode = "enforce", key = [], plans = {}, defaultPlan = "", cost = 1 } = policy;
  const limits = policy.limits ?? plans[defaultPlan] ?? [];
  return {
    name,
    mode,
    key,
    limits: limits.map((limit) => ({ ...limit, name: limit.name ?? "default" })),
    cost: typeof cost === "number" ? cost : "default" in cost ? cost.default : 1,
  };
}

/** @returns the document with the content of the templates that it names; a name that there is not stays */
export function withTemplates(
  document: Readonly<Record<string, unknown>>,
  templates: readonly { readonly name: string; readonly document: Partial<Schemas["Template"]> }[],
): Record<string, unknown> {
  const whole: Record<string, unknown> = { ...document };
  for (const field of ["cost", "onLimit"] as const) {
    const named = templates.find(({ name }) => name === templateOf(document[field]));
    if (named !== undefined) whole[field] = named.document[field];
  }
  return whole;
}

/** @returns the name of the template that a policy's field refers to; undefined: none */
export function templateOf(field: unknown): string | undefined {
  if (typeof field !== "object" || field === null || !("template" in field)) return undefined;
  return typeof field.template === "string" ? field.template : undefined;
}

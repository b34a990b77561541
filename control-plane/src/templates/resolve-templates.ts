// Replaces references to templates in a policy: with `onLimit: { template: polite-429 }` a policy takes its onLimit from a
// template of its app. Gateways do not know templates: they get the document with the references resolved.

import { describeValue, type Problem } from "@sluice/limiter/document/validate.ts";

/** The fields of a policy that may refer to a template. */
export const templateFields = ["onLimit", "cost"] as const;
export type TemplateField = (typeof templateFields)[number];

/** An app's templates by name. Each is a document with one of the template fields. */
export type Templates = ReadonlyMap<string, Json>;

type Json = Readonly<Record<string, unknown>>;

export interface Resolution {
  /** The document with templates resolved. A field with an invalid reference is left out. */
  readonly document: unknown;
  /** Problems of the references only, with paths in the document as it was put. */
  readonly problems: readonly Problem[];
  /** The name of the template that each field came from. */
  readonly origins: ReadonlyMap<string, string>;
}

export function resolveTemplates(document: unknown, templates: Templates): Resolution {
  const problems: Problem[] = [];
  const origins = new Map<string, string>();
  if (!isRecord(document)) return { document, problems, origins };
  const resolved: Record<string, unknown> = { ...document };
  for (const field of templateFields) {
    const reference = document[field];
    if (!isReference(reference)) continue;
    const { template: name, ...others } = reference;
    for (const other of Object.keys(others)) {
      const expected = "nothing beside template: what it says is taken whole";
      problems.push({ path: `${field}.${other}`, expected, got: describeValue(others[other]) });
    }
    const content = typeof name === "string" ? templates.get(name)?.[field] : undefined;
    if (content === undefined) {
      delete resolved[field];
      problems.push({ path: `${field}.template`, expected: choices(field, templates), got: describeValue(name) });
    } else {
      resolved[field] = content;
      origins.set(field, name as string);
    }
  }
  return { document: resolved, problems, origins };
}

/** Returns whether the policy's document refers to the template. */
export function usesTemplate(document: unknown, name: string): boolean {
  if (!isRecord(document)) return false;
  return templateFields.some((field) => {
    const reference = document[field];
    return isReference(reference) && reference["template"] === name;
  });
}

/** Converts a problem of the resolved document to one of the document with the reference. */
export function problemAsPut(problem: Problem, origins: ReadonlyMap<string, string>): Problem {
  const field = /^[A-Za-z]+/.exec(problem.path)?.[0] ?? "";
  const name = origins.get(field);
  if (name === undefined) return problem;
  return {
    path: `${field}.template`,
    expected: `a template whose ${problem.path} is ${problem.expected}`,
    got: `"${name}", where it is ${problem.got}`,
  };
}

function choices(field: TemplateField, templates: Templates): string {
  const names = [...templates].flatMap(([name, content]) => (content[field] === undefined ? [] : [name])).sort();
  if (names.length === 0) return `the name of a template with ${field}, and the app has none`;
  const shown = names.length > 20 ? [...names.slice(0, 20), "…"] : names;
  return `the name of a template with ${field}: ${shown.join(", ")}`;
}

function isReference(value: unknown): value is Json {
  return isRecord(value) && value["template"] !== undefined;
}

function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

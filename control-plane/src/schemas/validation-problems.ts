// Converts ajv's errors about a query or a path to the form of policies' problems: path, expected, got.

import type { Problem } from "@sluice/limiter/document/validate.ts";
import type { FastifySchemaValidationError } from "fastify";

interface Described {
  readonly "x-expected"?: string;
}

/** With ajv's option `verbose`, an error carries the violated schema and the offending value. */
interface VerboseError extends FastifySchemaValidationError {
  readonly data?: unknown;
  readonly parentSchema?: Described & { readonly properties?: Record<string, Described> };
}

/** Returns one problem per path: the first that ajv reports for it. */
export function problemsOf(errors: readonly FastifySchemaValidationError[]): Problem[] {
  const problems = new Map<string, Problem>();
  for (const error of errors as readonly VerboseError[]) {
    const problem = problemOf(error);
    if (!problems.has(problem.path)) problems.set(problem.path, problem);
  }
  return [...problems.values()];
}

function problemOf({ instancePath, keyword, params, parentSchema, message, data }: VerboseError): Problem {
  const path = instancePath.split("/").filter((part) => part !== "");
  if (keyword === "additionalProperties") {
    const name = String(params["additionalProperty"]);
    const known = Object.keys(parentSchema?.properties ?? {}).join(", ");
    const expected = known === "" ? "no such parameter" : `no such parameter; known here: ${known}`;
    return { path: [...path, name].join("."), expected, got: quote((data as Record<string, unknown>)[name]) };
  }
  if (keyword === "required") {
    const name = String(params["missingProperty"]);
    const expected = parentSchema?.properties?.[name]?.["x-expected"] ?? "a value";
    return { path: [...path, name].join("."), expected, got: "nothing" };
  }
  return {
    path: path.join("."),
    expected: parentSchema?.["x-expected"] ?? message ?? "another value",
    got: quote(data),
  };
}

/** A value that came, as an error shows it. */
export function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

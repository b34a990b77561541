// Writes the types of the REST API that the console's client has, from the API's own description.

import { join } from "node:path";
import openapiTS, { astToString, type OpenAPI3 } from "openapi-typescript";

export const apiTypesFile = join(import.meta.dirname, "../src/api/schema.d.ts");

/** @param description the content of openapi.json @returns the text of schema.d.ts */
export async function apiTypes(description: unknown): Promise<string> {
  const own = structuredClone(description) as { paths: Record<string, Record<string, Operation>> };
  for (const operations of Object.values(own.paths)) {
    for (const operation of Object.values(operations)) operation.responses = withOneError(operation.responses);
  }
  const nodes = await openapiTS(plain(own) as OpenAPI3);
  return `// Written by npm run docs.\n\n${astToString(nodes)}`;
}

interface Operation {
  responses?: Record<string, unknown>;
}

const error = {
  description: "",
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

/** All errors have the same shape: listing it for each status would make nine tenths of the file. */
function withOneError(responses: Operation["responses"] = {}): Record<string, unknown> {
  const good = Object.entries(responses).filter(([status]) => Number(status) < 300);
  return { ...Object.fromEntries(good), default: error };
}

/** Without what types do not say. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(
    ([name, of]) => !(name === "description" && typeof of === "string") || of === "",
  );
  return Object.fromEntries(kept.map(([name, of]) => [name, plain(of)]));
}

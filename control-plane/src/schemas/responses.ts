// What the API answers with, for its description. Answers are serialised as they are, not by these.

import { errorCatalogue } from "../errors/catalogue.ts";
import { type JsonSchema, policySchema } from "./policy-schema.ts";

const text = { type: "string" };
const count = { type: "integer", minimum: 0 };
const time = { type: "string", format: "date-time" };
const problems = {
  type: "array",
  items: object({ path: text, expected: text, got: text }),
};

const problem = {
  $id: "Problem",
  ...object(
    {
      type: text,
      title: text,
      status: count,
      detail: text,
      code: { type: "string", enum: Object.keys(errorCatalogue) },
      errors: problems,
      etag: text,
      requestId: text,
    },
    ["errors", "etag", "requestId"],
  ),
};

const policy = { $id: "Policy", ...policySchema };

const change = {
  $id: "Change",
  ...object({ revision: count, applied: object({ gateways: count, acked: count, refused: count }) }, ["applied"]),
};

const app = { $id: "App", ...object({ name: text, createdAt: time, revision: count }) };

const validity = { $id: "Validity", ...object({ valid: { type: "boolean" }, errors: problems }, ["errors"]) };

const policyPage = {
  $id: "PolicyPage",
  ...object(
    {
      policies: {
        type: "array",
        items: object({ name: text, etag: text, revision: count, updatedAt: time, document: { $ref: "Policy#" } }),
      },
      next: text,
    },
    ["next"],
  ),
};

const appPage = {
  $id: "AppPage",
  ...object({ apps: { type: "array", items: { $ref: "App#" } }, next: text }, ["next"]),
};

const revisionPage = {
  $id: "RevisionPage",
  ...object(
    {
      revisions: {
        type: "array",
        items: object({ n: count, at: time, who: text, action: text, app: text, policy: text, summary: text }, [
          "app",
          "policy",
        ]),
      },
      next: count,
    },
    ["next"],
  ),
};

const fleet = {
  $id: "Fleet",
  ...object({
    revision: count,
    gateways: {
      type: "array",
      items: object(
        {
          id: text,
          connected: { type: "boolean" },
          connectedAt: time,
          disconnectedAt: time,
          version: text,
          workers: count,
          revision: count,
          lag: { ...count, description: "Revisions behind." },
          refused: {
            anyOf: [object({ revision: count, at: time, errors: problems }), { type: "null" }],
          },
          counters: { type: "object", additionalProperties: { type: "number" } },
        },
        ["disconnectedAt"],
      ),
    },
  }),
};

export const sharedSchemas = [problem, policy, change, app, validity, policyPage, appPage, revisionPage, fleet];

export type SharedSchema =
  | "Problem"
  | "Policy"
  | "Change"
  | "App"
  | "Validity"
  | "PolicyPage"
  | "AppPage"
  | "RevisionPage"
  | "Fleet";

/** Responses by status, and problems for the rest. */
export function answers(responses: Readonly<Record<number, SharedSchema | string>>): JsonSchema {
  const described: Record<string, JsonSchema> = {
    "4xx": problemAnswer("The request cannot be served; `code` says why."),
    "5xx": problemAnswer("The control plane failed."),
  };
  for (const [status, schema] of Object.entries(responses)) {
    described[status] = { description: schema, $ref: `${schema}#` };
  }
  return described;
}

function problemAnswer(description: string): JsonSchema {
  return { description, content: { "application/problem+json": { schema: { $ref: "Problem#" } } } };
}

function object(properties: Record<string, JsonSchema>, optional: readonly string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", additionalProperties: false, required, properties };
}

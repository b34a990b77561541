// The policy document as JSON Schema, derived from the shape that the validator walks. It is for people and their tools to
// read; it does not decide whether a document is valid.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Field, Shape } from "@sluice/limiter/document/shape.ts";
import { templateFields } from "../templates/resolve-templates.ts";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** The schema of a document as gateways get it. */
export const policySchema: JsonSchema = schemaOf(policyShape);

/** The schema of a stored document, which may refer to templates. */
export const storedPolicySchema: JsonSchema = {
  ...policySchema,
  properties: { ...(policySchema["properties"] as Record<string, JsonSchema>), ...templatedFields() },
};

/** The schema of a document that is put among others, which may leave what a policy needs to a template of the library. */
export const namedPolicySchema: JsonSchema = {
  ...storedPolicySchema,
  properties: {
    ...(storedPolicySchema["properties"] as Record<string, JsonSchema>),
    template: {
      type: "string",
      maxLength: 63,
      description:
        "Name of a policy of the library. What the document does not say is taken from there when it is stored: of `match` field by field, of everything else whole.",
    },
  },
  required: ["name"],
};

/** The schema of a document in a PUT, which may leave its name to the URL too. */
export const policyBodySchema: JsonSchema = { ...namedPolicySchema, required: [] };

/** Derives the schema of a shape. It is never stricter than the shape, and looser where the shape checks by code. */
export function schemaOf(shape: Shape): JsonSchema {
  switch (shape.kind) {
    // maxLength counts characters and maxBytes counts bytes: a text of at most so many bytes has at most so many characters.
    case "text":
      return { type: "string", maxLength: shape.maxBytes, "x-expected": shape.expected };
    case "integer":
      return { type: "integer", minimum: shape.min, maximum: shape.max };
    case "duration":
      return {
        type: "string",
        pattern: "^[0-9]{1,15}(ms|s|m|h|d)$",
        "x-expected": `a duration from ${shape.min} to ${shape.max}`,
        examples: ["500ms", "30s", "1d"],
      };
    case "choice":
      return { type: "string", enum: shape.of };
    case "boolean":
      return { type: "boolean" };
    case "list":
      return { type: "array", items: schemaOf(shape.of), minItems: shape.minItems, maxItems: shape.maxItems };
    case "map":
      return {
        type: "object",
        propertyNames: schemaOf(shape.names),
        additionalProperties: schemaOf(shape.of),
        minProperties: shape.minItems,
        maxProperties: shape.maxItems,
      };
    case "either":
      return { anyOf: shape.of.map(schemaOf) };
    case "record":
      return recordSchema(shape.fields);
  }
}

function templatedFields(): Record<string, JsonSchema> {
  const reference = {
    type: "object",
    additionalProperties: false,
    required: ["template"],
    properties: {
      template: { type: "string", description: "Name of a template of the app, or of an action of the library." },
    },
  };
  const properties = policySchema["properties"] as Record<string, JsonSchema>;
  return Object.fromEntries(
    templateFields.map((name) => {
      const { description, default: absent, ...field } = properties[name] as JsonSchema;
      const templated = { description, anyOf: [field, reference] };
      return [name, absent === undefined ? templated : { ...templated, default: absent }];
    }),
  );
}

function recordSchema(fields: Readonly<Record<string, Field>>): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(fields)) {
    properties[name] = {
      ...schemaOf(field.shape),
      description: field.description,
      ...(field.default === undefined ? {} : { default: field.default }),
    };
    if (field.required === true) required.push(name);
  }
  return { type: "object", additionalProperties: false, required, properties };
}

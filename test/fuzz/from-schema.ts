// Makes values by JSON Schema: those that the schema accepts, and those that it nearly accepts.

import fc from "fast-check";
import type { JsonSchema } from "../fixtures/clients/described-answers.ts";
import { hostileTexts, hostileValues } from "./hostile.ts";

/** @returns values that the schema accepts, if it says enough; rules that exist only as code refuse some of them */
export function fromSchema(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { enum: choices, anyOf, allOf, examples } = schema as { [keyword: string]: readonly unknown[] | undefined };
  if (choices !== undefined) return fc.constantFrom(...choices);
  if (anyOf !== undefined) return fc.oneof(...anyOf.map((one) => fromSchema(one as JsonSchema)));
  if (allOf !== undefined) return fromSchema(Object.assign({}, ...allOf) as JsonSchema);
  if (examples !== undefined) return fc.constantFrom(...examples);
  switch (schema["type"]) {
    case "object":
      return objects(schema);
    case "array":
      return fc.array(fromSchema((schema["items"] ?? {}) as JsonSchema), { maxLength: 3 });
    case "integer":
    case "number": {
      const { minimum: min = 0, maximum: max = 1000 } = schema as { minimum?: number; maximum?: number };
      return fc.oneof(fc.integer({ min, max: Math.min(max, min + 30) }), fc.constantFrom(min, max));
    }
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "string":
      return textsOf(schema);
    default:
      return hostileValues;
  }
}

/** @returns texts for a path or a query: mostly accepted, some just beyond a bound, some of another type */
export function textsNear(schema: JsonSchema): fc.Arbitrary<string> {
  const valid = fromSchema(schema).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return fc.oneof(
    { weight: 8, arbitrary: valid },
    { weight: 1, arbitrary: fc.constantFrom(...beyond(schema)) },
    { weight: 1, arbitrary: hostileTexts.map((text) => text.slice(0, 1200)) },
  );
}

function beyond({ type, minimum = 0, maximum = 1000, maxLength = 255 }: JsonSchema): string[] {
  if (type === "integer" || type === "number") {
    return [`${Number(minimum) - 1}`, `${Number(maximum) + 1}`, `${Number(minimum) + 0.5}`, "1e3", "0x1", "", "NaN"];
  }
  if (type === "boolean") return ["True", "1", "", "yes"];
  return ["", " ", "a".repeat(Number(maxLength) + 1), "61s", "-1s", "2026-13-01T00:00:00Z", "[", "null"];
}

function objects(schema: JsonSchema): fc.Arbitrary<unknown> {
  const {
    properties = {},
    required = [],
    additionalProperties,
    propertyNames,
  } = schema as {
    properties?: Readonly<Record<string, JsonSchema>>;
    required?: readonly string[];
    additionalProperties?: JsonSchema | boolean;
    propertyNames?: JsonSchema;
  };
  if (typeof additionalProperties === "object") {
    const names = propertyNames === undefined ? fc.constantFrom("a", "b") : textsOf(propertyNames);
    return fc.dictionary(names as fc.Arbitrary<string>, fromSchema(additionalProperties), { maxKeys: 3 });
  }
  const fields = Object.fromEntries(Object.entries(properties).map(([name, of]) => [name, fieldOf(name, of)]));
  return fc.record(fields, { requiredKeys: required.filter((name) => name in fields) });
}

const ofFormats: Readonly<Record<string, readonly string[]>> = {
  "date-time": ["2026-11-23T00:00:00Z", "2099-01-01T00:00:00.5+01:00", "1970-01-01T00:00:00Z"],
  wait: ["0s", "1ms", "20ms"],
};

function textsOf({ format }: JsonSchema): fc.Arbitrary<string> {
  const known = ofFormats[String(format)];
  if (known !== undefined) return fc.constantFrom(...known);
  return fc.constantFrom(
    "a",
    "b",
    "1h",
    "10.0.0.0/8",
    "2001:db8::1",
    "2099-01-01T00:00:00Z",
    "default",
    "shop",
    "/",
    "*",
  );
}

/** Values that fields of these names usually have. */
const usual: Readonly<Record<string, readonly string[]>> = {
  for: ["1h", "1s", "3650d"],
  expiresIn: ["1h", "1s", "3650d"],
  until: ["2099-01-01T00:00:00Z", "2099-01-01T00:00:00.5+01:00"],
  cidr: ["192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "::ffff:192.0.2.1"],
  policy: ["a", "b", "c", "constructor"],
  app: ["shop", "bank", "default"],
  member: ["ann", "bob", "constructor"],
  name: ["a", "b", "c", "ann", "constructor"],
  limit: ["default"],
};

function fieldOf(name: string, schema: JsonSchema): fc.Arbitrary<unknown> {
  const values = usual[name];
  if (values === undefined || schema["type"] !== "string") return fromSchema(schema);
  return fc.constantFrom(...values);
}

// Makes requests to the API: every route of openapi.json, by every role, with bodies made from their schemas and changed at some
// places, and with hostile parameters, methods and headers.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import fc from "fast-check";
import { documents, likelyDocuments } from "../fixtures/documents/policy-documents.ts";
import { changed, changedText, changes, hostileTexts, hostileValues, textChanges } from "./hostile.ts";

export const roles = ["admin", "owner", "editor", "viewer", "caller", "gateway", "stranger", "nobody"] as const;
export type Role = (typeof roles)[number];

/** The app that the roles for one app belong to. */
export const ownApp = "shop";
export const apps = ["default", ownApp, "bank"] as const;

export interface Operation {
  readonly method: string;
  /** The path with its parameters as {names}. */
  readonly path: string;
  readonly parameters: readonly string[];
  readonly body: JsonSchema | undefined;
}

interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly minimum?: number;
  readonly maximum?: number;
}

interface Described {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>> };
}

/** @param description the content of openapi.json */
export function operationsOf(description: {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}): Operation[] {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      parameters: parameters.filter((one) => one.in === "query").map(({ name }) => name),
      body: requestBody?.content["application/json"]?.schema,
    })),
  );
}

export interface ApiRequest {
  readonly role: Role;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

const names = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("a", "b", "c", "polite", "constructor", "__proto__", "0", "validate") },
  { weight: 1, arbitrary: hostileTexts.map((text) => text.slice(0, 1200)) },
);

/** Stands for the id of a thing that exists; the real id, which the server chose, takes its place. */
export const anId = "an-id-that-there-is";

const segments: Readonly<Record<string, fc.Arbitrary<string>>> = {
  app: fc.oneof({ weight: 8, arbitrary: fc.constantFrom<string>(...apps) }, { weight: 1, arbitrary: names }),
  ban: fc.oneof({ weight: 3, arbitrary: fc.constant(anId) }, { weight: 1, arbitrary: names }),
  id: fc.oneof({ weight: 3, arbitrary: fc.constant(anId) }, { weight: 1, arbitrary: names }),
};

const parameterValues = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("a", "1", "0s", "1s", "true", "100", "203.0.113.7", '["a"]', "*") },
  { weight: 1, arbitrary: hostileTexts.map((text) => text.slice(0, 1200)) },
);

const headers = fc.oneof(
  { weight: 8, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(
        fc.constantFrom("if-match", "if-none-match"),
        fc.constantFrom("*", '"1"', '"0"', "1", 'W/"1"', '"1", "2"', '"', '""', '"__proto__"', "*, *"),
      )
      .map(([name, value]) => ({ [name]: value })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Readonly<Record<string, string>>>(
      { "content-type": "text/plain" },
      { "content-type": "application/json; charset=utf-16" },
      { "content-type": "application/yaml" },
      { "content-type": "" },
      { "content-encoding": "gzip" },
      { upgrade: "websocket", connection: "upgrade" },
      { "x-http-method-override": "DELETE" },
      { accept: "text/html" },
      { origin: "https://elsewhere.example" },
    ),
  },
);

export function apiRequests(operations: readonly Operation[]): fc.Arbitrary<ApiRequest> {
  const one = fc.constantFrom(...operations).chain((operation) =>
    fc.record({
      role: fc.oneof(
        { weight: 3, arbitrary: fc.constant<Role>("admin") },
        { weight: 4, arbitrary: fc.constantFrom(...roles) },
      ),
      method: fc.oneof(
        { weight: 12, arbitrary: fc.constant(operation.method) },
        {
          weight: 1,
          arbitrary: fc.constantFrom("GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "QUERY"),
        },
      ),
      path: pathsOf(operation),
      headers,
      body: bodiesOf(operation),
    }),
  );
  return one.map(({ headers: others, body, ...rest }) => ({
    ...rest,
    body,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...others },
  }));
}

function pathsOf({ path, parameters }: Operation): fc.Arbitrary<string> {
  const placed = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const query = fc.array(
    fc.tuple(
      parameters.length === 0
        ? names
        : fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...parameters) }, { weight: 1, arbitrary: names }),
      parameterValues,
    ),
    { maxLength: 3 },
  );
  return fc.tuple(fc.tuple(...placed.map((name) => segments[name] ?? names)), query).map(([values, pairs]) => {
    const filled = values.reduce((text, value) => text.replace(/\{\w+\}/, () => encoded(value)), path);
    const asked = pairs.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
    return asked === "" ? filled : `${filled}?${asked}`;
  });
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function bodiesOf({ path, body }: Operation): fc.Arbitrary<string | undefined> {
  if (body === undefined) {
    const none = { weight: 9, arbitrary: fc.constant(undefined) };
    return fc.oneof(none, { weight: 1, arbitrary: fc.constantFrom("", "{}", "null", "[", '{"a":1}') });
  }
  const isPolicy = path.includes("/policies");
  const trees = isPolicy
    ? fc.oneof({ weight: 4, arbitrary: likelyDocuments }, { weight: 1, arbitrary: documents(policyShape) })
    : fromSchema(body);
  return fc
    .tuple(
      fc.oneof({ weight: 12, arbitrary: trees }, { weight: 1, arbitrary: hostileValues }),
      fc.oneof(
        { weight: 1, arbitrary: fc.constant([]) },
        { weight: 2, arbitrary: fc.array(changes, { maxLength: 3 }) },
      ),
      fc.oneof(
        { weight: 5, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: fc.array(textChanges, { maxLength: 2 }) },
      ),
    )
    .map(([tree, by, then]) => changedText(JSON.stringify(changed(nameless(tree), ...by)) ?? "", ...then));
}

/** Removes the name, since the URL has it. A different name in the document is one of the faults, and must not be in each. */
function nameless(tree: unknown): unknown {
  if (typeof tree !== "object" || tree === null || Array.isArray(tree) || !("limits" in tree)) return tree;
  const { name: _, ...rest } = tree as unknown as { name: unknown };
  return rest;
}

/** @returns values that the schema accepts, if it says enough; rules that exist only as code refuse some of them */
function fromSchema(schema: JsonSchema): fc.Arbitrary<unknown> {
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(fromSchema));
  switch (schema.type) {
    case "object": {
      const properties = Object.entries(schema.properties ?? {});
      const fields = Object.fromEntries(properties.map(([name, of]) => [name, fieldOf(name, of)]));
      return fc.record(fields, { requiredKeys: [...(schema.required ?? [])].filter((name) => name in fields) });
    }
    case "array":
      return fc.array(fromSchema(schema.items ?? {}), { maxLength: 3 });
    case "integer":
    case "number":
      return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1000 });
    case "boolean":
      return fc.boolean();
    case "string":
      return fc.constantFrom("a", "b", "1h", "10.0.0.0/8", "2001:db8::1", "2099-01-01T00:00:00Z", "default", "/", "*");
    default:
      return hostileValues;
  }
}

/** Values that fields of these names usually have. */
const usual: Readonly<Record<string, readonly string[]>> = {
  for: ["1h", "1s", "3650d"],
  expiresIn: ["1h", "1s", "3650d"],
  until: ["2099-01-01T00:00:00Z", "2099-01-01T00:00:00.5+01:00"],
  cidr: ["192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "::ffff:192.0.2.1"],
  policy: ["a", "b", "c", "constructor"],
  app: [...apps],
  limit: ["default"],
};

function fieldOf(name: string, schema: JsonSchema): fc.Arbitrary<unknown> {
  const values = usual[name];
  if (values === undefined || schema.type !== "string") return fromSchema(schema);
  return fc.constantFrom(...values);
}

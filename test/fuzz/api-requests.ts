// Makes requests to the API: every route of openapi.json, by everybody who may try, with parameters and bodies made from their
// schemas and changed at some places, and with hostile methods and headers.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import fc from "fast-check";
import { type Asker, askers } from "../../control-plane/src/plugins/route-table.ts";
import type { Operation } from "../fixtures/clients/described-answers.ts";
import { documents, likelyDocuments } from "../fixtures/documents/policy-documents.ts";
import { fromSchema, textsNear } from "./from-schema.ts";
import { changed, changedText, changes, hostileTexts, hostileValues, seldom, textChanges } from "./hostile.ts";

/** The app that the roles for one app belong to; a stranger owns the other one. */
export const ownApp = "shop";
export const otherApp = "bank";
export const apps = ["default", ownApp, otherApp] as const;

export interface ApiRequest {
  readonly asker: Asker;
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

const someId = fc.oneof({ weight: 3, arbitrary: fc.constant(anId) }, { weight: 1, arbitrary: names });

/** By the name of the parameter. */
const segments: Readonly<Record<string, fc.Arbitrary<string>>> = {
  app: fc.oneof({ weight: 8, arbitrary: fc.constantFrom<string>(...apps) }, { weight: 1, arbitrary: names }),
  ban: someId,
  id: someId,
  member: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("ann", "bob", "a", "b") }, { weight: 1, arbitrary: names }),
};

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
      asker: fc.oneof(
        { weight: 1, arbitrary: fc.constant<Asker>("admin") },
        { weight: 4, arbitrary: fc.constantFrom(...askers) },
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
  const values = placed.map((name) => {
    const { schema = {} } = parameters.find((one) => one.in === "path" && one.name === name) ?? {};
    return segments[name] ?? (schema["type"] === "string" ? names : textsNear(schema));
  });
  return fc.tuple(fc.tuple(...values), queriesOf(parameters)).map(([given, pairs]) => {
    const filled = given.reduce((text, value) => text.replace(/\{\w+\}/, () => encoded(value)), path);
    const asked = pairs.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
    return asked === "" ? filled : `${filled}?${asked}`;
  });
}

/** Those that are described, with values of their schemas; now and then one twice, or one that is not described. */
function queriesOf(parameters: Operation["parameters"]): fc.Arbitrary<[string, string][]> {
  const described = parameters.filter((one) => one.in === "query");
  const pairs = described.map(({ name, schema, required = false }) => {
    const values = textsNear(usualTexts[name] === undefined ? schema : { examples: usualTexts[name] });
    return seldom(
      values.map((value): [string, string] => [name, value]),
      required ? 1 : 4,
    );
  });
  const odd = fc.oneof(names, fc.constantFrom("limit", "after", ...described.map(({ name }) => name)));
  const another = seldom(fc.tuple(odd, textsNear({ type: "string" })), 12);
  return fc
    .tuple(fc.tuple(...pairs), another)
    .map(([given, more]) => [...given, more].filter((one) => one !== undefined) as [string, string][]);
}

/** By the name of the parameter: what is there, so that much is asked about something. */
const usualTexts: Readonly<Record<string, readonly string[]>> = {
  policy: ["a", "b", "c"],
  app: [...apps],
  key: ["203.0.113.7", '["a"]', "a"],
  before: ["5", "000001900000000-r0000000000000005"],
};

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

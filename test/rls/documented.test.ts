// docs/envoy.md: Envoy has every field of the configuration that is shown, the map that is shown is one, and the rule does what its table says.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { loadSync } from "@grpc/proto-loader";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { DescriptorMap } from "../../rls/src/descriptor-map.ts";
import { questionsOf } from "../../rls/src/descriptors.ts";
import { descriptor } from "../fixtures/clients/envoy-client.ts";

const text = readFileSync(resolve(import.meta.dirname, "../../docs/envoy.md"), "utf8");
const examples = [...text.matchAll(/```yaml\n(.*?)```/gs)].map(([, example]) => example as string);

interface Field {
  readonly name: string;
  readonly typeName: string;
  readonly type: string;
}

const root = dirname(createRequire(import.meta.url).resolve("@grpc/grpc-js-xds/package.json"));
const protocol = loadSync(
  [
    "envoy/extensions/filters/http/ratelimit/v3/rate_limit.proto",
    "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto",
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/extensions/upstreams/http/v3/http_protocol_options.proto",
  ],
  {
    includeDirs: ["envoy-api", "xds", "googleapis", "protoc-gen-validate"].map((name) => join(root, "deps", name)),
    keepCase: true,
  },
);

interface Message {
  readonly name: string;
  readonly field: readonly Field[];
  readonly nestedType: readonly Message[];
}

/** By full name. */
const messages = new Map<string, Message>();
function add(name: string, message: Message): void {
  messages.set(name, message);
  for (const inner of message.nestedType) add(`${name}.${inner.name}`, inner);
}
for (const [name, { type }] of Object.entries(protocol) as unknown as [string, { type?: Message }][]) {
  if (type?.field !== undefined) add(name, type);
}

function fieldsOf(name: string): readonly Field[] {
  const message = messages.get(name);
  if (message === undefined) throw new Error(`expected a message of Envoy, got ${name}`);
  return message.field;
}

/** Names are written from the package of the message on, or from one above it. */
function nameOf(written: string, message: string): string {
  const scope = message.split(".");
  for (let length = scope.length; length >= 0; length--) {
    const name = [...scope.slice(0, length), written].join(".");
    if (messages.has(name)) return name;
  }
  return written.replace(/^\./, "");
}

/** @returns the paths at which there is something that Envoy's message has not */
function mistakesIn(message: string, value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((one, i) => mistakesIn(message, one, `${path}[${i}]`));
  if (typeof value !== "object" || value === null) return [];
  const { "@type": any, ...fields } = value as Record<string, unknown>;
  if (typeof any === "string") return mistakesIn(any.replace("type.googleapis.com/", ""), fields, path);
  if (message.endsWith("google.protobuf.Any")) return [`${path}: no @type`];
  return Object.entries(fields).flatMap(([name, inner]) => {
    const field = fieldsOf(message).find((one) => one.name === name);
    const at = `${path}.${name}`;
    if (field === undefined) return [`${at} is no field of ${message}`];
    if (field.type !== "TYPE_MESSAGE" || typeof inner !== "object") return [];
    const type = nameOf(field.typeName, message);
    // A map is a list of messages with key and value, whose keys can be anything.
    const isMap = !Array.isArray(inner) && fieldsOf(type).every((one) => one.name === "key" || one.name === "value");
    if (!isMap || fieldsOf(type).length < 2) return mistakesIn(type, inner, at);
    return Object.values(inner as object).flatMap((one) => mistakesIn("google.protobuf.Any", one, at));
  });
}

it.each([
  ["filter", "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter", 0],
  ["rate limits of a route", "envoy.config.route.v3.RouteAction", 1],
  ["cluster", "envoy.config.cluster.v3.Cluster", 2],
])("Envoy has every field of the %s that is shown", (_, message, place) => {
  const example = parse(examples[place] as string);
  expect(mistakesIn(message, example)).toEqual([]);
  expect(mistakesIn(message, { ...example, misspelt: 1 })).toEqual([`.misspelt is no field of ${message}`]);
});

it("the map that is shown does what its comments say", () => {
  const map = new DescriptorMap(examples[3] as string);
  expect(map.domains).toEqual(new Set(["edge", "internal"]));
  const targets = [
    map.targetOf("edge", descriptor("plan", "free", "remote_address", "192.0.2.1").entries),
    map.targetOf("internal", descriptor("plan", "free", "remote_address", "192.0.2.1").entries),
    map.targetOf("internal", descriptor("plan", "free", "remote_address", "192.0.2.1", "user", "ann").entries),
  ];
  expect(targets).toEqual([
    { policy: "free-by-address", key: ["192.0.2.1"] },
    undefined,
    { policy: "by-user", key: ["ann", "192.0.2.1"] },
  ]);
});

it("the rule does what its table of examples says", () => {
  const rows = [...text.matchAll(/^\| (`(\w+)`|any domain), (.*?) \| `([^`]+)` \| (.*) \|$/gm)];
  expect(rows).toHaveLength(4);
  for (const [row, , domain = "any", entries, policy, key] of rows) {
    const texts = [...(entries as string).matchAll(/\(`(\w+)`, ([^)]+)\)/g)].flatMap(([, name, value]) => [
      name,
      value,
    ]);
    const request = {
      domain,
      hitsAddend: 0,
      descriptors: [{ ...descriptor(...(texts as string[])), limit: null, hitsAddend: null, isNegativeHits: false }],
    };
    const expected = (key as string).startsWith("none") ? [] : (key as string).split(", ");
    expect(questionsOf(request, undefined), row).toMatchObject([{ policy, key: expected }]);
  }
});

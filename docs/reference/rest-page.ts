// The parts of docs/rest.md that openapi.json says: each resource's routes with their parameters, bodies, answers and refusals, and the
// fields of every answer.

import { errorCatalogue } from "../../control-plane/src/errors/catalogue.ts";
import type { RouteRow } from "../../control-plane/src/plugins/route-table.ts";
import { type Right, rolesWith } from "../../control-plane/src/rights/caller.ts";
import { commonRefusals } from "../../control-plane/src/schemas/described-route.ts";
import type { Api } from "./api.ts";

interface JsonSchema {
  readonly [keyword: string]: unknown;
}

interface Operation {
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>> };
  readonly responses: Readonly<Record<string, Answer>>;
  readonly "x-access": RouteRow["access"];
  readonly "x-records": RouteRow["records"];
}

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

interface Answer {
  readonly description: string;
  readonly headers?: object;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

const everywhere = new Set<string>(
  ["GET", "POST"].flatMap((method) =>
    commonRefusals({
      method,
      isPublic: false,
      records: true,
      conditions: undefined,
      limited: true,
      comparesDocuments: true,
    }),
  ),
);

/** The documents that have a page of their own. */
const ownPages: Readonly<Record<string, string>> = { Policy: "policies.md", Template: "#templates" };

/** @returns the parts by their names: `routes of TAG`, for each tag; `answers` */
export function restParts({ description }: Api): Map<string, string> {
  const { paths, components } = description as Document;
  const parts = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag] = operation.tags ?? [];
      if (tag === undefined)
        throw new Error(`${method.toUpperCase()} ${path}: expected a tag, the resource that it is about`);
      const part = parts.get(`routes of ${tag}`) ?? [];
      part.push(sectionOf(method.toUpperCase(), path, operation, components.schemas));
      parts.set(`routes of ${tag}`, part);
    }
  }
  const schemas = Object.entries(components.schemas).filter(([name]) => !Object.hasOwn(ownPages, name));
  parts.set(
    "answers",
    schemas.map(([name, schema]) => `### ${name}\n\n${fieldTable(fieldsOf(schema, false))}`),
  );
  parts.set("refusals of every route", [refusalTable([...everywhere])]);
  return new Map([...parts].map(([name, sections]) => [name, sections.join("\n\n")]));
}

function sectionOf(
  method: string,
  path: string,
  operation: Operation,
  schemas: Document["components"]["schemas"],
): string {
  const { summary = "", description, parameters = [], requestBody } = operation;
  const query = parameters.filter((one) => one.in === "query");
  const versions = parameters.some(({ name }) => name === "if-match")
    ? " Honours [If-Match and If-None-Match](#concurrent-edits-etag-and-if-match)."
    : "";
  const body = requestBody?.content["application/json"]?.schema;
  return [
    `### ${method} ${path.replace("/api/v1", "")}`,
    [`${summary}.`, description ?? ""].join(" ").trim(),
    `For ${askersOf(operation["x-access"], path.includes("{app}") ? "the" : "an")}.${leaves[operation["x-records"]]}${versions}`,
    ...(query.length === 0 ? [] : [parameterTable(query)]),
    ...(body === undefined ? [] : [bodyOf(body, schemas)]),
    answerTable(operation.responses),
  ].join("\n\n");
}

const leaves: Readonly<Record<RouteRow["records"], string>> = {
  nothing: "",
  revision: " Leaves a [revision](#history).",
  audit: " Leaves an entry in the [audit trail](#audit-trail).",
};

function askersOf(access: RouteRow["access"], article: string): string {
  switch (access) {
    case "public":
      return "everybody, without a token";
    case "gateway":
      return "gateways";
    case "own":
      return "admins";
    case "person":
      return "everybody who is signed in, or sends a token that is not a gateway's or a caller's";
    case "member":
      return "members, about themselves; owners of an app, about it; and admins";
    default:
      return `${rolesIn(access)} of ${article} app, and admins`;
  }
}

function rolesIn(right: Right): string {
  const roles = rolesWith(right).map((role) => `${role}s`);
  return roles.length === 1 ? (roles[0] as string) : `${roles.slice(0, -1).join(", ")} and ${roles.at(-1)}`;
}

function parameterTable(parameters: readonly Parameter[]): string {
  return tableOf(
    ["parameter", "value", "meaning"],
    parameters.map(({ name, required = false, description = "", schema }) => [
      `\`${name}\`${required ? " (required)" : ""}`,
      `${valueIn(schema)}${absent(schema)}`,
      description,
    ]),
  );
}

function bodyOf(schema: JsonSchema, schemas: Document["components"]["schemas"]): string {
  const names = Object.keys((schema["properties"] ?? {}) as object);
  const policy = Object.keys((schemas["Policy"]?.["properties"] ?? {}) as object);
  if (names.includes("limits") && names.every((name) => policy.includes(name))) return "Body: a [policy](policies.md).";
  if (names.every((name) => policy.includes(name) && name !== "name")) {
    return `Body: one of ${names.map((name) => `\`${name}\``).join(" and ")}, as in a [policy](policies.md#fields).`;
  }
  return fieldTable(fieldsOf(schema, true), "field of the body");
}

function answerTable(responses: Operation["responses"]): string {
  const rows: string[][] = [];
  for (const [status, { content, description }] of Object.entries(responses)) {
    const problem = content?.["application/problem+json"]?.schema;
    if (problem !== undefined) {
      const codes = codesOf(problem).filter((code) => !everywhere.has(code));
      if (codes.length > 0) rows.push([status, codes.map((code) => `[\`${code}\`](errors.md)`).join(", ")]);
      continue;
    }
    const reference = content?.["application/json"]?.schema["$ref"];
    const name = typeof reference === "string" ? reference.split("/").at(-1) : undefined;
    const shown = name === undefined ? description : linkTo(name);
    const last = rows.at(-1);
    if (last?.[1] === shown) last[0] = `${last[0]}, ${status}`;
    else rows.push([status, shown]);
  }
  return tableOf(["status", "answer"], rows);
}

function linkTo(name: string): string {
  return `[${name}](${ownPages[name] ?? `#${name.toLowerCase()}`})`;
}

function codesOf(schema: JsonSchema): string[] {
  const [, narrowed] = schema["allOf"] as [unknown, { properties: { code: { enum: string[] } } }];
  return narrowed.properties.code.enum;
}

function refusalTable(codes: readonly string[]): string {
  const rows = codes.map((code) => {
    const { status, meaning } = errorCatalogue[code as keyof typeof errorCatalogue];
    return [`${status}`, `\`${code}\``, meaning] as const;
  });
  return tableOf(
    ["status", "code", "meaning"],
    rows.sort(([a], [b]) => Number(a) - Number(b)),
  );
}

interface FieldRow {
  /** With the fields that it is in: `gateways[].id`. */
  readonly path: string;
  readonly value: string;
  readonly description: string;
}

/** Lists the fields of an object and of the objects within it, as far as the schema names them. */
function fieldsOf(schema: JsonSchema, isBody: boolean, prefix = ""): FieldRow[] {
  const { properties = {}, required = [] } = schema as {
    properties?: Readonly<Record<string, JsonSchema>>;
    required?: readonly string[];
  };
  return Object.entries(properties).flatMap(([name, of]) => {
    const isRequired = required.includes(name);
    const optional = isBody ? (isRequired ? " (required)" : "") : isRequired ? "" : " (may be absent)";
    const row = {
      path: `${prefix}${name}`,
      value: `${valueIn(of)}${absent(of)}${optional}`,
      description: String(of["description"] ?? ""),
    };
    const choices = (of["anyOf"] ?? [of]) as readonly JsonSchema[];
    const inner = choices.flatMap((one) => {
      if (one["type"] === "array") return fieldsOf((one["items"] ?? {}) as JsonSchema, isBody, `${prefix}${name}[].`);
      return fieldsOf(one, isBody, `${prefix}${name}.`);
    });
    return [row, ...inner];
  });
}

function fieldTable(rows: readonly FieldRow[], heading = "field"): string {
  if (rows.length === 0) return "An empty object.";
  return tableOf(
    [heading, "value", "meaning"],
    rows.map(({ path, value, description }) => [`\`${path}\``, value, description]),
  );
}

function valueIn(schema: JsonSchema): string {
  const {
    enum: choices,
    type,
    anyOf,
    $ref,
    items,
    minimum,
    maximum,
    format,
  } = schema as {
    enum?: readonly unknown[];
    type?: string;
    anyOf?: readonly JsonSchema[];
    $ref?: string;
    items?: JsonSchema;
    minimum?: number;
    maximum?: number;
    format?: string;
  };
  const expected = schema["x-expected"];
  if (typeof expected === "string") return expected;
  if ($ref !== undefined) return linkTo($ref.split("/").at(-1) as string);
  if (choices !== undefined) return choices.map((one) => `\`${one}\``).join(", ");
  if (anyOf !== undefined) return [...new Set(anyOf.flatMap((one) => valueIn(one).split(", or ")))].join(", or ");
  if (type === "array") return items?.["type"] === "object" ? "a list of objects" : `a list: ${valueIn(items ?? {})}`;
  if (type === "object")
    return typeof schema["additionalProperties"] === "object"
      ? `an object: by name, ${valueIn(schema["additionalProperties"] as JsonSchema)}`
      : "an object";
  if (format === "date-time") return "a time, as in RFC 3339";
  if (type === "integer" && minimum !== undefined && maximum !== undefined)
    return `an integer from ${minimum} to ${maximum}`;
  return kinds[String(type)] ?? "any JSON";
}

const kinds: Readonly<Record<string, string>> = {
  string: "a text",
  integer: "an integer",
  number: "a number",
  boolean: "true or false",
  null: "null",
};

function absent({ default: value }: JsonSchema): string {
  return value === undefined || value === "" ? "" : `; ${JSON.stringify(value)} if absent`;
}

function tableOf(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
  return [line(headings), line(headings.map(() => "---")), ...rows.map(line)].join("\n");
}

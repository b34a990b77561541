// What openapi.json says of a route beyond its own schema: the refusals that each route may answer, and the headers by which clients
// name versions.

import { type ErrorCode, errorCatalogue } from "../errors/catalogue.ts";
import type { JsonSchema } from "./policy-schema.ts";

/**
 * What a route does with versions. read: its answer has an `ETag`, and 304 is answered to a client that has this version. change: it
 * is carried out only on the version that the request names.
 */
export type Conditions = "read" | "change";

/** What decides how a route may refuse. */
export interface Refusing {
  readonly method: string;
  readonly isPublic: boolean;
  /** Whether it writes to the database. */
  readonly records: boolean;
  readonly conditions: Conditions | undefined;
  /** Whether limits of requests count requests for it. */
  readonly limited: boolean;
  /** Whether requests for it may show what changed in documents. */
  readonly comparesDocuments: boolean;
  /** The refusals of this route alone. */
  readonly refuses: readonly ErrorCode[];
  /** Whether a browser gets its refusals as pages. */
  readonly pages: boolean;
}

const text = { type: "string" };

const ofEvery: readonly ErrorCode[] = [
  "invalid-request",
  "bad-request",
  "request-timeout",
  "headers-too-large",
  "internal",
];
const ofPrivate: readonly ErrorCode[] = [
  "unauthorized",
  "forbidden",
  // A session's cookie came with it, and another site's page, or one of another session, may have sent it.
  "cross-site-request",
  "too-many-failed-sign-ins",
  "database-busy",
  "database-unreachable",
];
/** Of each method but GET, whether the route has a use for the body or not. */
const ofBodies: readonly ErrorCode[] = [
  "malformed-body",
  "body-too-large",
  "unsupported-media-type",
  "yaml-busy",
  "bodies-busy",
];
const ofChanges: readonly ErrorCode[] = ["storage-unwritable", "storage-full"];

/** Returns the refusals that do not depend on what the route is for. */
export function commonRefusals({
  method,
  isPublic,
  records,
  conditions,
  limited,
  comparesDocuments,
}: Omit<Refusing, "refuses" | "pages">): ErrorCode[] {
  return [
    ...ofEvery,
    ...(isPublic ? [] : ofPrivate),
    ...(limited ? (["too-many-requests"] as const) : []),
    ...(method === "GET" ? [] : ofBodies),
    ...(comparesDocuments ? (["reads-busy"] as const) : []),
    ...(records ? ofChanges : []),
    ...(conditions === "change" ? (["precondition-failed"] as const) : []),
  ];
}

/** Returns the responses by status. */
export function refusals(route: Refusing): Record<string, JsonSchema> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set([...commonRefusals(route), ...route.refuses])) {
    const { status } = errorCatalogue[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [String(status), refusal(status, codes, route.pages)]),
  );
}

function refusal(status: number, codes: readonly ErrorCode[], pages: boolean): JsonSchema {
  const narrowed = { type: "object", properties: { status: { enum: [status] }, code: { enum: codes } } };
  const headers = headersOfStatus[status];
  return {
    description: codes.map((code) => `${code}: ${errorCatalogue[code].meaning}`).join("\n\n"),
    ...(headers === undefined ? {} : { headers }),
    content: {
      "application/problem+json": { schema: { allOf: [{ $ref: "Problem#" }, narrowed] } },
      ...(pages ? { "text/html": { schema: text } } : {}),
    },
  };
}

const headersOfStatus: Readonly<Record<number, JsonSchema>> = {
  401: { "www-authenticate": { ...text, description: "Bearer." } },
  429: { "retry-after": { ...text, description: "Seconds after which to try again." } },
  503: { "retry-after": { ...text, description: "Seconds after which to try again, if it is known." } },
};

const ifMatch = {
  ...text,
  description: 'Carry the request out only if the stored version is this ETag, like "7"; * stands for any version.',
};

const ifNoneMatch: Readonly<Record<Conditions, JsonSchema>> = {
  read: { ...text, description: "Answer 304 without a body while the version is still this ETag." },
  change: {
    ...text,
    description: "*: carry the request out only if there is no version yet, so that it creates and never replaces.",
  },
};

/** Returns the schema of the headers that name versions; undefined if the route has no use for them. */
export function conditionHeaders(conditions: Conditions | undefined): JsonSchema | undefined {
  if (conditions === undefined) return undefined;
  const properties = {
    ...(conditions === "change" ? { "if-match": ifMatch } : {}),
    "if-none-match": ifNoneMatch[conditions],
  };
  return { type: "object", properties };
}

/** 304, for a client that has the version that it names. */
export const notModified: JsonSchema = {
  type: "null",
  description: "The version is still the one that If-None-Match names.",
};

// The body of PUT /apps/{app}: nothing, or the app's realm.

import type { Shape } from "@sluice/limiter/policy/shape.ts";
import type { RealmDocument } from "@sluice/limiter/realm/realm.ts";
import { realmShape } from "@sluice/limiter/realm/realm-shape.ts";
import { type JsonSchema, schemaOf } from "./policy-schema.ts";
import { readBody } from "./read-body.ts";

export interface AppBody {
  /** Absent: as it is. Null: none. */
  readonly realm?: RealmDocument | null;
}

const appShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: { realm: { shape: realmShape, description: "What the app's policies may match, and redirect to." } },
};

export const appBodySchema: JsonSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    realm: {
      anyOf: [schemaOf(realmShape), { type: "null" }],
      description: "What the app's policies may match, and redirect to. Absent: as it is; null: it has none.",
    },
  },
};

/** @throws ApiError invalid-request with everything that is wrong with it */
export function readAppBody(body: unknown): AppBody {
  if (body === undefined || body === null) return {};
  if (!isRecord(body) || body["realm"] !== null) return readBody<AppBody>(appShape, body);
  const { realm: _, ...others } = body;
  return { ...readBody<AppBody>(appShape, others), realm: null };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

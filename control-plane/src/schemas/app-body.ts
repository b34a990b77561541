// The body of PUT /apps/{app}: what is set of an app. Each of its fields may be null, which takes back what was set.

import type { Shape } from "@sluice/limiter/document/shape.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { realmShape } from "@sluice/limiter/realm/realm-shape.ts";
import { boundsShape } from "../bounds/bounds.ts";
import type { AppChange } from "../storage/apps.ts";
import { type JsonSchema, schemaOf } from "./policy-schema.ts";
import { refuseProblems, shapeProblems } from "./read-body.ts";

const appShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    realm: {
      shape: realmShape,
      description: "What the app's policies may match, and redirect to. null: they match no traffic.",
    },
    bounds: {
      shape: boundsShape,
      description: "The most that the app may have of each; what is left out is as usual. null: all is as usual.",
    },
  },
};

const described = schemaOf(appShape);

/** Looser than the shape by null. */
export const appBodySchema: JsonSchema = {
  ...described,
  properties: Object.fromEntries(
    Object.entries(described["properties"] as Record<string, JsonSchema>).map(([name, { description, ...schema }]) => [
      name,
      { anyOf: [schema, { type: "null" }], description },
    ]),
  ),
};

/** @param body undefined: nothing is set @throws ApiError invalid-request with everything that is wrong with it */
export function readAppBody(body: unknown): AppChange {
  if (body === undefined || body === null) return {};
  if (typeof body !== "object" || Array.isArray(body)) {
    refuseProblems([{ path: "", expected: "an object, or nothing", got: describeValue(body) }]);
  }
  const given = Object.entries(body).filter(([name, value]) => value !== null || !Object.hasOwn(appShape.fields, name));
  refuseProblems(shapeProblems(appShape, Object.fromEntries(given)));
  return body as AppChange;
}

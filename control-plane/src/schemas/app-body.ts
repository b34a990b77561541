// The body of PUT /apps/{app}: the app's settings. Each field may be null, which removes the setting.

import { appExemptShape } from "@sluice/limiter/document/app-exempt.ts";
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
      description:
        "What the app's policies may match and redirect to. null removes the realm: then they match no traffic.",
    },
    bounds: {
      shape: boundsShape,
      description:
        "The most that the app may have of each resource. An absent bound has its default; null restores all defaults.",
    },
    exempt: {
      shape: appExemptShape,
      description:
        "Requests that no policy of the app counts. Those of app default are counted by no policy of any app. Bans still refuse them. null: nobody is exempt.",
    },
  },
};

const described = schemaOf(appShape);

/** Like the shape, but each field may also be null. */
export const appBodySchema: JsonSchema = {
  ...described,
  properties: Object.fromEntries(
    Object.entries(described["properties"] as Record<string, JsonSchema>).map(([name, { description, ...schema }]) => [
      name,
      { anyOf: [schema, { type: "null" }], description },
    ]),
  ),
};

/** @param body undefined: no setting changes @throws ApiError invalid-request with all problems of the body */
export function readAppBody(body: unknown): AppChange {
  if (body === undefined || body === null) return {};
  if (typeof body !== "object" || Array.isArray(body)) {
    refuseProblems([{ path: "", expected: "an object, or nothing", got: describeValue(body) }]);
  }
  const given = Object.entries(body).filter(([name, value]) => value !== null || !Object.hasOwn(appShape.fields, name));
  refuseProblems(shapeProblems(appShape, Object.fromEntries(given)));
  return body as AppChange;
}

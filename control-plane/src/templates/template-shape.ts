// A template holds one of these fields of a policy.

import { policyShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import { templateFields } from "./resolve-templates.ts";

/** The fields of a policy that a template can have. A template has exactly one of them. */
export const templateShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: Object.fromEntries(
    Object.entries(policyShape.fields).filter(([name]) => templateFields.some((field) => field === name)),
  ),
};

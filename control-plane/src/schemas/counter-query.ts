// Identifies one counter: by the query of a request, or by the body of a top-up.

import { nameShape, unitsShape } from "@sluice/limiter/document/policy-shape.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import { describeValue } from "@sluice/limiter/document/validate.ts";
import { refuseProblems } from "./read-body.ts";

const longestValueBytes = 8192;
const mostValues = 8;

export const literalParameter = {
  type: "boolean",
  default: false,
  description:
    "Whether a * at the end of a value is part of the value. Without this, such a value is refused: in other places * stands for any value, and here one key is meant.",
  "x-expected": "true or false",
} as const;

export const counterQuery = {
  policy: { type: "string", description: "Name of the policy.", "x-expected": "the name of a policy, once" },
  key: {
    anyOf: [{ type: "string" }, { type: "array", items: { type: "string" }, maxItems: mostValues }],
    description:
      'One value for each part of the policy\'s key, in its order: key=a&key=b, or a JSON list, key=["a","b"]. A single value that begins with [ is read as a JSON list.',
    "x-expected": "a value for each part of the policy's key",
  },
  plan: {
    type: "string",
    description:
      "Of a policy with plans: the plan whose limits are meant. Absent: the plan that the key names, or the default plan.",
    "x-expected": "the name of a plan, once",
  },
  literal: literalParameter,
} as const;

export interface TopUpBody {
  readonly policy: string;
  readonly key?: readonly string[];
  readonly plan?: string;
  readonly limit?: string;
  readonly units: number;
}

export const topUpShape: Shape = {
  kind: "record",
  fields: {
    policy: { shape: nameShape, description: "Name of the policy whose counter gets the units.", required: true },
    key: {
      shape: {
        kind: "list",
        of: { kind: "text", expected: `text of at most ${longestValueBytes} bytes`, maxBytes: longestValueBytes },
        minItems: 0,
        maxItems: mostValues,
      },
      description: "One value for each part of the policy's key, in its order.",
      default: [],
    },
    plan: {
      shape: nameShape,
      description:
        "Of a policy with plans: the plan whose limits get the units. Absent: the plan that the key names, or the default plan.",
    },
    limit: { shape: nameShape, description: "Name of the limit to refund. Absent: every limit of the policy." },
    units: {
      shape: unitsShape,
      description: "How many units to refund. Units that were not charged cannot be refunded.",
      required: true,
    },
  },
};

/** @param key the query parameter @throws ApiError invalid-request */
export function readKey(key: string | readonly string[] | undefined): readonly string[] {
  if (key === undefined) return [];
  if (typeof key !== "string") return key;
  if (!key.startsWith("[")) return [key];
  const list = parseList(key);
  if (list === undefined) {
    const expected =
      'a JSON list of texts in well-formed Unicode, as it begins with [: "[…" by itself is written ["[…"]';
    refuseProblems([{ path: "querystring.key", expected, got: describeValue(key) }]);
  }
  return list ?? [];
}

function parseList(text: string): string[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    // Half a surrogate pair is no text to a gateway.
    const isKey = Array.isArray(value) && value.every((one) => typeof one === "string" && one.isWellFormed());
    return isKey ? value : undefined;
  } catch {
    return undefined;
  }
}

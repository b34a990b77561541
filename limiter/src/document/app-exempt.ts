// The exemptions of a whole app, as `PUT /apps/{app}` takes them and as gateways get them. Those of app `default` hold for all apps.

import { keyPartText, parseKeyPart } from "../key/key-part.ts";
import { isKeyPattern } from "../key/key-patterns.ts";
import { exemptCidrsShape } from "./policy-shape.ts";
import type { Shape } from "./shape.ts";

export interface AppExempt {
  readonly cidrs?: readonly string[];
  readonly keys?: readonly ExemptValues[];
}

/** Values of one part of keys. It says which part, because the policies of an app have different keys. */
export interface ExemptValues {
  readonly part: string;
  /** A value, "*" for any, or the beginning of a value and "*". */
  readonly pattern: string;
}

const mostCidrs = 1000;
const mostKeys = 100;

const exemptValues: Shape = {
  kind: "record",
  fields: {
    part: {
      shape: {
        kind: "text",
        expected: 'a part of keys like "header:x-user-id", "jwt:sub" or "host"; addresses go into cidrs',
        maxBytes: 300,
        accepts: isExemptPart,
      },
      description: "The part of the key. Policies without this part in their keys count the request all the same.",
      required: true,
    },
    pattern: {
      shape: {
        kind: "text",
        expected: 'a value, "*" for any, or the beginning of a value and "*", of 1 to 1024 bytes',
        maxBytes: 1024,
        accepts: (text) => text !== "" && isKeyPattern(text),
      },
      description: 'The value, "*" for any, or the beginning of a value and "*".',
      required: true,
    },
  },
};

export const appExemptShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    cidrs: {
      shape: exemptCidrsShape(mostCidrs),
      description: "Networks whose addresses no policy of the app counts.",
    },
    keys: {
      shape: { kind: "list", of: exemptValues, minItems: 0, maxItems: mostKeys },
      description: "Key values that no policy of the app counts, each of one part of the key.",
    },
  },
};

/** Addresses have other spellings, and networks say the same better. */
function isExemptPart(text: string): boolean {
  const part = parseKeyPart(text);
  return part !== undefined && part.source !== "ip";
}

/** Returns the part as `keyPartText` writes it. @param text a valid part */
export function exemptPartText(text: string): string {
  const part = parseKeyPart(text);
  return part === undefined ? text : keyPartText(part);
}

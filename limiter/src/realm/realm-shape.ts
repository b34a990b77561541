// Defines, field by field, what a realm's document may contain, and which part of it gateways receive.

import { isLocation, isPath } from "../document/on-limit.ts";
import { hostPatternShape } from "../document/policy-shape.ts";
import type { Field, Shape } from "../document/shape.ts";
import { isNormalUri, isReservedLocation, isReservedUri } from "./redirects.ts";

const path: Shape = {
  kind: "text",
  expected:
    'a path beginning with "/", in normal form, without "*" and without "/" at its end: it holds what is beneath it',
  maxBytes: 512,
  accepts: isRealmPath,
};

const redirect: Shape = {
  kind: "text",
  expected: 'a named location like "@cached", or a path of this server in normal form that is not beneath /sluice',
  maxBytes: 1024,
  accepts: (text) =>
    (isLocation(text) && !isReservedLocation(text)) ||
    (isPath(text) && !text.includes("?") && isNormalUri(text) && !isReservedUri(text)),
};

const fieldsOfMatch: Readonly<Record<string, Field>> = {
  hosts: {
    shape: { kind: "list", of: hostPatternShape, minItems: 0, maxItems: 256 },
    description:
      'Hosts that policies of the app may match; "*.example.org" is every name below example.org. Absent: any.',
  },
  paths: {
    shape: { kind: "list", of: path, minItems: 0, maxItems: 64 },
    description: "Paths that they may match and redirect to, each with all that is beneath it. Absent: any.",
  },
};

/** The part of a realm that gateways receive. */
export const matchedRealmShape: Shape & { kind: "record" } = { kind: "record", fields: fieldsOfMatch };

export const realmShape: Shape & { kind: "record" } = {
  kind: "record",
  fields: {
    ...fieldsOfMatch,
    redirects: {
      shape: { kind: "list", of: redirect, minItems: 0, maxItems: 64 },
      description: "Named locations, and paths outside of `paths`, that onLimit degrade may send requests to.",
    },
  },
};

function isRealmPath(text: string): boolean {
  if (text === "/") return true;
  if (!text.startsWith("/") || text.endsWith("/") || text.includes("*")) return false;
  if (text.includes("//") || text.includes("/./") || text.includes("/../")) return false;
  return !text.endsWith("/.") && !text.endsWith("/..");
}

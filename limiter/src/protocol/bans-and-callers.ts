// Reads what a snapshot holds beside policies: who is banned and until when, and whose tokens may use the check API. Both are
// validated as strictly as policies: a ban that is not understood would not be enforced.

import type { Pause } from "../basics/pause.ts";
import type { SnapshotBan } from "../compiled/bans.ts";
import { nameShape } from "../document/policy-shape.ts";
import { addProblem, type Findings } from "../document/problems.ts";
import type { Shape } from "../document/shape.ts";
import { checkShape, describeValue } from "../document/validate.ts";
import { cidrRule, parseCidr } from "../key/cidr.ts";
import type { SnapshotCaller } from "./push-messages.ts";

export const cidrShape: Shape = {
  kind: "text",
  expected: cidrRule,
  maxBytes: 64,
  accepts: (text) => parseCidr(text) !== undefined,
};

/** The key values of a ban: as many as a key may have parts. */
export const bannedKeyShape: Shape = {
  kind: "list",
  of: { kind: "text", expected: 'a key value of at most 256 bytes, or "*"', maxBytes: 256 },
  minItems: 0,
  maxItems: 8,
};

/** Goes up to the year 9999, the last that RFC 3339 can write. */
const second: Shape = { kind: "integer", min: 0, max: 253402300800 };

const banShape: Shape = {
  kind: "record",
  fields: {
    id: {
      shape: { kind: "text", expected: "a text of 1 to 63 bytes", maxBytes: 63, accepts: (text) => text !== "" },
      description: "Names the ban.",
      required: true,
    },
    app: { shape: nameShape, description: "Whose ban it is.", required: true },
    cidr: { shape: cidrShape, description: "Who is banned, by address." },
    policy: { shape: nameShape, description: "Whose key the values are of." },
    key: { shape: bannedKeyShape, description: 'Who is banned, by key values; "*" is any.' },
    untilSeconds: { shape: second, description: "Over from this second since 1970 on.", required: true },
  },
};

const callerShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "Whose policies it may ask.", required: true },
    sha256: {
      shape: { kind: "text", expected: "64 hex digits in lower case", maxBytes: 64, accepts: isSha256 },
      description: "Of the token.",
      required: true,
    },
    expiresAtSeconds: { shape: second, description: "Worth nothing from this second since 1970 on." },
  },
};

/** @param entries as in the snapshot; absent: none */
export function readBans(entries: unknown, findings: Findings, pause: Pause): SnapshotBan[] {
  const bans = readEntries(entries, "bans", banShape, findings, pause) as SnapshotBan[];
  for (let i = 0; i < bans.length; i++) {
    // An entry that is not an object has been reported already.
    if (typeof bans[i] !== "object" || bans[i] === null) continue;
    const { cidr, policy, key } = bans[i] as Partial<SnapshotBan>;
    const isOfAddress = cidr !== undefined && policy === undefined && key === undefined;
    const isOfKey = cidr === undefined && policy !== undefined && key !== undefined;
    if (isOfAddress || isOfKey) continue;
    const got = `${present("cidr", cidr)}${present("policy", policy)}${present("key", key)}`;
    addProblem(findings, {
      path: `bans[${i}]`,
      expected: "either cidr, or policy and key",
      got: got === "" ? "none of them" : got.slice(1),
    });
  }
  return bans;
}

/** @param entries as in the snapshot; absent: none */
export function readCallers(entries: unknown, findings: Findings, pause: Pause): SnapshotCaller[] {
  return readEntries(entries, "callers", callerShape, findings, pause) as SnapshotCaller[];
}

/** @returns the entries; invalid ones among them have been reported */
export function readEntries(entries: unknown, path: string, shape: Shape, findings: Findings, pause: Pause): unknown[] {
  if (entries === undefined) return [];
  if (!Array.isArray(entries)) {
    addProblem(findings, { path, expected: "a list", got: describeValue(entries) });
    return [];
  }
  for (let i = 0; i < entries.length; i++) {
    checkShape(shape, entries[i], `${path}[${i}]`, findings);
    pause();
  }
  return entries;
}

function present(name: string, value: unknown): string {
  return value === undefined ? "" : ` ${name}`;
}

function isSha256(text: string): boolean {
  if (text.length !== 64) return false;
  for (let i = 0; i < 64; i++) {
    const code = text.charCodeAt(i);
    if (!((code >= 48 && code <= 57) || (code >= 97 && code <= 102))) return false;
  }
  return true;
}

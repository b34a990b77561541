// Reads the entries of a state as they come from a control plane or from disk. All are validated as strictly as policies: a ban that
// is not understood would not be enforced.

import type { Pause } from "../basics/pause.ts";
import type { SnapshotBan } from "../compiled/bans.ts";
import { appExemptShape } from "../document/app-exempt.ts";
import { isName, nameRule, nameShape, networkOrListShape } from "../document/policy-shape.ts";
import { addProblem, type Findings, problemCount } from "../document/problems.ts";
import type { ZoneTransition } from "../document/schedule.ts";
import type { Shape } from "../document/shape.ts";
import { checkShape, describeValue, problemsOf, validPolicy } from "../document/validate.ts";
import { isBlock, v4Digits, v6Digits } from "../key/address-ranges.ts";
import { isKeyPattern } from "../key/key-patterns.ts";
import { matchedRealmShape } from "../realm/realm-shape.ts";
import type { AppPolicy, GoneEntry, SnapshotApp, SnapshotCaller, SnapshotNetworks } from "./entries.ts";

/** The key values of a ban: as many as a key may have parts. */
export const bannedKeyShape: Shape = bannedShape("a key value of at most 256 bytes");
export const bannedPatternShape: Shape = bannedShape(
  'a value, "*" for any, or the beginning of a value and "*", of at most 256 bytes',
  isKeyPattern,
);

function bannedShape(expected: string, accepts: (text: string) => boolean = () => true): Shape {
  return { kind: "list", of: { kind: "text", expected, maxBytes: 256, accepts }, minItems: 0, maxItems: 8 };
}

/** Goes up to the year 9999, the last that RFC 3339 can write. */
const second: Shape = { kind: "integer", min: 0, max: 253402300800 };

/** Names of entries are stored line by line, and end at the first space. */
const banIdShape: Shape = {
  kind: "text",
  expected: "a text of 1 to 63 bytes without spaces",
  maxBytes: 63,
  accepts: isWord,
};

const sha256Shape: Shape = { kind: "text", expected: "64 hex digits in lower case", maxBytes: 64, accepts: isSha256 };

const banShape: Shape = {
  kind: "record",
  fields: {
    id: {
      shape: banIdShape,
      description: "Names the ban.",
      required: true,
    },
    app: { shape: nameShape, description: "Whose ban it is.", required: true },
    cidr: { shape: networkOrListShape, description: "Who is banned, by address." },
    policy: { shape: nameShape, description: "Whose key the values are of." },
    key: { shape: bannedKeyShape, description: "Who is banned, by key values." },
    keyPattern: { shape: bannedPatternShape, description: "Who is banned, by patterns for key values." },
    untilSeconds: { shape: second, description: "Over from this second since 1970 on.", required: true },
  },
};

/** Of a thousand ranges at most, two of the longest addresses each. */
const mostBlockBytes = 65_536;

const networksShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "Whose list it is.", required: true },
    networks: { shape: nameShape, description: "The name of the list.", required: true },
    family: {
      shape: { kind: "choice", of: ["ipv4", "ipv6"] },
      description: "Of which addresses it is.",
      required: true,
    },
    ranges: {
      shape: { kind: "text", expected: "ranges of addresses in hex digits", maxBytes: mostBlockBytes },
      description: "The ranges, in order.",
      required: true,
    },
  },
};

const callerShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "Whose policies it may ask.", required: true },
    sha256: {
      shape: sha256Shape,
      description: "Of the token.",
      required: true,
    },
    name: {
      shape: { kind: "text", expected: "a text of at most 100 bytes", maxBytes: 100 },
      description: "Who has the token.",
    },
    expiresAtSeconds: { shape: second, description: "Worth nothing from this second since 1970 on." },
  },
};

const appShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "Names the app.", required: true },
    realm: { shape: matchedRealmShape, description: "Where its policies match. Absent: nowhere." },
    everywhere: {
      shape: { kind: "boolean" },
      description: "True: its policies match everywhere, and it has no realm.",
    },
    exempt: { shape: appExemptShape, description: "Whom its policies do not count." },
  },
};

const goneShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "The app, or the app of the policy." },
    policy: { shape: nameShape, description: "The policy." },
    networks: { shape: nameShape, description: "The list of networks." },
    from: {
      shape: { kind: "text", expected: "an address in hex digits", maxBytes: v6Digits },
      description: "The first address of the block.",
    },
    ban: { shape: banIdShape, description: "The id of the ban." },
    caller: { shape: sha256Shape, description: "The SHA-256 of the token." },
  },
};

// Each function returns undefined for a value that is invalid, and reports what is wrong with it.

/** @param path of the entry, for problems */
export function readPolicyEntry(value: unknown, path: string, findings: Findings): AppPolicy | undefined {
  return isPolicyEntry(value, path, findings) ? readValidPolicyEntry(value) : undefined;
}

/** Reports what is wrong with an entry. Returns whether it is valid. */
export function isPolicyEntry(value: unknown, path: string, findings: Findings): boolean {
  if (typeof value !== "object" || value === null) {
    addProblem(findings, { path, expected: "an object", got: describeValue(value) });
    return false;
  }
  const { app, document } = value as Record<string, unknown>;
  if (typeof app !== "string" || !isName(app)) {
    addProblem(findings, { path: `${path}.app`, expected: nameRule, got: describeValue(app) });
    return false;
  }
  const problems = problemsOf(document);
  for (const problem of problems) {
    const inner = problem.path === "" ? "" : `.${problem.path}`;
    addProblem(findings, { path: `${path}.document${inner}`, expected: problem.expected, got: problem.got });
  }
  return problems.length === 0;
}

/** Reads an entry that `isPolicyEntry` of the same code has found valid. */
export function readValidPolicyEntry(value: unknown): AppPolicy {
  const { app, document } = value as { app: string; document: unknown };
  return { app, policy: validPolicy(document) };
}

export function readAppEntry(value: unknown, path: string, findings: Findings): SnapshotApp | undefined {
  return shaped<SnapshotApp>(appShape, value, path, findings);
}

/** Whether its ranges are in order with those of other blocks is left to who puts them together. */
export function readNetworksEntry(
  value: unknown,
  path: string,
  findings: Findings,
  pause: Pause,
): SnapshotNetworks | undefined {
  const networks = shaped<SnapshotNetworks>(networksShape, value, path, findings);
  if (networks === undefined) return undefined;
  const { family, ranges } = networks;
  if (isBlock(ranges, family === "ipv4" ? v4Digits : v6Digits, pause)) return networks;
  const expected = `ranges of ${family} addresses in hex digits, in order`;
  addProblem(findings, { path: `${path}.ranges`, expected, got: describeValue(ranges.slice(0, 64)) });
  return undefined;
}

export function readBanEntry(value: unknown, path: string, findings: Findings): SnapshotBan | undefined {
  const ban = shaped<SnapshotBan>(banShape, value, path, findings);
  if (ban === undefined) return undefined;
  const { cidr, policy, key, keyPattern } = ban;
  const isOfKey = (key === undefined) !== (keyPattern === undefined);
  const isOfAddress = cidr !== undefined && policy === undefined && key === undefined && keyPattern === undefined;
  if (isOfAddress || (cidr === undefined && policy !== undefined && isOfKey)) return ban;
  const texts = `${present("key", key)}${present("keyPattern", keyPattern)}`;
  const got = `${present("cidr", cidr)}${present("policy", policy)}${texts}`;
  const expected = "either cidr, or policy with key or keyPattern";
  addProblem(findings, { path, expected, got: got === "" ? "none of them" : got.slice(1) });
  return undefined;
}

export function readCallerEntry(value: unknown, path: string, findings: Findings): SnapshotCaller | undefined {
  return shaped<SnapshotCaller>(callerShape, value, path, findings);
}

export function readGoneEntry(value: unknown, path: string, findings: Findings): GoneEntry | undefined {
  const gone = shaped<Gone>(goneShape, value, path, findings);
  if (gone === undefined) return undefined;
  const { app, policy, networks, from, ban, caller } = gone;
  if (networks !== undefined || from !== undefined) return goneNetworks(gone, path, findings);
  if (app !== undefined && ban === undefined && caller === undefined) {
    return policy === undefined ? { app } : { app, policy };
  }
  if (app === undefined && policy === undefined) {
    if (ban !== undefined && caller === undefined) return { ban };
    if (ban === undefined && caller !== undefined) return { caller };
  }
  const got = `${present("app", app)}${present("policy", policy)}${present("ban", ban)}${present("caller", caller)}`;
  const expected = "app and policy, or one of app, ban and caller";
  addProblem(findings, { path, expected, got: got === "" ? "none of them" : got.slice(1) });
  return undefined;
}

type Gone = Partial<Record<"app" | "policy" | "networks" | "from" | "ban" | "caller", string>>;

function goneNetworks(
  { app, policy, networks, from, ban, caller }: Gone,
  path: string,
  findings: Findings,
): GoneEntry | undefined {
  const isAlone = policy === undefined && ban === undefined && caller === undefined;
  if (app !== undefined && networks !== undefined && from !== undefined && isAlone) return { app, networks, from };
  const got = `${present("app", app)}${present("policy", policy)}${present("networks", networks)}${present("from", from)}${present("ban", ban)}${present("caller", caller)}`;
  addProblem(findings, { path, expected: "app, networks and from together, and nothing else", got: got.slice(1) });
  return undefined;
}

/** Reads the transitions of a time zone. */
export function readZoneEntry(
  zone: string,
  value: unknown,
  path: string,
  findings: Findings,
): readonly ZoneTransition[] | undefined {
  if (!isWord(zone)) {
    addProblem(findings, { path: "zones", expected: "names without spaces", got: describeValue(zone) });
    return undefined;
  }
  if (Array.isArray(value) && value.length > 0 && value.every((entry) => isTransition(entry))) {
    return value as unknown as readonly ZoneTransition[];
  }
  const expected = "a list of [seconds since the epoch, minutes ahead of UTC]";
  addProblem(findings, { path, expected, got: describeValue(value) });
  return undefined;
}

function isTransition(entry: unknown): boolean {
  if (!Array.isArray(entry) || entry.length !== 2) return false;
  const [fromSeconds, offsetMinutes] = entry;
  return isWhole(fromSeconds) && isWhole(offsetMinutes) && offsetMinutes > -1440 && offsetMinutes < 1440;
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Math.floor(value) === value;
}

function shaped<Entry>(shape: Shape, value: unknown, path: string, findings: Findings): Entry | undefined {
  const before = problemCount(findings);
  checkShape(shape, value, path, findings);
  return problemCount(findings) === before ? (value as Entry) : undefined;
}

function present(name: string, value: unknown): string {
  return value === undefined ? "" : ` ${name}`;
}

/** Returns whether a text has no spaces, line breaks or other control characters, and is not empty. */
function isWord(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) <= 32) return false;
  }
  return text !== "";
}

function isSha256(text: string): boolean {
  if (text.length !== 64) return false;
  for (let i = 0; i < 64; i++) {
    const code = text.charCodeAt(i);
    if (!((code >= 48 && code <= 57) || (code >= 97 && code <= 102))) return false;
  }
  return true;
}

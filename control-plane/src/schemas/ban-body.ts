// The body of a request to make a ban: who is banned, and until when.

import { parseDuration } from "@sluice/limiter/document/duration.ts";
import { nameShape, networkOrListShape } from "@sluice/limiter/document/policy-shape.ts";
import { listProblems, noFindings } from "@sluice/limiter/document/problems.ts";
import type { Shape } from "@sluice/limiter/document/shape.ts";
import { checkKeyPatterns, describeValue, type Problem } from "@sluice/limiter/document/validate.ts";
import { type Cidr, formatCidr, parseCidr } from "@sluice/limiter/key/cidr.ts";
import { type KeyPart, parseKeyPart } from "@sluice/limiter/key/key-part.ts";
import { expectedKinds, mostKinds, patternValue } from "@sluice/limiter/key/key-patterns.ts";
import { referredList } from "@sluice/limiter/key/network-lists.ts";
import { bannedKeyShape, bannedPatternShape } from "@sluice/limiter/state/read-entries.ts";
import type { Banned } from "../storage/bans.ts";
import { readBody, refuseProblems } from "./read-body.ts";
import { parseTime } from "./time.ts";

interface BanBody {
  readonly cidr?: string;
  readonly policy?: string;
  readonly key?: readonly string[];
  readonly keyPattern?: readonly string[];
  readonly until?: string;
  readonly for?: string;
  readonly reason?: string;
}

export const banBodyShape: Shape = {
  kind: "record",
  fields: {
    cidr: {
      shape: networkOrListShape,
      description:
        'The network to ban, whose host bits are cleared, or "@" and the name of a list of networks. Give either this, or policy with key or keyPattern.',
    },
    policy: { shape: nameShape, description: "Name of the policy whose key values are banned." },
    key: {
      shape: bannedKeyShape,
      description: "The key values to ban, one for each part of the policy's key. * is an ordinary character.",
    },
    keyPattern: {
      shape: bannedPatternShape,
      description:
        'Instead of key, patterns for key values, one for each part of the policy\'s key: "*" stands for any value, and "bot-*" for all that begin with "bot-".',
    },
    until: {
      shape: {
        kind: "text",
        expected: 'a time of RFC 3339 like "2030-01-31T12:00:00Z"',
        maxBytes: 40,
        accepts: (text) => parseTime(text) !== undefined,
      },
      description: "When the ban ends. Give either this or for.",
    },
    for: {
      shape: { kind: "duration", min: "1s", max: "3650d" },
      description: "How long the ban lasts from now. Give either this or until.",
    },
    reason: {
      shape: {
        kind: "text",
        expected: "text of at most 500 bytes without NUL characters",
        maxBytes: 500,
        // PostgreSQL cannot store them.
        accepts: (text) => !text.includes("\0"),
      },
      description: "A note for people who find the ban later.",
    },
  },
};

export interface AskedBan {
  readonly banned: Banned;
  /** A whole second, because gateways count in seconds. */
  readonly untilMs: number;
  readonly reason: string | undefined;
}

/** @throws ApiError invalid-request with all problems of the body */
export function readBanBody(body: unknown, nowMs: number): AskedBan {
  const { until, for: lasts, reason, ...who } = readBody<BanBody>(banBodyShape, body);
  const problems: Problem[] = [];
  const banned = bannedBy(who);
  if (banned === undefined) {
    const got = Object.keys(who).sort().join(" and ") || "none of them";
    problems.push({ path: "", expected: "either cidr, or policy with key or keyPattern", got });
  }
  let untilMs = nowMs;
  if ((until === undefined) === (lasts === undefined)) {
    problems.push({ path: "", expected: "either until or for", got: until === undefined ? "neither" : "both" });
  } else {
    const asked = until === undefined ? nowMs + (parseDuration(lasts ?? "") ?? 0) / 1_000 : (parseTime(until) ?? 0);
    untilMs = Math.ceil(asked / 1_000) * 1_000;
    if (asked <= nowMs) problems.push({ path: "until", expected: "a time in the future", got: describeValue(until) });
  }
  refuseProblems(problems);
  return { banned: banned as Banned, untilMs, reason };
}

/** @param policy document of the policy that the ban names; undefined if there is none */
export function checkBannedKey(banned: Banned, policy: unknown): void {
  if (!("policy" in banned)) return;
  const problems: Problem[] = [];
  const { key: parts = [] } = (policy ?? {}) as { key?: readonly string[] };
  const isOfPattern = "keyPattern" in banned;
  const path = isOfPattern ? "keyPattern" : "key";
  const texts = isOfPattern ? banned.keyPattern : banned.key;
  if (policy === undefined) {
    problems.push({ path: "policy", expected: "the name of a policy of the app", got: describeValue(banned.policy) });
  } else if (parts.length !== texts.length) {
    const values = parts.length === 1 ? "1 value" : `${parts.length} values`;
    const expected = `${values}, for the policy's key [${parts.join(", ")}]`;
    problems.push({ path, expected, got: describeValue(texts) });
  } else {
    const key = parts.map((part) => parseKeyPart(part) as KeyPart);
    problems.push(...(isOfPattern ? patternProblems(texts, key) : valueProblems(texts, key)));
  }
  refuseProblems(problems);
}

function patternProblems(patterns: readonly string[], key: readonly KeyPart[]): Problem[] {
  const findings = noFindings();
  checkKeyPatterns(patterns, key, "keyPattern", findings);
  return listProblems(findings);
}

function valueProblems(values: readonly string[], key: readonly KeyPart[]): Problem[] {
  const expected = "an address, or a network of the length that the key has";
  return values.flatMap((value, i) =>
    patternValue(key[i] as KeyPart, value) === undefined
      ? [{ path: `key[${i}]`, expected, got: describeValue(value) }]
      : [],
  );
}

/** How many kinds the bans of all policies of an app may be of together: a request may meet all policies. */
export const mostKindsOfApp = 1_000;

/**
 * A gateway looks up each request once for each kind.
 * @param ofPolicy how many kinds the policy's bans are of, with the new one. @param ofApp those of each of the app's policies, together
 * @throws ApiError invalid-request
 */
export function checkKindsOfBans(ofPolicy: number, ofApp: number): void {
  if (ofPolicy > mostKinds) refuseProblems([{ path: "keyPattern", expected: expectedKinds, got: `${ofPolicy} kinds` }]);
  if (ofApp <= mostKindsOfApp) return;
  const expected = `bans of at most ${mostKindsOfApp.toLocaleString("en")} kinds in all policies of the app`;
  refuseProblems([{ path: "keyPattern", expected, got: `${ofApp.toLocaleString("en")} kinds` }]);
}

/** A ban of a list that is not there would ban nobody. @throws ApiError invalid-request */
export function checkBannedList(app: string, banned: Banned, isThere: boolean): void {
  if (isThere || !("cidr" in banned)) return;
  refuseProblems([{ path: "cidr", expected: expectedList(app), got: describeValue(banned.cidr) }]);
}

/** Says what a reference of an app to a list of networks must be. */
export function expectedList(app: string): string {
  const ofAll = app === "default" ? "" : " or of app default";
  return `"@" and the name of a list of networks of app ${app}${ofAll}`;
}

function bannedBy({ cidr, policy, key, keyPattern }: BanBody): Banned | undefined {
  if (cidr !== undefined && policy === undefined && key === undefined && keyPattern === undefined)
    return { cidr: referredList(cidr) === undefined ? formatCidr(parseCidr(cidr) as Cidr) : cidr };
  if (cidr !== undefined || policy === undefined) return undefined;
  if (key !== undefined) return keyPattern === undefined ? { policy, key } : undefined;
  return keyPattern === undefined ? undefined : { policy, keyPattern };
}

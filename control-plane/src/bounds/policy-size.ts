// Measures how much of its app's bounds a policy uses, and what else of it is summed for the app.

import { kindOfPatterns } from "@sluice/limiter/key/key-patterns.ts";
import { expressionSteps } from "@sluice/limiter/match/expression-steps.ts";
import { pathPattern } from "@sluice/limiter/match/path-pattern.ts";
import { areIdsSecret } from "../secrets/secret-parts.ts";

export interface PolicySize {
  /** Size of its document as JSON without spaces, in UTF-8. */
  readonly bytes: number;
  readonly steps: number;
  /** The most limits that decide one request, with the weight of those that a request keeps until it ends. */
  readonly limits: number;
  /** Of the keys of its overrides and exemptions: a request is looked up once for each. */
  readonly kinds: number;
  /** 1 if ids of consumers may be credentials by this policy, otherwise 0. */
  readonly hiding: number;
}

/**
 * A request has slots of `concurrency`, and what its response is to be charged to, in memory until it ends, and slots are renewed: 30 idle requests with
 * 4,000 slots of a life of 1 s each took a whole processor and 75 MB.
 */
const limitsOfOneKept = 16;

export const noSize: PolicySize = Object.freeze({ bytes: 0, steps: 0, limits: 0, kinds: 0, hiding: 0 });

/** @param document a valid document with its templates resolved */
export function policySize(document: unknown): PolicySize {
  const policy = document as Measured;
  return {
    bytes: documentBytes(document),
    steps: stepsOf(policy),
    limits: limitsOf(policy),
    kinds: kindsOf((policy.overrides ?? []).map(({ key }) => key)) + kindsOf(policy.exempt?.keys ?? []),
    hiding: Number(areIdsSecret(document)),
  };
}

/** Returns how much more an app uses when the size of one of its policies changes. Numbers of a database may be texts. */
export function sizeChange(before: PolicySize, after: PolicySize): PolicySize {
  return {
    bytes: after.bytes - Number(before.bytes),
    steps: after.steps - Number(before.steps),
    limits: after.limits - Number(before.limits),
    kinds: after.kinds - Number(before.kinds),
    hiding: after.hiding - Number(before.hiding),
  };
}

export function sumOfSizes(one: PolicySize, other: PolicySize): PolicySize {
  return {
    bytes: one.bytes + other.bytes,
    steps: one.steps + other.steps,
    limits: one.limits + other.limits,
    kinds: one.kinds + other.kinds,
    hiding: one.hiding + other.hiding,
  };
}

/** @param row its numbers may be texts */
export function sizeFrom({ bytes, steps, limits, kinds, hiding }: PolicySize): PolicySize {
  return {
    bytes: Number(bytes),
    steps: Number(steps),
    limits: Number(limits),
    kinds: Number(kinds),
    hiding: Number(hiding),
  };
}

export function documentBytes(document: unknown): number {
  return Buffer.byteLength(JSON.stringify(document) ?? "");
}

type Limits = readonly { readonly algorithm?: string }[];

/** What is measured of a document. */
interface Measured {
  readonly match?: { readonly paths?: readonly string[] };
  readonly limits?: Limits;
  readonly plans?: Readonly<Record<string, Limits>>;
  readonly cost?: number | { readonly from?: string };
  readonly overrides?: readonly { readonly key: readonly string[] }[];
  readonly exempt?: { readonly keys?: readonly (readonly string[])[] };
}

function stepsOf({ match }: Measured): number {
  const patterns = [...new Set(match?.paths ?? [])].map(pathPattern);
  return expressionSteps(patterns.filter(({ kind }) => kind === "regex").map(({ text }) => text));
}

function limitsOf({ limits = [], plans = {}, cost }: Measured): number {
  const areKept = typeof cost === "object" && cost.from === "response-bytes";
  const weigh = ({ algorithm }: { readonly algorithm?: string }) =>
    areKept || algorithm === "concurrency" ? limitsOfOneKept : 1;
  const lists = [limits, ...Object.values(plans)];
  return Math.max(...lists.map((list) => list.reduce((sum, limit) => sum + weigh(limit), 0)));
}

function kindsOf(keys: readonly (readonly string[])[]): number {
  return new Set(keys.map(kindOfPatterns)).size;
}

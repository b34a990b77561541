// Query parameters and path segments. The text in `x-expected` says what each expects; error messages use it.

import { parseDuration } from "@sluice/limiter/document/duration.ts";

const maxWaitMs = 60_000;

export const appSegment = { type: "string", description: "Name of the app." } as const;
export const policyParameter = {
  type: "string",
  description: "Name of the policy.",
  "x-expected": "the name of a policy, once",
} as const;

export const appParameter = {
  type: "string",
  description: "Name of the app.",
  "x-expected": "the name of an app, once",
} as const;

export const policySegment = { type: "string", description: "Name of the policy." } as const;

export const templateSegment = { type: "string", description: "Name of the template." } as const;
export const networksSegment = { type: "string", description: "Name of the list of networks." } as const;
export const banSegment = { type: "string", description: "Id of the ban." } as const;
export const tokenSegment = { type: "string", description: "Id of the token." } as const;

export const consumerSegment = { type: "string", description: "Id of the consumer." } as const;

export const memberSegment = { type: "string", description: "Name of the member." } as const;
export const revisionSegment = {
  type: "integer",
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Number of the revision.",
  "x-expected": "a revision number",
} as const;

export const dryRunParameter = {
  type: "boolean",
  default: false,
  description: "Say what would change, and change nothing.",
  "x-expected": "true or false",
} as const;

export const strictParameter = {
  type: "boolean",
  default: false,
  description: "Refuse what there are warnings of.",
  "x-expected": "true or false",
} as const;

export const pruneParameter = {
  type: "boolean",
  default: false,
  description: "Delete the app's policies that are not in the body, with the bans of their keys.",
  "x-expected": "true or false",
} as const;

export const allowEmptyParameter = {
  type: "boolean",
  default: false,
  description: "With `prune`: accept a body without any policy, which deletes all of the app's policies.",
  "x-expected": "true or false",
} as const;

export const waitParameter = {
  type: "string",
  format: "wait",
  description:
    "Wait until every connected gateway has applied or refused the revision, but not longer than this. 0s does not wait.",
  "x-expected": 'a duration from 0s to 60s, like "5s"',
  examples: ["5s"],
} as const;

/** Used for callers' tokens: a caller uses a new token at once, and a gateway that does not know it yet answers 401. */
export const tokenWaitParameter = { ...waitParameter, default: "1s" } as const;

/** Of every route that changes what gateways enforce. */
export const changeParameters = { wait: waitParameter, dryRun: dryRunParameter } as const;

export const tokenChangeParameters = { wait: tokenWaitParameter, dryRun: dryRunParameter } as const;

export const limitParameter = {
  type: "integer",
  minimum: 1,
  maximum: 1000,
  default: 100,
  description: "The most items to return.",
  "x-expected": "an integer from 1 to 1000",
} as const;

export const afterParameter = {
  type: "string",
  default: "",
  description: "Return items after this name: `next` of the previous page.",
  "x-expected": "a name, once",
} as const;

export const afterIdParameter = {
  type: "string",
  default: "",
  description: "Return items made after the one with this id: `next` of the previous page.",
  "x-expected": "an id, once",
} as const;

export const beforeParameter = {
  type: "integer",
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Return revisions below this number: `next` of the previous page.",
  "x-expected": "a revision number",
} as const;

/** Makes the schema of a query with these parameters and no others: a misspelt parameter is refused, not ignored. */
export function querySchema<Parameters extends object>(properties: Parameters) {
  return { type: "object", additionalProperties: false, properties } as const;
}

/** @returns the duration in ms, or undefined when the text is not a duration or is out of range */
export function parseWait(text: string): number | undefined {
  const waitUs = parseDuration(text);
  return waitUs !== undefined && waitUs <= maxWaitMs * 1_000 ? waitUs / 1_000 : undefined;
}

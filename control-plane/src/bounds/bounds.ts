// How much of what all share an app may have: bounds that an admin of all apps sets, or these. Beyond them stand those of all
// apps together, which say what gateways can hold.

import type { Shape } from "@sluice/limiter/document/shape.ts";

/** What an app can use up, and what is counted of it. */
export interface Usage {
  readonly policies: number;
  /** Of the policies' documents, as gateways get them: in JSON without spaces, with what their templates say. */
  readonly bytes: number;
  /** What the policies' regular expressions cost a request at most, for each character of its path. */
  readonly steps: number;
  readonly templates: number;
  readonly templateBytes: number;
  /** In force, or over and not yet swept out. */
  readonly bans: number;
  readonly banBytes: number;
  /** Of every role. */
  readonly tokens: number;
}

export type Bound = keyof Usage;
/** The most that an app may have of each. */
export type Bounds = Usage;

export const boundNames: readonly Bound[] = [
  "policies",
  "bytes",
  "steps",
  "templates",
  "templateBytes",
  "bans",
  "banBytes",
  "tokens",
];

/** Of one policy, or one template. */
export const mostDocumentBytes = 65_536;

const usualBounds: Bounds = Object.freeze({
  policies: 1_000,
  bytes: 2_097_152,
  steps: 25,
  templates: 200,
  templateBytes: 262_144,
  bans: 10_000,
  banBytes: 2_097_152,
  tokens: 1_000,
});

/** @param set by an admin; what it leaves out is as usual, or for `default`, which is the operator's own, all that there is */
export function boundsOf(app: string, set: Partial<Bounds> | undefined, total: TotalBounds): Bounds {
  if (app !== "default") return { ...usualBounds, ...set };
  const { policies, steps } = total;
  return { ...usualBounds, policies, steps, bytes: policyBytesInAll(total), ...set };
}

const descriptions: Readonly<Record<Bound, string>> = {
  policies: "Policies.",
  bytes: "Bytes of the policies' documents, as gateways get them.",
  steps: "Steps of the regular expressions of paths, for each character of a path.",
  templates: "Templates.",
  templateBytes: "Bytes of the templates' documents.",
  bans: "Bans in force.",
  banBytes: "Bytes of the bans, as gateways get them.",
  tokens: "Tokens, of every role.",
};

export const boundsShape: Shape = {
  kind: "record",
  fields: Object.fromEntries(
    boundNames.map((name) => [
      name,
      { shape: { kind: "integer", min: 0, max: 1_000_000_000 }, description: descriptions[name] },
    ]),
  ),
};

/** What all apps may have together. */
export interface TotalBounds {
  readonly policies: number;
  readonly steps: number;
  /** Of a snapshot. A quarter is kept for bans and callers' tokens, which must find room where policies have taken all. */
  readonly snapshotBytes: number;
}

export function policyBytesInAll({ snapshotBytes }: TotalBounds): number {
  return snapshotBytes - urgentBytesInAll({ snapshotBytes });
}

/** For bans and callers' tokens. */
export function urgentBytesInAll({ snapshotBytes }: Pick<TotalBounds, "snapshotBytes">): number {
  return Math.floor(snapshotBytes / 4);
}

/** What stands around a policy's document in a snapshot, for the longest name of an app; and the line of a caller's token. */
export const bytesAroundDocument = 100;
export const bytesOfCaller = 200;

/** So many bans of an app, and so many bytes of them, and tokens, are taken even where others have used up what there is for all. */
export const always = Object.freeze({ bans: 100, banBytes: 20_000, tokens: 100 });

// Bounds on how much of the shared resources an app may use. An admin can set them; these are the defaults. In
// addition, the bounds of all apps together say what gateways can hold.

import type { Shape } from "@sluice/limiter/document/shape.ts";

/** The resources that an app can use up, and how much of each it uses. */
export interface Usage {
  readonly policies: number;
  /** Size of the policies' documents as gateways get them: JSON without spaces, templates resolved. */
  readonly bytes: number;
  /** The most that the policies' regular expressions cost a request, for each character of its path. */
  readonly steps: number;
  /** The most limits that decide one request, of all policies together. */
  readonly limits: number;
  /** How many kinds of keys the policies' overrides and exemptions have: a request is looked up once for each. */
  readonly kinds: number;
  readonly templates: number;
  readonly templateBytes: number;
  /** Number of bans that are in force, or have expired and are not deleted yet. */
  readonly bans: number;
  readonly banBytes: number;
  /** Number of tokens of all roles. */
  readonly tokens: number;
  readonly consumers: number;
  /** Number of named lists of networks. */
  readonly networkLists: number;
  /** Size of their ranges, as gateways get them: 16 bytes for a range of IPv4, 64 for one of IPv6. */
  readonly networkBytes: number;
}

export type Bound = keyof Usage;
/** The most that an app may have of each resource. */
export type Bounds = Usage;

export const boundNames: readonly Bound[] = [
  "policies",
  "bytes",
  "steps",
  "limits",
  "kinds",
  "templates",
  "templateBytes",
  "bans",
  "banBytes",
  "tokens",
  "consumers",
  "networkLists",
  "networkBytes",
];

/** The largest document of one policy or one template. */
export const mostDocumentBytes = 65_536;

/** The most consumers of all apps together: what gateways were measured with, and what nginx.conf has memory for. */
export const mostConsumers = 1_000_000;

/** The most bytes of ranges of all apps together: a fifth of what nginx.conf has memory for, since a list is there twice while it is replaced. */
export const mostNetworkBytes = 8_388_608;

const usualBounds: Bounds = Object.freeze({
  policies: 1_000,
  bytes: 2_097_152,
  steps: 25,
  limits: 4_000,
  kinds: 8_000,
  templates: 200,
  templateBytes: 262_144,
  bans: 10_000,
  banBytes: 2_097_152,
  tokens: 1_000,
  // A tenth of what all apps may have: no app takes all places unless an admin lets it.
  consumers: 100_000,
  networkLists: 100,
  // A hundred thousand networks of IPv4.
  networkBytes: 2_097_152,
});

/**
 * @param set the bounds that an admin set. For the others the defaults apply; for `default`, which is the operator's own
 * app, the bounds of all apps together
 */
export function boundsOf(app: string, set: Partial<Bounds> | undefined, total: TotalBounds): Bounds {
  if (app !== "default") return { ...usualBounds, ...set };
  const { policies, steps } = total;
  const limits = policies * (usualBounds.limits / usualBounds.policies);
  const kinds = policies * (usualBounds.kinds / usualBounds.policies);
  const bytes = policyBytesInAll(total);
  return {
    ...usualBounds,
    policies,
    steps,
    limits,
    kinds,
    bytes,
    consumers: mostConsumers,
    networkBytes: mostNetworkBytes,
    ...set,
  };
}

const descriptions: Readonly<Record<Bound, string>> = {
  policies: "Number of policies.",
  bytes: "Bytes of the policies' documents, as gateways get them.",
  steps: "Steps of the regular expressions of paths, for each character of a path.",
  limits:
    "Number of the limits that decide a request: of each policy, the most that one of its plans has. Those of concurrency, and those of a cost of response-bytes, count 16 times.",
  kinds:
    "Number of the kinds of keys that overrides and exemptions have: those of one kind have values, and beginnings of values of one length, for the same parts.",
  templates: "Number of templates.",
  templateBytes: "Bytes of the templates' documents.",
  bans: "Number of bans in force.",
  banBytes: "Bytes of the bans, as gateways get them.",
  tokens: "Number of tokens of all roles.",
  consumers: "Number of consumers. All apps together may have 1,000,000.",
  networkLists: "Number of named lists of networks.",
  networkBytes:
    "Bytes of the ranges of addresses on these lists: 16 for a network of IPv4, 64 for one of IPv6. All apps together may have 8,388,608.",
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

/** The most that all apps may have together. */
export interface TotalBounds {
  readonly policies: number;
  readonly steps: number;
  /**
   * The largest size of a snapshot. A quarter of it is reserved for bans and callers' tokens, which must find room even if
   * policies have used up all the rest.
   */
  readonly snapshotBytes: number;
}

export function policyBytesInAll({ snapshotBytes }: TotalBounds): number {
  return snapshotBytes - urgentBytesInAll({ snapshotBytes });
}

/** Returns the share of a snapshot for bans and callers' tokens. */
export function urgentBytesInAll({ snapshotBytes }: Pick<TotalBounds, "snapshotBytes">): number {
  return Math.floor(snapshotBytes / 4);
}

/**
 * The most bytes that a snapshot adds around a policy's document, with the longest app name; and the bytes that the line of
 * a caller's token takes.
 */
export const bytesAroundDocument = 100;
export const bytesOfCaller = 400;

/**
 * An app may always have this much of what the bounds of all apps share, even if other apps have used up the total. `tokens` are
 * those of callers.
 */
export const always = Object.freeze({
  bans: 100,
  banBytes: 20_000,
  tokens: 100,
  consumers: 1_000,
  networkBytes: 16_384,
});

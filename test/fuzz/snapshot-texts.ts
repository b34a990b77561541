// Makes snapshots and deltas as a control plane writes them, each with a policy whose limit shows which is in force.

import fc from "fast-check";
import { type FrameType, type ListName, layOut } from "../../limiter/src/protocol/frame-lines.ts";
import { byteChanges, type Change, changed, changes } from "./hostile.ts";

export interface Good {
  readonly epoch: string;
  readonly revision: number;
  /** The limit of the policy that identifies the snapshot; no other snapshot of this run has it. */
  readonly quota: number;
}

/** Requests to this path are answered with the limit of the snapshot in force. */
export const telltalePath = "/telltale";
export const telltale = { app: "default", policy: "telltale" } as const;

type Parts = { readonly head: Readonly<Record<string, unknown>> } & {
  readonly [List in Exclude<ListName, "gone">]: readonly unknown[];
} & { readonly gone?: readonly unknown[] };

const windowed = (name: string, document: object) => ({
  app: "default",
  document: { name, limits: [{ algorithm: "fixed-window", quota: 50, window: "1m" }], ...document },
});
const telling = (quota: number) =>
  windowed("telltale", {
    match: { paths: [telltalePath] },
    limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
  });

function partsOf({ epoch, revision, quota }: Good): Parts {
  return {
    head: { type: "snapshot", format: 1, epoch, revision, zones: { "Europe/Berlin": [[0, 60]] } },
    apps: [{ app: "shop", realm: { hosts: ["a.example"], paths: ["/keyed", "/shop"] } }],
    networks: [
      { app: "default", networks: "office", family: "ipv4", ranges: "0a0000000a0000ff0a0001000a0001ff" },
      { app: "default", networks: "office", family: "ipv4", ranges: "0b0000000b0000ff" },
      { app: "shop", networks: "office", family: "ipv6", ranges: `20010db8${"0".repeat(24)}20010db8${"f".repeat(24)}` },
    ],
    bans: [
      { id: "b1", app: "default", cidr: "192.0.2.0/24", untilSeconds: 4_000_000_000 },
      { id: "b2", app: "shop", policy: "keyed", keyPattern: ["*"], untilSeconds: 4_000_000_000 },
    ],
    callers: [{ app: "default", sha256: "ab".repeat(32) }],
    policies: [
      telling(quota),
      windowed("hosts", {
        match: { hosts: ["a.example", "*.b.example"], methods: ["GET"], headers: { "x-plan": ["free"] } },
      }),
      windowed("paths", { match: { paths: ["/a/*", "~^/v[0-9]+/(x|y)*$"] }, key: ["ip", "header:x-user", "query:q"] }),
      windowed("terms", {
        match: { paths: ["/terms"] },
        key: ["header:x-user"],
        onMissingKey: "shared",
        overrides: [{ key: ["vip*"], mode: "off" }],
        exempt: { cidrs: ["10.0.0.0/8", "@office"], keys: [["health"]] },
        schedule: { timezone: "Europe/Berlin", windows: [{ days: ["mon"], from: "09:00", to: "18:00" }] },
        onLimit: { action: "reject", status: 429, body: "slow down", headers: ["x-docs: /limits"] },
      }),
      { ...windowed("keyed", { match: { paths: ["/keyed"] }, key: ["header:x-user"] }), app: "shop" },
    ],
  };
}

/** What a delta from a good snapshot to the next revision has. */
function partsOfDelta({ epoch, revision, quota }: Good): Parts {
  return {
    head: {
      type: "delta",
      format: 1,
      epoch,
      revision: revision + 1,
      edition: "e",
      proof: "p",
      from: { epoch, revision },
      policyCount: 5,
      zones: { "Asia/Shanghai": [[0, -480]] },
    },
    apps: [{ app: "bank", realm: { hosts: ["bank.example"] } }],
    networks: [
      { app: "default", networks: "office", family: "ipv4", ranges: "0a0000000a00007f" },
      { app: "bank", networks: "crawlers", family: "ipv4", ranges: "c6336400c63364ff" },
    ],
    bans: [
      { id: "b3", app: "default", policy: "hosts", key: [], untilSeconds: 4_000_000_000 },
      { id: "b4", app: "bank", cidr: "@crawlers", untilSeconds: 4_000_000_000 },
      { id: "b1", app: "shop", cidr: "192.0.2.0/25", untilSeconds: 4_000_000_000 },
    ],
    callers: [{ app: "shop", sha256: "cd".repeat(32) }],
    policies: [
      telling(quota),
      windowed("terms", {
        match: { paths: ["/terms"] },
        schedule: { timezone: "Asia/Shanghai", windows: [{ days: ["sat"], from: "09:00", to: "18:00" }] },
      }),
      { ...windowed("keyed", { match: { paths: ["/keyed"] }, key: ["header:x-user"] }), app: "shop" },
      { ...windowed("new", { match: { hosts: ["bank.example"] } }), app: "bank" },
    ],
    gone: [
      { app: "default", policy: "paths" },
      { app: "shop", policy: "keyed" },
      { app: "shop" },
      { app: "shop", networks: "office", from: `20010db8${"0".repeat(24)}` },
      { ban: "b2" },
      { caller: "ab".repeat(32) },
    ],
  };
}

export function goodSnapshot(good: Good): string {
  return textOf("snapshot", partsOf(good));
}

/** From this snapshot to the next revision. */
export function goodDelta(good: Good): string {
  return textOf("delta", partsOfDelta(good));
}

function textOf(type: FrameType, { head, ...lists }: Parts): string {
  const lines = Object.entries(lists).map(([name, list]) => [
    name,
    list.map((entry) => JSON.stringify(entry) ?? "null"),
  ]);
  return layOut(type, JSON.stringify(head), Object.fromEntries(lines) as Parameters<typeof layOut>[2]);
}

/** A snapshot, or a delta from it, with changes: in its documents, in the rest, or in its text. */
export interface ChangedSnapshot {
  readonly type: FrameType;
  readonly where: keyof Parts | "nowhere";
  readonly by: readonly Change[];
  /** Written as one JSON document instead of by lines. */
  readonly inOne: boolean;
}

export const changedSnapshots: fc.Arbitrary<ChangedSnapshot> = fc.record({
  type: fc.constantFrom("snapshot", "delta"),
  where: fc.constantFrom(
    "policies",
    "policies",
    "policies",
    "head",
    "apps",
    "networks",
    "bans",
    "callers",
    "gone",
    "nowhere",
  ),
  by: fc.array(changes, { minLength: 1, maxLength: 3 }),
  inOne: fc.boolean(),
});

export function changedSnapshot(good: Good, { type, where, by, inOne }: ChangedSnapshot): string {
  const parts = type === "snapshot" ? partsOf(good) : partsOfDelta(good);
  const other = where === "nowhere" ? parts : { ...parts, [where]: partChanged(parts, where, by) };
  if (!inOne) return textOf(type, other);
  const { head, ...lists } = other;
  return JSON.stringify({ ...head, ...lists });
}

function partChanged(
  parts: Parts,
  where: Exclude<ChangedSnapshot["where"], "nowhere">,
  by: readonly Change[],
): unknown {
  const part = changed(parts[where] ?? [], ...by);
  if (where === "head")
    return typeof part === "object" && part !== null && Object.keys(part).length > 0
      ? part
      : { type: parts.head["type"] };
  return Array.isArray(part) ? part : [part];
}

export const snapshotTokens = [
  ...[
    '"type":"snapshot"',
    '"type":"delta"',
    '"gone":[\n',
    '{"ban":"b1"}',
    '"policies":[\n',
    "],\n",
    "]}\n",
    '"epoch":"x"',
    '"revision":1e400',
    "},\n{",
    '"bans":[\n',
    "\n",
    ",\n",
  ],
  ...["1e309", "-", "nul", '"\\ud800"', '"\\u0000"', "[[[[[[[[", "9".repeat(400)],
];

export const textDamage = fc.array(byteChanges(snapshotTokens), { minLength: 1, maxLength: 5 });

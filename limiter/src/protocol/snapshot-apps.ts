// Reads the apps of a snapshot, and applies them to traffic. No request meets the policies of an app without a realm. A network
// ban of an app with a realm applies to every request in that realm, even where no policy matches.

import type { Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { BansByPlace } from "../compiled/bans.ts";
import { type CompiledPolicy, compilePolicy } from "../compiled/compile.ts";
import { onLimitFrom } from "../document/on-limit.ts";
import type { Policy } from "../document/policy.ts";
import { nameShape } from "../document/policy-shape.ts";
import { addProblem, type Findings } from "../document/problems.ts";
import type { Shape } from "../document/shape.ts";
import type { Networks } from "../key/networks.ts";
import { beneath } from "../realm/realm.ts";
import { matchedRealmShape } from "../realm/realm-shape.ts";
import { readEntries } from "./bans-and-callers.ts";
import type { SnapshotApp } from "./push-messages.ts";

const appShape: Shape = {
  kind: "record",
  fields: {
    app: { shape: nameShape, description: "Names the app.", required: true },
    realm: { shape: matchedRealmShape, description: "Where its policies match. Absent: nowhere." },
  },
};

/** The listed apps, by name. */
export type SnapshotApps = Readonly<Record<string, SnapshotApp>>;

/** @param entries as in the snapshot; absent: none */
export function readApps(entries: unknown, findings: Findings, pause: Pause): SnapshotApps {
  const apps = emptyTable<SnapshotApp>();
  const list = readEntries(entries, "apps", appShape, findings, pause);
  for (let i = 0; i < list.length; i++) {
    const entry = list[i] as SnapshotApp | undefined;
    // An entry that is not an object has been reported already.
    if (typeof entry !== "object" || entry === null || typeof entry.app !== "string") continue;
    if (apps[entry.app] === undefined) apps[entry.app] = entry;
    else
      addProblem(findings, {
        path: `apps[${i}].app`,
        expected: "an app that is not listed before",
        got: `"${entry.app}"`,
      });
  }
  return apps;
}

/**
 * Returns the entries that the index must have: policies that requests can meet, and entries for bans. Where no app is listed,
 * these are the policies as they are.
 */
export function trafficOf(
  policies: readonly CompiledPolicy[],
  apps: SnapshotApps,
  { ofApp }: BansByPlace,
  pause: Pause,
): readonly CompiledPolicy[] {
  if (isEmpty(apps)) return policies;
  const met: CompiledPolicy[] = [];
  for (const policy of policies) {
    const app = apps[policy.app];
    // A policy that is off still carries the bans of its app, but only where the app has no realm that could carry them.
    if (app === undefined || (app.realm !== undefined && policy.policy.mode !== "off")) met.push(policy);
    pause();
  }
  for (const name in apps) {
    const realm = apps[name]?.realm;
    const networks = ofApp[name];
    if (realm !== undefined && networks !== undefined) met.push(banEntry(name, realm, networks));
    pause();
  }
  return met;
}

function isEmpty(apps: SnapshotApps): boolean {
  for (const _ in apps) return false;
  return true;
}

/** Returns whether this is not a policy, but stands in the index for the bans of its app. */
export function isBanEntry({ policy }: CompiledPolicy): boolean {
  return policy.name === "";
}

/** Above any priority that a policy can have: nothing else is decided for a banned client. */
const firstOfAll = 1_000_001;

function banEntry(
  app: string,
  { hosts = [], paths = [] }: NonNullable<SnapshotApp["realm"]>,
  networks: Networks,
): CompiledPolicy {
  const patterns: string[] = [];
  for (const path of paths) {
    patterns.push(`${beneath(path)}*`);
    if (path !== "/") patterns.push(path);
  }
  const policy: Policy = {
    name: "",
    description: "",
    mode: "off",
    priority: firstOfAll,
    match: { hosts, paths: patterns, methods: [], headers: {} },
    key: [],
    onMissingKey: "skip",
    limits: [],
    cost: 1,
    costSource: undefined,
    scope: "node",
    onStoreFailure: "local",
    onLimit: onLimitFrom({}),
    overrides: undefined,
    exempt: undefined,
    schedule: undefined,
  };
  return compilePolicy(app, policy, {}, { networks, keys: undefined });
}

// The apps of a snapshot, and what follows for traffic: policies of an app without a realm are met by no request, and a
// ban of a network by an app that has one holds on every request in its realm, also where no policy matches.

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

/** Those that are listed, by name. */
export type SnapshotApps = Readonly<Record<string, SnapshotApp>>;

/** @param entries as in the snapshot; absent: none */
export function readApps(entries: unknown, findings: Findings, pause: Pause): SnapshotApps {
  const apps = emptyTable<SnapshotApp>();
  const list = readEntries(entries, "apps", appShape, findings, pause);
  for (let i = 0; i < list.length; i++) {
    const entry = list[i] as SnapshotApp | undefined;
    // What is no object has been reported already.
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

/** What requests may meet, for the index: of the policies, and for bans. Where no app is listed, the policies as they are. */
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
    // One that is off stands for a ban of its app's only where there is no realm to hold it in.
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

/** Whether it is no policy, and stands in the index for the bans of its app. */
export function isBanEntry({ policy }: CompiledPolicy): boolean {
  return policy.name === "";
}

/** Above what a policy can have: nothing is decided for who is banned. */
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

// Which policies requests can meet. No request meets the policies of an app without a realm: they are for the check API. A network
// ban of an app with a realm applies to every request in that realm, even where no policy matches: an entry of the index that stands
// for no policy carries it.

import { type CompiledPolicy, compilePolicy } from "../compiled/compile.ts";
import { onLimitFrom } from "../document/on-limit.ts";
import type { Policy } from "../document/policy.ts";
import type { Networks } from "../key/networks.ts";
import { beneath } from "../realm/realm.ts";
import type { SnapshotApp } from "./entries.ts";

/** @param app the entry of the policy's app; undefined: it is not listed */
export function isMetByRequests({ policy }: CompiledPolicy, app: SnapshotApp | undefined): boolean {
  // A policy that is off still carries the bans of its app, but only where the app has no realm that could carry them.
  return app === undefined || app.everywhere === true || (app.realm !== undefined && policy.mode !== "off");
}

/** Returns what the index must have for the bans of an app. @param networks those that the app bans; undefined: none */
export function banEntryOf(app: SnapshotApp | undefined, networks: Networks | undefined): CompiledPolicy | undefined {
  return app?.realm === undefined || networks === undefined ? undefined : banEntry(app.app, app.realm, networks);
}

/** Returns whether this is not a policy, but stands in the index for the bans of its app. */
export function isBanEntry({ name }: CompiledPolicy): boolean {
  return name === "";
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

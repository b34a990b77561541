// A state of policies consists of entries: policies, apps, blocks of named lists of networks, bans, callers and time zones. Each entry has a name that no other entry of
// the state has. So a change is a list of entries to set and a list of names that are gone.

import type { SnapshotBan } from "../compiled/bans.ts";
import type { AppExempt } from "../document/app-exempt.ts";
import type { Policy } from "../document/policy.ts";
import { v4Digits, v6Digits } from "../key/address-ranges.ts";

/**
 * An app that has a realm, or has none: then its policies are for the check API only. An app that is not listed has every host
 * and path, and no exemptions; such are `default` and apps from before there were realms.
 */
export interface SnapshotApp {
  app: string;
  /** All its policies match only within this; an absent list means every host, or every path. Bans of its networks hold there. */
  realm?: { hosts?: string[]; paths?: string[] };
  /** True: it has every host and path without a realm, like an app that is not listed. */
  everywhere?: boolean;
  /** Whom no policy of the app counts; of app `default`: no policy at all. */
  exempt?: AppExempt;
}

/** A block of a named list of networks (key/address-ranges.ts). */
export interface SnapshotNetworks {
  app: string;
  /** The name of the list. */
  networks: string;
  family: "ipv4" | "ipv6";
  ranges: string;
}

/** A caller that may use the check API. */
export interface SnapshotCaller {
  app: string;
  /** SHA-256 of the token, in lower case hex. */
  sha256: string;
  /** The token's name. Absent: the control plane is older than names in snapshots. */
  name?: string;
  /** The token is worth nothing from this second since 1970 on. */
  expiresAtSeconds?: number;
}

/** A valid policy and its app. */
export interface AppPolicy {
  readonly app: string;
  readonly policy: Policy;
}

/** Names an entry that is gone, as the push protocol writes it. With a policy, its bans of key values are gone too. */
export type GoneEntry =
  | { app: string; policy: string }
  | { app: string; networks: string; from: string }
  | { app: string }
  | { ban: string }
  | { caller: string };

/** An entry as it was written. */
export interface EntryText {
  readonly name: string;
  /** JSON of one line. */
  readonly text: string;
}

export type EntryKind = "policy" | "app" | "networks" | "ban" | "caller" | "zone";

// The kind is a letter. Names of apps, policies and lists contain no ":".
export function nameOfPolicy(app: string, policy: string): string {
  return `p:${app}:${policy}`;
}

export function nameOfApp(app: string): string {
  return `a:${app}`;
}

/** @param from the first address of the block, in digits */
export function nameOfNetworks(app: string, networks: string, from: string): string {
  return `n:${app}:${networks}:${from}`;
}

/** Returns the digits of the first address. */
export function beginOfBlock({ family, ranges }: Pick<SnapshotNetworks, "family" | "ranges">): string {
  return ranges.slice(0, family === "ipv4" ? v4Digits : v6Digits);
}

export function nameOfBan({ id }: Pick<SnapshotBan, "id">): string {
  return `b:${id}`;
}

export function nameOfCaller({ sha256 }: Pick<SnapshotCaller, "sha256">): string {
  return `c:${sha256}`;
}

export function nameOfZone(zone: string): string {
  return `z:${zone}`;
}

const kinds: Readonly<Record<string, EntryKind>> = {
  p: "policy",
  a: "app",
  n: "networks",
  b: "ban",
  c: "caller",
  z: "zone",
};

/** @param name made by one of the functions above */
export function kindOf(name: string): EntryKind {
  return kinds[name.charAt(0)] as EntryKind;
}

export function nameOfGone(gone: GoneEntry): string {
  if ("policy" in gone) return nameOfPolicy(gone.app, gone.policy);
  if ("networks" in gone) return nameOfNetworks(gone.app, gone.networks, gone.from);
  if ("app" in gone) return nameOfApp(gone.app);
  return "ban" in gone ? nameOfBan({ id: gone.ban }) : nameOfCaller({ sha256: gone.caller });
}

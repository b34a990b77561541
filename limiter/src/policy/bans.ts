// Bans as requests meet them: those of networks hold for all policies of their app, those of key values for one policy.
// A ban ends by itself: what is in force is found again when the first of them has ended.

import type { KeyPart } from "../key/key-part.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns, patternValue } from "../key/key-patterns.ts";
import { isWithin, type Networks, networksOf } from "../key/networks.ts";
import type { SnapshotBan } from "./snapshot.ts";
import { emptyTable } from "./table.ts";

/** Those that one policy looks at. */
export interface PolicyBans {
  /** One record for all policies of the app. */
  readonly networks: NetworkBans | undefined;
  readonly keys: KeyBans | undefined;
}

interface NetworkBans {
  readonly all: readonly SnapshotBan[];
  untilSeconds: number;
  inForce: Networks;
}

interface KeyBans {
  readonly all: readonly SnapshotBan[];
  readonly key: readonly KeyPart[];
  untilSeconds: number;
  inForce: KeyPatterns;
}

export interface BansByPlace {
  readonly ofApp: Record<string, NetworkBans>;
  readonly ofPolicy: Record<string, SnapshotBan[]>;
}

export function sortBans(bans: readonly SnapshotBan[]): BansByPlace {
  const networks = emptyTable<SnapshotBan[]>();
  const ofPolicy = emptyTable<SnapshotBan[]>();
  for (const ban of bans) {
    if (ban.cidr !== undefined) append(networks, ban.app, ban);
    else append(ofPolicy, placeOf(ban.app, ban.policy ?? ""), ban);
  }
  const ofApp = emptyTable<NetworkBans>();
  for (const app in networks) {
    ofApp[app] = { all: networks[app] as SnapshotBan[], untilSeconds: 0, inForce: networksOf([]) };
  }
  return { ofApp, ofPolicy };
}

/** Undefined where there are none. */
export function bansOn(
  { ofApp, ofPolicy }: BansByPlace,
  app: string,
  policy: string,
  key: readonly KeyPart[],
): PolicyBans | undefined {
  const networks = ofApp[app];
  const all = (ofPolicy[placeOf(app, policy)] ?? []).filter((ban) => canMatch(ban.key ?? [], key));
  const keys = all.length === 0 ? undefined : { all, key, untilSeconds: 0, inForce: [] };
  return networks === undefined && keys === undefined ? undefined : { networks, keys };
}

/** A policy's key may have changed since the ban was made: of a key that it never has now, nothing is looked up. */
function canMatch(patterns: readonly string[], key: readonly KeyPart[]): boolean {
  if (patterns.length !== key.length) return false;
  for (let i = 0; i < key.length; i++) {
    const pattern = patterns[i] as string;
    if (!pattern.endsWith("*") && patternValue(key[i] as KeyPart, pattern) === undefined) return false;
  }
  return true;
}

/** @param address $remote_addr @param nowSeconds since the epoch */
export function isBannedAddress({ networks }: PolicyBans, address: string, nowSeconds: number): boolean {
  if (networks === undefined) return false;
  if (nowSeconds >= networks.untilSeconds) {
    const inForce = networks.all.filter(({ untilSeconds }) => untilSeconds > nowSeconds);
    networks.inForce = networksOf(inForce.map(({ cidr }) => cidr as string));
    networks.untilSeconds = firstEnd(inForce);
  }
  return isWithin(networks.inForce, address);
}

/** @param values in the key's order, not encoded */
export function isBannedKey({ keys }: PolicyBans, values: readonly string[], nowSeconds: number): boolean {
  if (keys === undefined) return false;
  if (nowSeconds >= keys.untilSeconds) {
    const inForce = keys.all.filter(({ untilSeconds }) => untilSeconds > nowSeconds);
    keys.inForce = indexKeyPatterns(
      keys.key,
      inForce.map(({ key }) => key as string[]),
    );
    keys.untilSeconds = firstEnd(inForce);
  }
  return firstMatch(keys.inForce, values) !== undefined;
}

function firstEnd(bans: readonly SnapshotBan[]): number {
  let first = Number.POSITIVE_INFINITY;
  for (const { untilSeconds } of bans) first = Math.min(first, untilSeconds);
  return first;
}

/** Names cannot hold ":". */
function placeOf(app: string, policy: string): string {
  return `${app}:${policy}`;
}

function append(lists: Record<string, SnapshotBan[]>, place: string, ban: SnapshotBan): void {
  const list = lists[place];
  if (list === undefined) lists[place] = [ban];
  else list.push(ban);
}

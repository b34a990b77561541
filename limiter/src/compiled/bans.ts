// Applies bans to requests. A network ban holds in the whole realm of its app, whatever the policies there say. A ban of key
// values holds for one policy. The realm of app `default` is every host and path. In the realm of another app, an entry of the
// index carries the ban (state/traffic.ts). For an app from before there were realms, the realm is what its policies
// match, in whatever mode. In the check API, the policies determine which bans apply.
//
// A ban ends by itself: every lookup compares it with the time, so that nothing is built anew when a ban has ended.

import { noPause, type Pause } from "../basics/pause.ts";
import { sorted } from "../basics/sort.ts";
import type { KeyPart } from "../key/key-part.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns, patternValue } from "../key/key-patterns.ts";
import { isWithin, type Networks } from "../key/networks.ts";

/** A ban has exactly one of three forms: `cidr`, `policy` and `key`, or `policy` and `keyPattern`. */
export interface SnapshotBan {
  id: string;
  app: string;
  /** As `formatCidr` writes it, or a reference to a list of networks like "@crawlers". */
  cidr?: string;
  policy?: string;
  /** Key values in the order of the policy's key. */
  key?: string[];
  /** Patterns in the order of the policy's key: values, "*" for any value, or the beginning of a value and "*". */
  keyPattern?: string[];
  /** The ban is over from this second since 1970 on: it ends without another snapshot. */
  untilSeconds: number;
}

/** The bans that one policy checks. */
export interface PolicyBans {
  /** One record for all policies of the app. Undefined for app `default`: its networks are refused before any policy is met. */
  readonly networks: Networks | undefined;
  readonly keys: KeyBans | undefined;
}

interface KeyBans {
  readonly patterns: KeyPatterns;
  /** By index of the pattern. The ban that ends last comes first, so that it is the first to match. */
  readonly untilSeconds: readonly number[];
}

/**
 * Returns the bans that a policy checks. Undefined: none.
 *
 * @param networks those that its app bans @param bans of its key values, in any order
 */
export function policyBans(
  networks: Networks | undefined,
  bans: readonly SnapshotBan[],
  key: readonly KeyPart[],
  pause: Pause = noPause,
): PolicyBans | undefined {
  if (bans.length === 0) return networks === undefined ? undefined : { networks, keys: undefined };
  const all: SnapshotBan[] = [];
  for (const ban of bans) {
    if (canMatch(ban, key)) all.push(ban);
    pause();
  }
  const keys = all.length === 0 ? undefined : keyBansOf(all, key, pause);
  return networks === undefined && keys === undefined ? undefined : { networks, keys };
}

function keyBansOf(bans: SnapshotBan[], key: readonly KeyPart[], pause: Pause): KeyBans {
  const lists: string[][] = [];
  const areValues: boolean[] = [];
  const untilSeconds: number[] = [];
  for (const ban of sorted(bans, endsLater, pause)) {
    lists.push(textsOf(ban));
    areValues.push(ban.keyPattern === undefined);
    untilSeconds.push(ban.untilSeconds);
  }
  return { patterns: indexKeyPatterns(key, lists, pause, (place) => areValues[place] as boolean), untilSeconds };
}

function textsOf({ key, keyPattern }: SnapshotBan): string[] {
  return keyPattern ?? key ?? [];
}

/** By id too, so that the order does not depend on that in which the bans came. */
function endsLater(this: void, a: SnapshotBan, b: SnapshotBan): boolean {
  return a.untilSeconds === b.untilSeconds ? a.id < b.id : a.untilSeconds > b.untilSeconds;
}

/**
 * Returns whether a ban can match. The policy's key may have changed since the ban was made; values that the key can never have
 * now are not looked up.
 */
function canMatch(ban: SnapshotBan, key: readonly KeyPart[]): boolean {
  const patterns = textsOf(ban);
  if (patterns.length !== key.length) return false;
  for (let i = 0; i < key.length; i++) {
    const pattern = patterns[i] as string;
    const isOpen = ban.keyPattern !== undefined && pattern.endsWith("*");
    if (!isOpen && patternValue(key[i] as KeyPart, pattern) === undefined) return false;
  }
  return true;
}

/** @param address $remote_addr @param nowSeconds since the epoch */
export function isBannedAddress({ networks }: PolicyBans, address: string, nowSeconds: number): boolean {
  return networks !== undefined && isWithin(networks, address, nowSeconds);
}

/** @param values in the key's order, not encoded */
export function isBannedKey({ keys }: PolicyBans, values: readonly string[], nowSeconds: number): boolean {
  if (keys === undefined) return false;
  const place = firstMatch(keys.patterns, values);
  return place !== undefined && (keys.untilSeconds[place] as number) > nowSeconds;
}

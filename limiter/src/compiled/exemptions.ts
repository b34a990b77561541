// Exemptions: whom a policy does not count. A policy has its own, those of its app, and those of app `default`, which hold for all apps,
// as its bans do. The exemptions of an app are compiled once, and all policies that they concern refer to the same record.

import { textOfValue } from "../basics/sharing.ts";
import { type AppExempt, type ExemptValues, exemptPartText } from "../document/app-exempt.ts";
import type { Exempt } from "../document/policy.ts";
import { type KeyPart, keyPartText } from "../key/key-part.ts";
import { firstMatch, indexKeyPatterns, type KeyPatterns } from "../key/key-patterns.ts";
import type { ListScope } from "../key/network-lists.ts";
import { isWithin, type Networks, networksOf } from "../key/networks.ts";

/** The exemptions of an app. */
export interface AppExemptions {
  /** The same only for equal exemptions. */
  readonly text: string;
  /** Undefined: it exempts no networks. */
  readonly networks: Networks | undefined;
  readonly keys: readonly ExemptValues[];
}

/** The exemptions of one policy. */
export interface CompiledExempt {
  /** Its own. */
  readonly networks: Networks;
  /** Its own, and those of apps for parts of its key. */
  readonly patterns: KeyPatterns;
  /** The networks of its app and of app `default`; absent: there are none. */
  readonly ofApps?: readonly Networks[];
}

/** @param scope where references to lists lead @returns undefined: nobody is exempt */
export function appExemptions(exempt: AppExempt | undefined, scope: ListScope): AppExemptions | undefined {
  const { cidrs = [], keys = [] } = exempt ?? {};
  if (cidrs.length === 0 && keys.length === 0) return undefined;
  const canonical = keys.map(({ part, pattern }) => ({ part: exemptPartText(part), pattern }));
  return {
    text: textOfValue({ cidrs, keys: canonical }),
    networks: cidrs.length === 0 ? undefined : networksOf(cidrs, scope),
    keys: canonical,
  };
}

/**
 * @param own those of the policy; undefined: none
 * @param ofApps those of its app and of app `default`
 * @param scope where references to lists lead
 * @returns undefined: nobody is exempt from this policy
 */
export function compileExempt(
  key: readonly KeyPart[],
  own: Exempt | undefined,
  ofApps: readonly AppExemptions[],
  scope: ListScope | undefined,
): CompiledExempt | undefined {
  const networks: Networks[] = [];
  const lists: (readonly string[])[] = [];
  for (const list of own?.keys ?? []) lists.push(list);
  for (const app of ofApps) {
    if (app.networks !== undefined) networks.push(app.networks);
    for (const values of app.keys) addPatterns(lists, key, values);
  }
  const cidrs = own?.cidrs ?? [];
  if (cidrs.length === 0 && lists.length === 0 && networks.length === 0) return undefined;
  const exempt = { networks: networksOf(cidrs, scope), patterns: indexKeyPatterns(key, lists) };
  return networks.length === 0 ? exempt : { ...exempt, ofApps: networks };
}

/** Adds a list of patterns if the values are of a part of the key. A part that the key has twice has the same value in both places. */
function addPatterns(lists: (readonly string[])[], key: readonly KeyPart[], { part, pattern }: ExemptValues): void {
  for (let i = 0; i < key.length; i++) {
    if (keyPartText(key[i] as KeyPart) !== part) continue;
    lists.push(key.map((_, place) => (place === i ? pattern : "*")));
    return;
  }
}

/** @param address $remote_addr */
export function exemptsAddress({ networks, ofApps }: CompiledExempt, address: string): boolean {
  if (isWithin(networks, address)) return true;
  if (ofApps === undefined) return false;
  for (const ofApp of ofApps) if (isWithin(ofApp, address)) return true;
  return false;
}

/** @param values in the key's order, not encoded */
export function exemptsKey({ patterns }: CompiledExempt, values: readonly string[]): boolean {
  return firstMatch(patterns, values) !== undefined;
}

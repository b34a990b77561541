// Which policies a request meets. Hosts are resolved when the index is made: each host that a policy names has its
// whole list, in order of evaluation, so that a request looks up one list and tests only paths and methods. Making them
// costs about as much as they are long.

import type { CompiledPolicy } from "../policy/compile.ts";
import { emptyTable } from "../policy/table.ts";
import { matchesPath } from "./path-pattern.ts";

export interface PolicyIndex {
  /** By host name. */
  readonly exact: Record<string, CompiledPolicy[]>;
  /** By what follows "*.". */
  readonly wildcard: Record<string, CompiledPolicy[]>;
  /** For every other host. */
  readonly anyHost: readonly CompiledPolicy[];
  /** False: the host decides nothing, and need not be read. */
  readonly needsHost: boolean;
}

/** @param policies in any order; those of mode `off` are left out */
export function indexPolicies(policies: readonly CompiledPolicy[]): PolicyIndex {
  const live: CompiledPolicy[] = [];
  for (const policy of policies) {
    if (policy.policy.mode !== "off") live.push(policy);
  }
  live.sort((a, b) => byEvaluation(a, b));

  const own: OwnLists = { exact: emptyTable(), wildcard: emptyTable(), anyHost: [] };
  let needsHost = false;
  for (let place = 0; place < live.length; place++) {
    const { hosts } = (live[place] as CompiledPolicy).policy.match;
    if (hosts.length === 0) own.anyHost.push(place);
    else needsHost = true;
    for (const host of hosts) {
      if (host.startsWith("*.")) append(own.wildcard, host.slice(2), place);
      else append(own.exact, host, place);
    }
  }

  const whole = emptyTable<Places>();
  const exact = emptyTable<CompiledPolicy[]>();
  const wildcard = emptyTable<CompiledPolicy[]>();
  for (const host in own.exact) {
    exact[host] = policiesAt(live, merge(own.exact[host] as Places, placesAbove(own, whole, host)));
  }
  for (const suffix in own.wildcard) wildcard[suffix] = policiesAt(live, placesBelow(own, whole, suffix));
  return { exact, wildcard, anyHost: policiesAt(live, own.anyHost), needsHost };
}

/** The policies whose hosts match, in order of evaluation. @param host in lower case, without a port */
export function policiesForHost(index: PolicyIndex, host: string): readonly CompiledPolicy[] {
  const named = index.exact[host];
  if (named !== undefined) return named;
  let dot = host.indexOf(".");
  while (dot >= 0) {
    const list = index.wildcard[host.slice(dot + 1)];
    if (list !== undefined) return list;
    dot = host.indexOf(".", dot + 1);
  }
  return index.anyHost;
}

/** Whether path and method match too. @param path in normal form @param method in upper case */
export function matchesTarget(policy: CompiledPolicy, path: string, method: string): boolean {
  if (policy.methods !== undefined && policy.methods[method] !== true) return false;
  return policy.paths.length === 0 || matchesPath(policy.paths, path);
}

function byEvaluation(a: CompiledPolicy, b: CompiledPolicy): number {
  if (a.policy.priority !== b.policy.priority) return b.policy.priority - a.policy.priority;
  if (a.policy.name !== b.policy.name) return a.policy.name < b.policy.name ? -1 : 1;
  if (a.app === b.app) return 0;
  return a.app < b.app ? -1 : 1;
}

/** Places in the order of evaluation, each once, ascending. */
type Places = number[];

/** By host pattern, the policies that name it. */
interface OwnLists {
  readonly exact: Record<string, Places>;
  readonly wildcard: Record<string, Places>;
  readonly anyHost: Places;
}

/** @param place none lower has been appended before; the same one may have been */
function append(lists: Record<string, Places>, host: string, place: number): void {
  const list = lists[host];
  if (list === undefined) lists[host] = [place];
  else if (list[list.length - 1] !== place) list.push(place);
}

/** What every host below `suffix`, which a wildcard names, meets. @param whole the lists made before, kept here */
function placesBelow(own: OwnLists, whole: Record<string, Places>, suffix: string): Places {
  const made = whole[suffix];
  if (made !== undefined) return made;
  const places = merge(own.wildcard[suffix] as Places, placesAbove(own, whole, suffix));
  whole[suffix] = places;
  return places;
}

/** What `host` meets by the wildcards above it and by policies of every host: the nearest wildcard has it all. */
function placesAbove(own: OwnLists, whole: Record<string, Places>, host: string): Places {
  let dot = host.indexOf(".");
  while (dot >= 0) {
    const suffix = host.slice(dot + 1);
    if (own.wildcard[suffix] !== undefined) return placesBelow(own, whole, suffix);
    dot = host.indexOf(".", dot + 1);
  }
  return own.anyHost;
}

function merge(a: Places, b: Places): Places {
  const merged: Places = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const first = i < a.length ? (a[i] as number) : Number.POSITIVE_INFINITY;
    const second = j < b.length ? (b[j] as number) : Number.POSITIVE_INFINITY;
    merged.push(Math.min(first, second));
    if (first <= second) i += 1;
    if (second <= first) j += 1;
  }
  return merged;
}

function policiesAt(live: readonly CompiledPolicy[], places: Places): CompiledPolicy[] {
  const policies: CompiledPolicy[] = [];
  for (const place of places) policies.push(live[place] as CompiledPolicy);
  return policies;
}

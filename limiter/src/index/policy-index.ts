// Finds the policies that a request meets, at a cost that does not grow with the number of policies. The host is looked up first,
// then the path: exact paths and prefixes are found by the path itself. There is one list of policies, in order of evaluation,
// for each host pattern and each path pattern that is the nearest to a request's path there. It is made when it is first needed,
// and then kept. Only the patterns determine which lists there can be; what clients send adds none.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";
import { passesTest } from "../match/path-pattern.ts";
import { append, longestPrefix, merge, type PathTable, type Places, pathTable, placesFor } from "./path-table.ts";

export interface PolicyIndex {
  /** False: the host decides nothing, so it need not be read. */
  readonly needsHost: boolean;
  /** False: no policy names a path, so it need not be read. */
  readonly needsPath: boolean;
  /** The candidates of every request, if neither host nor path is needed. */
  readonly everywhere: readonly CompiledPolicy[];
  /** The policies that requests may meet, in order of evaluation. */
  readonly live: readonly CompiledPolicy[];
  /** Keyed by host name. */
  readonly exact: Record<string, HostEntry>;
  /** Keyed by what follows "*.". */
  readonly wildcard: Record<string, HostEntry>;
  readonly hasWildcards: boolean;
  /** For every other host. */
  readonly anyHost: HostEntry;
  readonly prefixIds: { next: number };
  /** The entries that have been needed so far, and how many policies their lists hold together. */
  asked: HostEntry[];
  kept: number;
}

/** The entry of one host pattern. */
interface HostEntry {
  /** The name, or what follows "*."; empty for the entry of every host. */
  readonly name: string;
  /** Places of the policies that have exactly this pattern. */
  readonly own: number[];
  ownTable: PathTable | undefined;
  /** Undefined until a request needs it. */
  lists: HostLists | undefined;
}

/** The lists that requests to a host pattern have needed. */
interface HostLists {
  /** The tables of this pattern, and of those above it that match the same hosts. Patterns without policies are left out. */
  readonly tables: readonly PathTable[];
  readonly namesPaths: boolean;
  /** For paths that no pattern matches. */
  readonly otherwise: readonly CompiledPolicy[];
  readonly byPath: Record<string, readonly CompiledPolicy[]>;
  /** Keyed by the id of the longest prefix. */
  readonly byPrefix: Record<number, readonly CompiledPolicy[]>;
}

/**
 * The most policies that are kept in lists: 16 MB in LuaJIT. There are more only where very many policies for every path or host
 * meet very many patterns; then all lists are dropped, and made again when they are needed.
 */
const mostKept = 1_000_000;

/** The table of a pattern with more policies than this is made in advance, and not by the first request that needs it. */
const mostTabulatedByRequest = 50;

/** In bytes, including the dot before it. */
const longestHost = 254;

/** @param policies in any order; those of mode `off` are left out, unless they carry a ban of their app */
export function indexPolicies(policies: readonly CompiledPolicy[], pause: Pause = noPause): PolicyIndex {
  const live = inOrder(policies, pause);

  const exact = emptyTable<HostEntry>();
  const wildcard = emptyTable<HostEntry>();
  const anyHost = newEntry("");
  let needsHost = false;
  let needsPath = false;
  let hasWildcards = false;
  for (let place = 0; place < live.length; place++) {
    const { hosts, paths } = (live[place] as CompiledPolicy).policy.match;
    if (paths.length > 0) needsPath = true;
    if (hosts.length === 0) anyHost.own.push(place);
    else needsHost = true;
    for (const host of hosts) {
      const isWildcard = host.startsWith("*.");
      if (isWildcard) hasWildcards = true;
      append((isWildcard ? entryNamed(wildcard, host.slice(2)) : entryNamed(exact, host)).own, place);
    }
    pause();
  }
  const prefixIds = { next: 0 };
  const tabulate = (entry: HostEntry) => {
    if (entry.own.length > mostTabulatedByRequest) entry.ownTable = pathTable(live, entry.own, prefixIds, pause);
  };
  for (const name in exact) tabulate(exact[name] as HostEntry);
  for (const name in wildcard) tabulate(wildcard[name] as HostEntry);
  tabulate(anyHost);
  return {
    needsHost,
    needsPath,
    everywhere: needsHost || needsPath ? [] : live,
    live,
    exact,
    wildcard,
    hasWildcards,
    anyHost,
    prefixIds,
    asked: [],
    kept: 0,
  };
}

/**
 * Returns the policies that host and path do not rule out, in order of evaluation: all that match, except for what `meets` tests.
 *
 * @param host in lower case, without a port
 * @param path in normal form
 */
export function candidates(index: PolicyIndex, host: string, path: string): readonly CompiledPolicy[] {
  const entry = index.needsHost ? (index.exact[host] ?? entryAbove(index, host)) : index.anyHost;
  const lists = entry.lists ?? listsOf(index, entry);
  if (!lists.namesPaths) return lists.otherwise;
  const known = lists.byPath[path];
  if (known !== undefined) return known;

  const { tables } = lists;
  let longest: { readonly id: number; readonly length: number } | undefined;
  for (const table of tables) {
    if (table.exact[path] !== undefined) {
      const policies = policiesFor(index, tables, path);
      lists.byPath[path] = policies;
      return policies;
    }
    const prefix = longestPrefix(table, path);
    if (prefix !== undefined && (longest === undefined || prefix.length > longest.length)) longest = prefix;
  }
  if (longest === undefined) return lists.otherwise;
  const made = lists.byPrefix[longest.id];
  if (made !== undefined) return made;
  const policies = policiesFor(index, tables, path);
  lists.byPrefix[longest.id] = policies;
  return policies;
}

/**
 * Returns whether a candidate matches in everything else: method, headers and regular expressions of paths. A candidate that is
 * not `conditional` always does.
 *
 * @param path in normal form
 * @param method in upper case
 * @param hasHeader whether the request has the header, given by its name in lower case, with one of these values
 */
export function meets(
  policy: CompiledPolicy,
  path: string,
  method: string,
  hasHeader: (this: void, name: string, values: Readonly<Record<string, boolean>>) => boolean,
): boolean {
  if (policy.methods !== undefined && policy.methods[method] !== true) return false;
  if (policy.paths !== undefined && !passesTest(policy.paths, path)) return false;
  for (const { name, values } of policy.headers) {
    if (!hasHeader(name, values)) return false;
  }
  return true;
}

/**
 * Returns the policies that requests may meet, in order of evaluation. Stretches that are already in order are merged as they
 * are. This is done in short steps, which no library's sort offers.
 */
function inOrder(policies: readonly CompiledPolicy[], pause: Pause): CompiledPolicy[] {
  let runs: CompiledPolicy[][] = [];
  let run: CompiledPolicy[] = [];
  for (const policy of policies) {
    if (policy.policy.mode === "off" && policy.bans?.networks === undefined) continue;
    const last = run[run.length - 1];
    if (last !== undefined && byEvaluation(last, policy) > 0) {
      runs.push(run);
      run = [];
    }
    run.push(policy);
    pause();
  }
  runs.push(run);
  while (runs.length > 1) {
    const merged: CompiledPolicy[][] = [];
    for (let i = 0; i < runs.length; i += 2) {
      merged.push(mergeRuns(runs[i] as CompiledPolicy[], runs[i + 1] ?? [], pause));
    }
    runs = merged;
  }
  return runs[0] as CompiledPolicy[];
}

function mergeRuns(a: CompiledPolicy[], b: CompiledPolicy[], pause: Pause): CompiledPolicy[] {
  if (b.length === 0) return a;
  const merged: CompiledPolicy[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const first = a[i];
    const second = b[j];
    if (second === undefined || (first !== undefined && byEvaluation(first, second) <= 0)) {
      merged.push(first as CompiledPolicy);
      i += 1;
    } else {
      merged.push(second);
      j += 1;
    }
    pause();
  }
  return merged;
}

function byEvaluation(a: CompiledPolicy, b: CompiledPolicy): number {
  if (a.policy.priority !== b.policy.priority) return b.policy.priority - a.policy.priority;
  if (a.policy.name !== b.policy.name) return a.policy.name < b.policy.name ? -1 : 1;
  if (a.app === b.app) return 0;
  return a.app < b.app ? -1 : 1;
}

function newEntry(name: string): HostEntry {
  return { name, own: [], ownTable: undefined, lists: undefined };
}

function entryNamed(entries: Record<string, HostEntry>, name: string): HostEntry {
  let entry = entries[name];
  if (entry === undefined) {
    entry = newEntry(name);
    entries[name] = entry;
  }
  return entry;
}

/** Returns the entry of the nearest wildcard above a name, or that of every host. */
function entryAbove(index: PolicyIndex, name: string): HostEntry {
  // A host of many dots costs no more than the longest host that a policy can name.
  let dot = index.hasWildcards ? name.indexOf(".", Math.max(0, name.length - longestHost)) : -1;
  while (dot >= 0) {
    const entry = index.wildcard[name.slice(dot + 1)];
    if (entry !== undefined) return entry;
    dot = name.indexOf(".", dot + 1);
  }
  return index.anyHost;
}

function listsOf(index: PolicyIndex, entry: HostEntry): HostLists {
  const tables: PathTable[] = [];
  let namesPaths = false;
  let from = entry;
  while (true) {
    if (from.ownTable === undefined) from.ownTable = pathTable(index.live, from.own, index.prefixIds);
    if (from.own.length > 0) tables.push(from.ownTable);
    if (from.ownTable.namesPaths) namesPaths = true;
    if (from === index.anyHost) break;
    from = entryAbove(index, from.name);
  }
  let places: Places = [];
  for (const table of tables) places = merge(places, table.everywhere);
  const lists: HostLists = {
    tables,
    namesPaths,
    otherwise: keep(index, places),
    byPath: emptyTable(),
    byPrefix: {},
  };
  entry.lists = lists;
  index.asked.push(entry);
  return lists;
}

function policiesFor(index: PolicyIndex, tables: readonly PathTable[], path: string): readonly CompiledPolicy[] {
  let places: Places = [];
  for (const table of tables) places = merge(places, placesFor(table, path));
  return keep(index, places);
}

/** Returns the policies of a list that is going to be kept. */
function keep(index: PolicyIndex, places: Places): readonly CompiledPolicy[] {
  index.kept += places.length + 1;
  if (index.kept > mostKept) {
    for (const entry of index.asked) entry.lists = undefined;
    index.asked = [];
    index.kept = places.length + 1;
  }
  const policies: CompiledPolicy[] = [];
  for (const place of places) policies.push(index.live[place] as CompiledPolicy);
  return policies;
}

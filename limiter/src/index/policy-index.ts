// Finds the policies that a request meets, at a cost that does not grow with the number of policies. The host is looked up first,
// then the path: exact paths and prefixes are found by the path itself. There is one list of policies, in order of evaluation,
// for each host pattern and each path pattern that is the nearest to a request's path there. It is made when it is first needed,
// and then kept. Only the patterns determine which lists there can be; what clients send adds none.
//
// Policies are added and removed one by one. A list that a request has got never changes: the lists that a change concerns are
// forgotten, and made again when they are needed.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import { type CompiledPolicy, usesPath } from "../compiled/compile.ts";
import { type PathTest, passesTest } from "../match/path-pattern.ts";
import { withoutParameters } from "../match/request-path.ts";
import { addInOrder, inOrder, mergeInOrder, type Policies, removeInOrder } from "./evaluation-order.ts";
import { addToTable, longestPrefix, type PathTable, pathTable, policiesAt, removeFromTable } from "./path-table.ts";

export interface PolicyIndex {
  /** False: the host decides nothing, so it need not be read. */
  needsHost: boolean;
  /** False: no policy names a path, so it need not be read. */
  needsPath: boolean;
  /** True: a policy that turns requests away names a host, so a request whose host servers read differently is refused. */
  guardsHosts: boolean;
  /** True: such a policy names a path or counts by it, so one whose path servers read differently is refused if that would have it meet more. */
  guardsPaths: boolean;
  /** The candidates of every request, if neither host nor path is needed. */
  everywhere: Policies;
  /** Keyed by host name. */
  readonly exact: Record<string, HostEntry>;
  /** Keyed by what follows "*.". */
  readonly wildcard: Record<string, HostEntry>;
  /** For every other host. */
  readonly anyHost: HostEntry;
  /**
   * By host name, then path: where a single policy is decided without further checks, the policy itself. With ten thousand policies each
   * record on the way to a policy comes from main memory, and this is the shortest way.
   */
  single: Record<string, Record<string, CompiledPolicy> | undefined>;
  /** How many policies name a host, how many name a path, and how many wildcards there are. */
  namingHosts: number;
  namingPaths: number;
  /** How many of these are more than in shadow mode. */
  guardingHosts: number;
  guardingPaths: number;
  wildcards: number;
  nextPrefixId: number;
  /** The entries that have lists, and how many policies their lists hold together. */
  asked: HostEntry[];
  kept: number;
}

/** The entry of one host pattern. A request reads what it needs in this one record and in one list. */
interface HostEntry {
  /** The name, or what follows "*."; empty for the entry of every host. */
  readonly name: string;
  /** The policies that have exactly this pattern. */
  readonly own: CompiledPolicy[];
  /** Undefined until it is needed, unless there are many policies. */
  ownTable: PathTable | undefined;
  /** The lists that requests have needed, by path. Undefined until a request needs any. */
  byPath: Record<string, Policies> | undefined;
  lists: HostLists | undefined;
  /** Its place among the entries that have lists. */
  askedAt: number;
}

/** The other lists that requests to a host pattern have needed. */
interface HostLists {
  /** The tables of this pattern, and of those above it that match the same hosts. Patterns without policies are left out. */
  readonly tables: readonly PathTable[];
  readonly namesPaths: boolean;
  /** For paths that no pattern matches. */
  readonly otherwise: Policies;
  /** Keyed by the id of the longest prefix. Undefined: no prefix was met. */
  byPrefix: Record<number, Policies> | undefined;
  /** How many policies the lists hold. */
  kept: number;
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

const noPolicies: Policies = [];

/** @param policies in any order; those of mode `off` are left out, unless they carry a ban of their app */
export function indexPolicies(policies: Policies, pause: Pause = noPause): PolicyIndex {
  const index: PolicyIndex = {
    needsHost: false,
    needsPath: false,
    guardsHosts: false,
    guardsPaths: false,
    everywhere: noPolicies,
    exact: emptyTable(),
    wildcard: emptyTable(),
    anyHost: newEntry(""),
    single: emptyTable(),
    namingHosts: 0,
    namingPaths: 0,
    guardingHosts: 0,
    guardingPaths: 0,
    wildcards: 0,
    nextPrefixId: 0,
    asked: [],
    kept: 0,
  };
  const live: CompiledPolicy[] = [];
  for (const policy of policies) {
    if (isLive(policy)) live.push(policy);
    pause();
  }
  for (const policy of inOrder(live, pause)) {
    count(index, policy, 1);
    const { hosts } = policy.match;
    if (hosts.length === 0) index.anyHost.own.push(policy);
    for (const host of hosts) {
      const { own } = entryFor(index, host);
      if (own[own.length - 1] !== policy) own.push(policy);
    }
    pause();
  }
  for (const name in index.exact) tabulateIfMany(index, index.exact[name] as HostEntry, pause);
  for (const name in index.wildcard) tabulateIfMany(index, index.wildcard[name] as HostEntry, pause);
  tabulateIfMany(index, index.anyHost, pause);
  noteNeeds(index);
  return index;
}

/** Adds a policy in a few µs. One that no request may meet is ignored. */
export function addToIndex(index: PolicyIndex, policy: CompiledPolicy): void {
  if (!isLive(policy)) return;
  count(index, policy, 1);
  const { hosts } = policy.match;
  if (hosts.length === 0) addToEntry(index, index.anyHost, policy);
  for (const host of hosts) addToEntry(index, entryFor(index, host), policy);
  forgetListsOf(index, hosts);
  noteNeeds(index);
}

/** @param policy the record that was added */
export function removeFromIndex(index: PolicyIndex, policy: CompiledPolicy): void {
  if (!isLive(policy)) return;
  count(index, policy, -1);
  const { hosts } = policy.match;
  // Before entries without policies are removed.
  forgetListsOf(index, hosts);
  if (hosts.length === 0) removeFromEntry(index.anyHost, policy);
  for (const host of hosts) {
    const { entries, name } = placeOfHost(index, host);
    const entry = entries[name];
    if (entry === undefined) continue;
    removeFromEntry(entry, policy);
    if (entry.own.length > 0) continue;
    delete entries[name];
    if (entries === index.wildcard) index.wildcards -= 1;
  }
  noteNeeds(index);
}

/**
 * Returns the policy of a request that meets a single one, which is decided without further checks (`fastPath`). Undefined: it is not known
 * that there is such a policy, and `candidates` says which there are.
 *
 * @param host as for `candidates` @param path likewise
 */
export function singleCandidate(index: PolicyIndex, host: string, path: string): CompiledPolicy | undefined {
  const byPath = index.single[host];
  return byPath === undefined ? undefined : byPath[path];
}

/**
 * Returns the policies that host and path do not rule out, in order of evaluation: all that match, except for what `meets` tests. If the path
 * has parameters, these are the policies of the path with them, which servers read, and of the path without them, which servlet containers read.
 *
 * @param host in lower case, without a port
 * @param path in normal form
 */
export function candidates(index: PolicyIndex, host: string, path: string): Policies {
  const entry = entryOf(index, host);
  const policies = candidatesOf(index, entry, path);
  const other = withoutParameters(path);
  if (other === path) return policies;
  const others = candidatesOf(index, entry, other);
  return others === policies ? policies : mergeInOrder(policies, others);
}

/**
 * Returns whether a policy that turns requests away is met by one of the other paths that servers read, and not by the one that nginx reads:
 * then the service might do what this policy is for, and nobody would have counted it.
 *
 * @param path what nginx reads @param others with and without parameters, each once: an expression may take long
 */
export function meetsMore(index: PolicyIndex, host: string, path: string, others: readonly string[]): boolean {
  const entry = entryOf(index, host);
  const policies = candidates(index, host, path);
  for (const other of others) if (hasMore(candidatesOf(index, entry, other), policies)) return true;
  // A policy with a regular expression is in all lists of the host.
  for (const policy of policies) {
    const { pathTest } = policy.match;
    if (pathTest === undefined || !guards(policy)) continue;
    if (passesAny(pathTest, others) && !passesEither(pathTest, path)) return true;
  }
  return false;
}

/** Both lists are in order of evaluation. */
function hasMore(others: Policies, policies: Policies): boolean {
  let at = 0;
  for (const policy of others) {
    if (!guards(policy)) continue;
    while (at < policies.length && policies[at] !== policy) at += 1;
    if (at === policies.length) return true;
  }
  return false;
}

function passesAny(test: PathTest, paths: readonly string[]): boolean {
  for (const path of paths) if (passesTest(test, path)) return true;
  return false;
}

function entryOf(index: PolicyIndex, host: string): HostEntry {
  return index.needsHost ? (index.exact[host] ?? entryAbove(index, host)) : index.anyHost;
}

function candidatesOf(index: PolicyIndex, entry: HostEntry, path: string): Policies {
  const { byPath } = entry;
  if (byPath !== undefined) {
    const known = byPath[path];
    if (known !== undefined) return known;
  }
  return candidatesInLists(index, entry, entry.lists ?? listsOf(index, entry), path);
}

function candidatesInLists(index: PolicyIndex, entry: HostEntry, lists: HostLists, path: string): Policies {
  if (!lists.namesPaths) return lists.otherwise;
  const { tables } = lists;
  let longest: { readonly id: number; readonly length: number } | undefined;
  for (const table of tables) {
    if (table.exact[path] !== undefined) {
      const policies = policiesFor(index, lists, path);
      // Too many lists were kept, and this one is not.
      if (entry.lists !== lists) return policies;
      entry.byPath ??= emptyTable();
      entry.byPath[path] = policies;
      noteSingle(index, entry, path, policies);
      return policies;
    }
    const prefix = longestPrefix(table, path);
    if (prefix !== undefined && (longest === undefined || prefix.length > longest.length)) longest = prefix;
  }
  if (longest === undefined) return lists.otherwise;
  const made = lists.byPrefix?.[longest.id];
  if (made !== undefined) return made;
  const policies = policiesFor(index, lists, path);
  lists.byPrefix ??= {};
  lists.byPrefix[longest.id] = policies;
  return policies;
}

function noteSingle(index: PolicyIndex, entry: HostEntry, path: string, policies: Policies): void {
  const policy = policies[0];
  if (policy === undefined || policies.length > 1 || !policy.policy.fastPath) return;
  const { name } = entry;
  // Names of hosts come from the policies, and not from clients.
  if (index.exact[name] !== entry || withoutParameters(path) !== path) return;
  const byPath = index.single[name] ?? emptyTable<CompiledPolicy>();
  index.single[name] = byPath;
  byPath[path] = policy;
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
  const { methods, pathTest, headers } = policy.match;
  if (methods !== undefined && methods[method] !== true) return false;
  if (pathTest !== undefined && !passesEither(pathTest, path)) return false;
  if (headers === undefined) return true;
  for (const { name, values } of headers) {
    if (!hasHeader(name, values)) return false;
  }
  return true;
}

/** Tests both paths that servers may read. */
function passesEither(test: PathTest, path: string): boolean {
  if (passesTest(test, path)) return true;
  const other = withoutParameters(path);
  return other !== path && passesTest(test, other);
}

/** Returns whether requests may meet the policy, or a ban that it carries. */
function isLive({ policy, bans }: CompiledPolicy): boolean {
  return policy.mode !== "off" || bans?.networks !== undefined;
}

function count(index: PolicyIndex, policy: CompiledPolicy, change: number): void {
  const { hosts, paths } = policy.match;
  if (hosts.length > 0) index.namingHosts += change;
  if (paths.length > 0) index.namingPaths += change;
  if (!guards(policy)) return;
  if (hosts.length > 0) index.guardingHosts += change;
  if (usesPath(policy)) index.guardingPaths += change;
}

/** Returns whether it may turn requests away: in shadow mode, a policy does not, but an override or a ban of its app may. */
function guards({ policy, bans, overrides }: CompiledPolicy): boolean {
  return policy.mode !== "shadow" || overrides?.enforces === true || bans?.networks !== undefined;
}

function noteNeeds(index: PolicyIndex): void {
  index.needsHost = index.namingHosts > 0;
  index.needsPath = index.namingPaths > 0;
  index.guardsHosts = index.guardingHosts > 0;
  index.guardsPaths = index.guardingPaths > 0;
  index.everywhere = index.needsHost || index.needsPath ? noPolicies : copied(index.anyHost.own);
}

function newEntry(name: string): HostEntry {
  return { name, own: [], ownTable: undefined, byPath: undefined, lists: undefined, askedAt: -1 };
}

interface PlaceOfHost {
  readonly entries: Record<string, HostEntry>;
  readonly name: string;
}

function placeOfHost({ exact, wildcard }: PolicyIndex, host: string): PlaceOfHost {
  return host.startsWith("*.") ? { entries: wildcard, name: host.slice(2) } : { entries: exact, name: host };
}

/** Returns the entry of a host pattern; makes it if there is none. */
function entryFor(index: PolicyIndex, host: string): HostEntry {
  const { entries, name } = placeOfHost(index, host);
  let entry = entries[name];
  if (entry === undefined) {
    entry = newEntry(name);
    entries[name] = entry;
    if (entries === index.wildcard) index.wildcards += 1;
  }
  return entry;
}

function tabulateIfMany(index: PolicyIndex, entry: HostEntry, pause: Pause): void {
  if (entry.own.length > mostTabulatedByRequest) entry.ownTable = pathTable(entry.own, index, pause);
}

function addToEntry(index: PolicyIndex, entry: HostEntry, policy: CompiledPolicy): void {
  const before = entry.own.length;
  addInOrder(entry.own, policy);
  // A pattern may be listed twice.
  if (entry.own.length === before) return;
  if (before < mostTabulatedByRequest) entry.ownTable = undefined;
  else if (entry.ownTable !== undefined) addToTable(entry.ownTable, policy, index);
  else entry.ownTable = pathTable(entry.own, index);
}

function removeFromEntry(entry: HostEntry, policy: CompiledPolicy): void {
  const before = entry.own.length;
  removeInOrder(entry.own, policy);
  if (entry.own.length === before) return;
  if (before <= mostTabulatedByRequest) entry.ownTable = undefined;
  else if (entry.ownTable !== undefined) removeFromTable(entry.ownTable, policy);
}

/** Returns the entry of the nearest wildcard above a name, or that of every host. */
function entryAbove(index: PolicyIndex, name: string): HostEntry {
  // A host of many dots costs no more than the longest host that a policy can name.
  let dot = index.wildcards > 0 ? name.indexOf(".", Math.max(0, name.length - longestHost)) : -1;
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
    if (from.ownTable === undefined) from.ownTable = pathTable(from.own, index);
    if (from.own.length > 0) tables.push(from.ownTable);
    if (from.ownTable.named > 0) namesPaths = true;
    if (from === index.anyHost) break;
    from = entryAbove(index, from.name);
  }
  let policies = noPolicies;
  for (const table of tables) policies = mergeInOrder(policies, table.everywhere);
  const lists: HostLists = {
    tables,
    namesPaths,
    otherwise: copied(policies),
    byPrefix: undefined,
    kept: 0,
  };
  entry.lists = lists;
  entry.askedAt = index.asked.length;
  index.asked.push(entry);
  noteKept(index, lists, policies.length + 1);
  return lists;
}

function policiesFor(index: PolicyIndex, lists: HostLists, path: string): Policies {
  let policies = noPolicies;
  for (const table of lists.tables) policies = mergeInOrder(policies, policiesAt(table, path));
  noteKept(index, lists, policies.length + 1);
  for (const table of lists.tables) if (policies === table.everywhere) return copied(policies);
  return policies;
}

/** A table's list `everywhere` changes when policies do, and the lists that requests get must not. */
function copied(policies: Policies): Policies {
  const copy: CompiledPolicy[] = [];
  for (const policy of policies) copy.push(policy);
  return copy;
}

/** Counts a list that is going to be kept. */
function noteKept(index: PolicyIndex, lists: HostLists, more: number): void {
  lists.kept += more;
  index.kept += more;
  if (index.kept > mostKept) forgetAllLists(index);
}

/** Forgets the lists that a policy of these host patterns may be in. */
function forgetListsOf(index: PolicyIndex, hosts: readonly string[]): void {
  let isOfExactHosts = hosts.length > 0;
  for (const host of hosts) {
    if (host.startsWith("*.")) isOfExactHosts = false;
  }
  // The lists of other patterns include the policies of wildcards above them, and of every host.
  if (!isOfExactHosts) {
    forgetAllLists(index);
    return;
  }
  for (const host of hosts) {
    const entry = index.exact[host];
    if (entry?.lists !== undefined) forgetLists(index, entry, entry.lists);
  }
}

function forgetLists(index: PolicyIndex, entry: HostEntry, lists: HostLists): void {
  index.kept -= lists.kept;
  forgetOwnLists(entry);
  delete index.single[entry.name];
  const last = index.asked.pop() as HostEntry;
  if (last === entry) return;
  last.askedAt = entry.askedAt;
  index.asked[entry.askedAt] = last;
}

function forgetAllLists(index: PolicyIndex): void {
  for (const entry of index.asked) forgetOwnLists(entry);
  index.asked = [];
  index.single = emptyTable();
  index.kept = 0;
}

function forgetOwnLists(entry: HostEntry): void {
  entry.byPath = undefined;
  entry.lists = undefined;
}

// Which policies a request meets. Hosts are resolved when the index is made: each host that a policy names has its
// whole list, in order of evaluation, so that a request looks up one list and tests only paths and methods.

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

  const exact = emptyTable<CompiledPolicy[]>();
  const wildcard = emptyTable<CompiledPolicy[]>();
  const anyHost: CompiledPolicy[] = [];
  let needsHost = false;
  for (const policy of live) {
    if (policy.policy.match.hosts.length === 0) anyHost.push(policy);
    for (const host of policy.policy.match.hosts) {
      needsHost = true;
      if (host.startsWith("*.")) wildcard[host.slice(2)] = [];
      else exact[host] = [];
    }
  }
  for (const host in exact) fill(exact[host] as CompiledPolicy[], live, host, false);
  for (const suffix in wildcard) fill(wildcard[suffix] as CompiledPolicy[], live, suffix, true);
  return { exact, wildcard, anyHost, needsHost };
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

/** @param below whether the list is for the hosts below `host` rather than for `host` itself */
function fill(list: CompiledPolicy[], live: readonly CompiledPolicy[], host: string, below: boolean): void {
  for (const policy of live) {
    if (policy.policy.match.hosts.length === 0 || anyHostMatches(policy.policy.match.hosts, host, below))
      list.push(policy);
  }
}

function anyHostMatches(patterns: readonly string[], host: string, below: boolean): boolean {
  for (const pattern of patterns) {
    if (!pattern.startsWith("*.")) {
      if (!below && pattern === host) return true;
    } else if (host.endsWith(pattern.slice(1)) || (below && host === pattern.slice(2))) {
      return true;
    }
  }
  return false;
}

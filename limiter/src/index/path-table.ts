// Finds the policies of one host pattern by the paths that they name. Every list of policies is in order of evaluation and has each
// policy once.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";
import { pathPattern } from "../match/path-pattern.ts";
import { emptyPrefixTree, type PrefixTree, prefixNode, prunePrefix, stepAlong } from "../match/prefix-tree.ts";
import { addInOrder, mergeInOrder, type Policies, removeInOrder, withAdded, withRemoved } from "./evaluation-order.ts";

export interface PathTable {
  /** Policies without a path, or with a regular expression: the index does not rule them out. This list changes when policies do. */
  readonly everywhere: CompiledPolicy[];
  /** Once requests may have got these lists, they never change: another one takes the place of such a list. */
  readonly exact: Record<string, Policies | undefined>;
  readonly prefixes: PrefixTree<PrefixPolicies>;
  /** How many policies are found by their paths. */
  named: number;
}

export interface PrefixPolicies {
  /** Identifies the prefix among all of the index. */
  readonly id: number;
  readonly length: number;
  /** Like the lists of exact paths. */
  policies: Policies;
}

/** @param policies in order of evaluation @param ids provides the next id for each prefix */
export function pathTable(policies: Policies, ids: PrefixIds, pause: Pause = noPause): PathTable {
  const table: PathTable = { everywhere: [], exact: emptyTable(), prefixes: emptyPrefixTree(), named: 0 };
  for (const policy of policies) {
    addTo(table, policy, ids, appended);
    pause();
  }
  return table;
}

export interface PrefixIds {
  nextPrefixId: number;
}

/** To a table whose lists requests may have. */
export function addToTable(table: PathTable, policy: CompiledPolicy, ids: PrefixIds): void {
  addTo(table, policy, ids, withAdded);
}

/** Adds the policy that comes last to a list that nobody has got. */
function appended(list: Policies, policy: CompiledPolicy): Policies {
  if (list[list.length - 1] !== policy) (list as CompiledPolicy[]).push(policy);
  return list;
}

function addTo(
  table: PathTable,
  policy: CompiledPolicy,
  ids: PrefixIds,
  added: (this: void, list: Policies, policy: CompiledPolicy) => Policies,
): void {
  if (!isFoundByPath(policy)) {
    addInOrder(table.everywhere, policy);
    return;
  }
  table.named += 1;
  for (const path of policy.match.paths) {
    const { kind, text } = pathPattern(path);
    if (kind === "exact") {
      const list = table.exact[text];
      table.exact[text] = list === undefined ? [policy] : added(list, policy);
      continue;
    }
    const node = prefixNode(table.prefixes, text);
    if (node.value === undefined) {
      node.value = { id: ids.nextPrefixId, length: text.length, policies: [policy] };
      ids.nextPrefixId += 1;
    } else {
      node.value.policies = added(node.value.policies, policy);
    }
  }
}

/** @param policy the record that was added */
export function removeFromTable(table: PathTable, policy: CompiledPolicy): void {
  if (!isFoundByPath(policy)) {
    removeInOrder(table.everywhere, policy);
    return;
  }
  table.named -= 1;
  for (const path of policy.match.paths) {
    const { kind, text } = pathPattern(path);
    if (kind === "exact") {
      const list = withRemoved(table.exact[text] ?? [], policy);
      if (list.length === 0) delete table.exact[text];
      else table.exact[text] = list;
      continue;
    }
    const node = prefixNode(table.prefixes, text);
    if (node.value !== undefined) {
      node.value.policies = withRemoved(node.value.policies, policy);
      if (node.value.policies.length === 0) node.value = undefined;
    }
    prunePrefix(table.prefixes, text);
  }
}

/** Returns whether the index finds the policy by its paths alone. */
export function isFoundByPath({ match }: CompiledPolicy): boolean {
  const { paths, pathTest } = match;
  return paths.length > 0 && pathTest === undefined;
}

/** Returns the longest prefix that the path begins with. */
export function longestPrefix({ prefixes }: PathTable, path: string): PrefixPolicies | undefined {
  let longest: PrefixPolicies | undefined;
  let reached = 0;
  let node = stepAlong(prefixes, path, 0);
  while (node !== undefined) {
    if (node.value !== undefined) longest = node.value;
    reached += node.label.length;
    node = stepAlong(node, path, reached);
  }
  return longest;
}

/** Returns all policies that the table does not rule out for the path. The list may be one of the table's own, also `everywhere`. */
export function policiesAt(table: PathTable, path: string): Policies {
  let policies: Policies = table.exact[path] ?? [];
  let reached = 0;
  let node = stepAlong(table.prefixes, path, 0);
  while (node !== undefined) {
    if (node.value !== undefined) policies = mergeInOrder(policies, node.value.policies);
    reached += node.label.length;
    node = stepAlong(node, path, reached);
  }
  return mergeInOrder(policies, table.everywhere);
}

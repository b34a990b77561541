// Finds the policies of one host pattern by the paths that they name. Every list of policies is in order of evaluation and has each
// policy once.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";
import { pathPattern } from "../match/path-pattern.ts";
import { emptyPrefixTree, type PrefixTree, prefixNode, prunePrefix, stepAlong } from "../match/prefix-tree.ts";
import { addInOrder, mergeInOrder, type Policies, removeInOrder } from "./evaluation-order.ts";

export interface PathTable {
  /** Policies without a path, or with a regular expression: the index does not rule them out. */
  readonly everywhere: CompiledPolicy[];
  readonly exact: Record<string, CompiledPolicy[] | undefined>;
  readonly prefixes: PrefixTree<PrefixPolicies>;
  /** How many policies are found by their paths. */
  named: number;
}

export interface PrefixPolicies {
  /** Identifies the prefix among all of the index. */
  readonly id: number;
  readonly length: number;
  readonly policies: CompiledPolicy[];
}

/** @param policies in order of evaluation @param ids provides the next id for each prefix */
export function pathTable(policies: Policies, ids: PrefixIds, pause: Pause = noPause): PathTable {
  const table: PathTable = { everywhere: [], exact: emptyTable(), prefixes: emptyPrefixTree(), named: 0 };
  for (const policy of policies) {
    addToTable(table, policy, ids);
    pause();
  }
  return table;
}

export interface PrefixIds {
  nextPrefixId: number;
}

export function addToTable(table: PathTable, policy: CompiledPolicy, ids: PrefixIds): void {
  if (!isFoundByPath(policy)) {
    addInOrder(table.everywhere, policy);
    return;
  }
  table.named += 1;
  for (const path of policy.policy.match.paths) {
    const { kind, text } = pathPattern(path);
    if (kind === "exact") {
      const list = table.exact[text];
      if (list === undefined) table.exact[text] = [policy];
      else addInOrder(list, policy);
      continue;
    }
    const node = prefixNode(table.prefixes, text);
    if (node.value === undefined) {
      node.value = { id: ids.nextPrefixId, length: text.length, policies: [policy] };
      ids.nextPrefixId += 1;
    } else {
      addInOrder(node.value.policies, policy);
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
  for (const path of policy.policy.match.paths) {
    const { kind, text } = pathPattern(path);
    if (kind === "exact") {
      const list = table.exact[text];
      if (list === undefined) continue;
      removeInOrder(list, policy);
      if (list.length === 0) delete table.exact[text];
      continue;
    }
    const node = prefixNode(table.prefixes, text);
    if (node.value !== undefined) {
      removeInOrder(node.value.policies, policy);
      if (node.value.policies.length === 0) node.value = undefined;
    }
    prunePrefix(table.prefixes, text);
  }
}

/** Returns whether the index finds the policy by its paths alone. */
export function isFoundByPath({ policy, paths }: CompiledPolicy): boolean {
  return policy.match.paths.length > 0 && paths === undefined;
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

/** Returns all policies that the table does not rule out for the path. The list may be one of the table's own. */
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

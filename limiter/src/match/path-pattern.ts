// Paths as policies write them, compared with nginx's $uri: "/api/books" exactly, "/api/books/*" as a prefix, and
// "~^/v[0-9]+/books$" as a regular expression.

import { emptyTable } from "../basics/table.ts";
import { matchesRegex, type PathRegex, pathRegex } from "./path-regex.ts";
import { emptyPrefixTree, type PrefixTree, prefixNode, stepAlong } from "./prefix-tree.ts";

export interface PathPattern {
  readonly kind: "exact" | "prefix" | "regex";
  /** The text without the "*" or the "~" that marks the kind. */
  readonly text: string;
}

export function pathPattern(text: string): PathPattern {
  if (text.startsWith("~")) return { kind: "regex", text: text.slice(1) };
  return text.endsWith("*") ? { kind: "prefix", text: text.slice(0, text.length - 1) } : { kind: "exact", text };
}

/** Tests a path where the index cannot decide. It has all patterns of a policy, as any of them may match. */
export interface PathTest {
  readonly exact: Record<string, boolean>;
  readonly prefixes: PrefixTree<boolean>;
  readonly regexes: readonly PathRegex[];
}

/** @returns undefined if the index can decide: no pattern is a regular expression */
export function pathTest(paths: readonly string[]): PathTest | undefined {
  if (!hasRegex(paths)) return undefined;
  const exact = emptyTable<boolean>();
  const prefixes = emptyPrefixTree<boolean>();
  const regexes: PathRegex[] = [];
  for (const path of paths) {
    const { kind, text } = pathPattern(path);
    if (kind === "regex") regexes.push(pathRegex(text));
    else if (kind === "prefix") prefixNode(prefixes, text).value = true;
    else exact[text] = true;
  }
  return { exact, prefixes, regexes };
}

function hasRegex(paths: readonly string[]): boolean {
  for (const path of paths) if (path.startsWith("~")) return true;
  return false;
}

/** @param path in normal form: decoded, slashes merged, dots resolved */
export function passesTest({ exact, prefixes, regexes }: PathTest, path: string): boolean {
  if (exact[path] === true || hasPrefix(prefixes, path)) return true;
  for (const regex of regexes) {
    if (matchesRegex(regex, path)) return true;
  }
  return false;
}

function hasPrefix(prefixes: PrefixTree<boolean>, path: string): boolean {
  let reached = 0;
  let node = stepAlong(prefixes, path, 0);
  while (node !== undefined) {
    if (node.value === true) return true;
    reached += node.label.length;
    node = stepAlong(node, path, reached);
  }
  return false;
}

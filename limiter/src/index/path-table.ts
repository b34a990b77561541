// Finds the policies of one host pattern by the paths that they name. Policies are identified by their places in the order of
// evaluation; a list of places is ascending and has each place once.

import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import type { CompiledPolicy } from "../compiled/compile.ts";
import { pathPattern } from "../match/path-pattern.ts";
import { emptyPrefixTree, type PrefixTree, prefixNode, stepAlong } from "../match/prefix-tree.ts";

export type Places = readonly number[];

export interface PathTable {
  /** Policies without a path, or with a regular expression: the index does not rule them out. */
  readonly everywhere: Places;
  readonly exact: Readonly<Record<string, Places>>;
  readonly prefixes: PrefixTree<PrefixPlaces>;
  /** True if any policy is found by its path. */
  readonly namesPaths: boolean;
}

export interface PrefixPlaces {
  /** Identifies the prefix among all of the index. */
  readonly id: number;
  readonly length: number;
  readonly places: number[];
}

/** @param ids provides the next id for each prefix */
export function pathTable(
  live: readonly CompiledPolicy[],
  places: Places,
  ids: { next: number },
  pause: Pause = noPause,
): PathTable {
  const everywhere: number[] = [];
  const exact = emptyTable<number[]>();
  const prefixes = emptyPrefixTree<PrefixPlaces>();
  let namesPaths = false;
  for (const place of places) {
    pause();
    const { policy, paths } = live[place] as CompiledPolicy;
    if (policy.match.paths.length === 0 || paths !== undefined) {
      everywhere.push(place);
      continue;
    }
    namesPaths = true;
    for (const path of policy.match.paths) {
      const { kind, text } = pathPattern(path);
      if (kind === "exact") {
        const list = exact[text];
        if (list === undefined) exact[text] = [place];
        else append(list, place);
        continue;
      }
      const node = prefixNode(prefixes, text);
      if (node.value === undefined) {
        node.value = { id: ids.next, length: text.length, places: [place] };
        ids.next += 1;
      } else {
        append(node.value.places, place);
      }
    }
  }
  return { everywhere, exact, prefixes, namesPaths };
}

/** @param place not lower than any that was appended before */
export function append(list: number[], place: number): void {
  if (list[list.length - 1] !== place) list.push(place);
}

/** Returns the longest prefix that the path begins with. */
export function longestPrefix({ prefixes }: PathTable, path: string): PrefixPlaces | undefined {
  let longest: PrefixPlaces | undefined;
  let reached = 0;
  let node = stepAlong(prefixes, path, 0);
  while (node !== undefined) {
    if (node.value !== undefined) longest = node.value;
    reached += node.label.length;
    node = stepAlong(node, path, reached);
  }
  return longest;
}

/** Returns all policies that the table does not rule out for the path. */
export function placesFor(table: PathTable, path: string): Places {
  let places = table.exact[path] ?? [];
  let reached = 0;
  let node = stepAlong(table.prefixes, path, 0);
  while (node !== undefined) {
    if (node.value !== undefined) places = merge(places, node.value.places);
    reached += node.label.length;
    node = stepAlong(node, path, reached);
  }
  return merge(places, table.everywhere);
}

export function merge(a: Places, b: Places): Places {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const merged: number[] = [];
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

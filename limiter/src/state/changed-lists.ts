// Puts the blocks of named lists of networks together: those that stay, and those of a change. A list that changes is made beside the one
// in force, and replaces it in one step: no address is ever compared with blocks of both.

import type { Pause } from "../basics/pause.ts";
import { sorted } from "../basics/sort.ts";
import { emptyTable } from "../basics/table.ts";
import { addProblem, type Findings } from "../document/problems.ts";
import { endOfBlock, type RangeBlocks, v4Digits, v6Digits } from "../key/address-ranges.ts";
import { listKey, type NetworkLists } from "../key/network-lists.ts";
import { type GoneEntry, nameOfNetworks, type SnapshotNetworks } from "./entries.ts";

/** By the key of the list. Undefined: no block is left. */
export type ChangedLists = Record<string, { readonly after: RangeBlocks | undefined }>;

/** What a change says of one list. */
interface ListChange {
  readonly app: string;
  readonly name: string;
  /** The first addresses of blocks that are replaced or gone. */
  readonly dropped: Record<string, boolean>;
  readonly set: SnapshotNetworks[];
}

/** @param findings gets lists whose blocks have addresses in common: a search would not find what is there */
export function changedLists(
  lists: NetworkLists,
  gone: readonly GoneEntry[],
  set: readonly SnapshotNetworks[],
  findings: Findings,
  pause: Pause,
): ChangedLists {
  const changes = emptyTable<ListChange>();
  for (const entry of gone) {
    if (!("networks" in entry)) continue;
    changeOf(changes, entry.app, entry.networks).dropped[entry.from] = true;
    pause();
  }
  for (const entry of set) {
    const change = changeOf(changes, entry.app, entry.networks);
    change.dropped[entry.ranges.slice(0, digitsOf(entry))] = true;
    change.set.push(entry);
    pause();
  }
  const changed = emptyTable<{ after: RangeBlocks | undefined }>();
  for (const key in changes) {
    const change = changes[key] as ListChange;
    const after = {
      v4: blocksAfter(lists[key]?.v4, change, "ipv4", findings, pause),
      v6: blocksAfter(lists[key]?.v6, change, "ipv6", findings, pause),
    };
    changed[key] = { after: after.v4.length + after.v6.length === 0 ? undefined : after };
  }
  return changed;
}

function changeOf(changes: Record<string, ListChange>, app: string, name: string): ListChange {
  const key = listKey(app, name);
  const change = changes[key] ?? { app, name, dropped: emptyTable(), set: [] };
  changes[key] = change;
  return change;
}

function digitsOf({ family }: Pick<SnapshotNetworks, "family">): number {
  return family === "ipv4" ? v4Digits : v6Digits;
}

function blocksAfter(
  before: readonly string[] | undefined,
  { app, name, dropped, set }: ListChange,
  family: SnapshotNetworks["family"],
  findings: Findings,
  pause: Pause,
): readonly string[] {
  const digits = digitsOf({ family });
  const blocks: string[] = [];
  for (const block of before ?? []) {
    if (dropped[block.slice(0, digits)] !== true) blocks.push(block);
    pause();
  }
  for (const entry of set) {
    if (entry.family === family) blocks.push(entry.ranges);
    pause();
  }
  // Digits of one width are in the order of their addresses, whatever follows the first one.
  const inOrder = sorted(blocks, isBefore, pause);
  let last = "";
  for (const block of inOrder) {
    const first = block.slice(0, digits);
    if (last !== "" && first <= last) {
      const path = nameOfNetworks(app, name, first);
      addProblem(findings, { path, expected: `ranges of addresses after ${last}`, got: first });
    }
    last = endOfBlock(block, digits);
    pause();
  }
  return inOrder;
}

function isBefore(this: void, a: string, b: string): boolean {
  return a < b;
}

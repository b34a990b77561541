// Named lists of networks, up to a hundred thousand each, which exemptions and bans refer to as "@name". A reference is looked up when
// an address is compared, so that a list is replaced without compiling any policy again.

import { isInBlocks, type RangeBlocks } from "./address-ranges.ts";

/** By `listKey`. A list that is absent is empty. */
export type NetworkLists = Record<string, RangeBlocks>;

/** Where references of an app lead. */
export interface ListScope {
  readonly lists: NetworkLists;
  readonly app: string;
}

/** A reference to a list. */
export interface ListReference {
  /** The name without "@". */
  readonly name: string;
  /** The list of the app itself comes first. */
  readonly own: string;
  /** What there is otherwise: the list of app `default`. */
  readonly ofAll: string;
  /** When the reference is over. */
  readonly untilSeconds: number;
}

export const mostNetworksInList = 100_000;

const appOfEverything = "default";

// Names of apps and lists contain no ":".
export function listKey(app: string, name: string): string {
  return `${app}:${name}`;
}

/** Returns the name in a reference like "@office"; undefined: the text is no reference. It need not be a valid name. */
export function referredList(text: string): string | undefined {
  return text.startsWith("@") ? text.slice(1) : undefined;
}

export function referenceOf(app: string, name: string, untilSeconds: number): ListReference {
  return { name, own: listKey(app, name), ofAll: listKey(appOfEverything, name), untilSeconds };
}

/** @param groups the address as `addressGroups` reads it */
export function isInLists(
  lists: NetworkLists,
  references: readonly ListReference[],
  groups: readonly number[],
  nowSeconds: number,
): boolean {
  for (const { own, ofAll, untilSeconds } of references) {
    if (untilSeconds <= nowSeconds) continue;
    const blocks = lists[own] ?? lists[ofAll];
    if (blocks !== undefined && isInBlocks(blocks, groups)) return true;
  }
  return false;
}

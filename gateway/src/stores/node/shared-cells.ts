// The overflow: what finds no memory for a cell of its own is counted in a cell that several keys of the limit share. Nobody is
// counted too little by that, and its price is that some are refused for what others took. A key is always dealt to the same cell,
// by a hash that nobody outside can compute; all limits of a policy deal it to pages of the same number, under one lock.

import { keepsEntries, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { overflowDict } from "../../runtime/shared-memory.ts";
import { counterKey } from "./counter-cells.ts";
import { overflowSeed } from "./overflow-seed.ts";
import { pageBytes, statesPerPage } from "./packed-cells.ts";

export interface SharedCell {
  /** Distinguishes it; with entries, its key in the dict of the overflow. */
  readonly key: string;
  /** Without entries: the key of the page that it lies in, and where. */
  readonly page: string;
  readonly slot: number;
}

/** One limit takes a quarter of the dict at most, where a cell with entries is no larger than 128 bytes. */
const pages = math.max(1, math.floor(overflowDict.capacity() / 4 / pageBytes));
const cellsWithEntriesPerPage = pageBytes / 128;
/** No counter's key has ":" among its first 16 characters. */
const lockPrefix = "shared:";

/** The cell that this key has a part in; undefined: the overflow has not begun. */
export function sharedCell(limit: CompiledLimit, keyValues: string): SharedCell | undefined {
  const seed = overflowSeed();
  if (seed === undefined) return undefined;
  const hash = hashOf(seed, keyValues);
  const page = counterKey(limit, `${hash % pages}${ownerOf(limit)}`);
  const slot = math.floor(hash / pages) % cellsPerPage(limit.rate);
  return { key: `${page}.${slot}`, page, slot };
}

/**
 * Overrides have cells of their own: what a large bucket owes is more than a small one can, which would take it for a clock that has
 * stepped back, and forgive it. By eight characters, with which a page fits its slab.
 */
function ownerOf({ owner }: CompiledLimit): string {
  return owner === undefined ? "" : `:${string.sub(ngx.md5(owner), 1, 8)}`;
}

/** The lock of the pages that this key has a part in, for all limits of the policy and its overrides; undefined: the overflow has not begun. */
export function sharedLock({ counterPrefix }: CompiledPolicy, keyValues: string): string | undefined {
  const seed = overflowSeed();
  return seed === undefined ? undefined : `${lockPrefix}${counterPrefix}${hashOf(seed, keyValues) % pages}`;
}

function cellsPerPage(rate: Rate): number {
  return keepsEntries(rate) ? cellsWithEntriesPerPage : statesPerPage;
}

/** 48 bits: what a page and a place in it are taken from. */
function hashOf(seed: string, keyValues: string): number {
  const [a, b, c, d, e, f] = string.byte(ngx.sha1_bin(seed + keyValues), 1, 6);
  const high = ((a as number) * 256 + (b as number)) * 256 + (c as number);
  return high * 16_777_216 + ((d as number) * 256 + (e as number)) * 256 + (f as number);
}

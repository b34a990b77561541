// The overflow: a counter that finds no memory for a cell of its own is counted in a cell that several keys of the limit share.
// No key is counted too low because of that; the price is that some requests are refused for units that other keys took. A key is
// always assigned to the same cell, by a hash that nobody outside can compute. All limits of a policy assign it to pages with the
// same number, under one lock.

import { keepsEntries, type Rate } from "../../../../limiter/src/algorithms/rate.ts";
import type { CompiledLimit, CompiledPolicy } from "../../../../limiter/src/compiled/compile.ts";
import { overflowDict } from "../../runtime/shared-memory.ts";
import { counterKey } from "./counter-cells.ts";
import { overflowSeed } from "./overflow-seed.ts";
import { pageBytes, statesPerPage } from "./packed-cells.ts";

export interface SharedCell {
  /** Identifies the cell; with entries, this is its key in the overflow's dict. */
  readonly key: string;
  /** Without entries: the key of its page, and its place there. */
  readonly page: string;
  readonly slot: number;
}

/** One limit takes at most a quarter of the dict if a cell with entries is no larger than 128 bytes. */
const pages = math.max(1, math.floor(overflowDict.capacity() / 4 / pageBytes));
const cellsWithEntriesPerPage = pageBytes / 128;
/** No counter's key has ":" among its first 16 characters. */
const lockPrefix = "shared:";

/** Returns the cell that this key shares; undefined: the overflow has not begun. */
export function sharedCell(limit: CompiledLimit, keyValues: string): SharedCell | undefined {
  const seed = overflowSeed();
  if (seed === undefined) return undefined;
  const hash = hashOf(seed, keyValues);
  const page = counterKey(limit, `${hash % pages}${ownerOf(limit)}`);
  const slot = math.floor(hash / pages) % cellsPerPage(limit.rate);
  return { key: `${page}.${slot}`, page, slot };
}

/**
 * Overrides have cells of their own: a large bucket may owe more than a small one can, and the small one would take that for a
 * step of the clock and forgive it. Eight characters are used, with which a page fits its slab.
 */
function ownerOf({ owner }: CompiledLimit): string {
  return owner === undefined ? "" : `:${string.sub(ngx.md5(owner), 1, 8)}`;
}

/**
 * Returns the lock of the pages of this key, for all limits of the policy and its overrides; undefined: the overflow has not
 * begun.
 */
export function sharedLock({ counterPrefix }: CompiledPolicy, keyValues: string): string | undefined {
  const seed = overflowSeed();
  return seed === undefined ? undefined : `${lockPrefix}${counterPrefix}${hashOf(seed, keyValues) % pages}`;
}

function cellsPerPage(rate: Rate): number {
  return keepsEntries(rate) ? cellsWithEntriesPerPage : statesPerPage;
}

/** 48 bits, from which the page and the place in it are derived. */
function hashOf(seed: string, keyValues: string): number {
  const [a, b, c, d, e, f] = string.byte(ngx.sha1_bin(seed + keyValues), 1, 6);
  const high = ((a as number) * 256 + (b as number)) * 256 + (c as number);
  return high * 16_777_216 + ((d as number) * 256 + (e as number)) * 256 + (f as number);
}

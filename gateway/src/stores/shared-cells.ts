// The overflow: what finds no memory for a cell of its own is counted in a cell that several keys of the limit share. Nobody is
// counted too little by that, and its price is that some are refused for what others took. A key is always dealt to the same cell,
// by a hash that nobody outside can compute; all limits of a policy deal it to cells of the same number, under one lock.

import type { CompiledLimit, CompiledPolicy } from "../../../limiter/src/policy/compile.ts";
import { overflowDict } from "../runtime/shared-memory.ts";
import { counterKey } from "./counter-cells.ts";
import { overflowSeed } from "./overflow-seed.ts";

/** One limit's cells take a quarter of the dict at most, where they are of one slab of 128 bytes. */
const bytesPerCell = 512;
const cells = math.floor(overflowDict.capacity() / bytesPerCell);
/** No counter's key has ":" among its first 16 characters. */
const lockPrefix = "shared:";

/** The key, in the dict of the overflow, of the cell that this key has a part in; undefined: the overflow has not begun. */
export function sharedKey(limit: CompiledLimit, keyValues: string): string | undefined {
  const seed = overflowSeed();
  return seed === undefined ? undefined : counterKey(limit, `${cellNumber(seed, keyValues)}`);
}

/** The lock of all cells of the policy that this key has a part in; undefined: the overflow has not begun. */
export function sharedLock({ limits }: CompiledPolicy, keyValues: string): string | undefined {
  const key = sharedKey(limits[0] as CompiledLimit, keyValues);
  return key === undefined ? undefined : lockPrefix + key;
}

function cellNumber(seed: string, keyValues: string): number {
  const [a, b, c, d] = string.byte(ngx.sha1_bin(seed + keyValues), 1, 4);
  return (((a as number) * 256 + (b as number)) * 65_536 + (c as number) * 256 + (d as number)) % cells;
}

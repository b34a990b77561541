// Makes of the ranges of a list what gateways search: sorted ranges without addresses in common, in blocks.

import { setImmediate } from "node:timers/promises";
import { merged, v4Digits, v6Digits } from "@sluice/limiter/key/address-ranges.ts";

/** All ranges of each version of IP, in one text each. */
export interface Ranges {
  readonly v4: string;
  readonly v6: string;
}

/** A block ends early at a range that says so by its digits: so a network more or less changes one block, and not all after it. */
const fewestRanges = 128;
const mostRanges = 512;

/** @param sorted ranges in digits, sorted within each version of IP; they may overlap */
export async function rangesOf(sorted: readonly string[]): Promise<Ranges> {
  const v4 = merged(
    sorted.filter(({ length }) => length === 2 * v4Digits),
    v4Digits,
  );
  await setImmediate();
  const v6 = merged(
    sorted.filter(({ length }) => length === 2 * v6Digits),
    v6Digits,
  );
  return { v4: v4.join(""), v6: v6.join("") };
}

/** @param ranges of one version of IP @returns texts that gateways search one of */
export function blocksOf(ranges: string, digits: number): string[] {
  const size = 2 * digits;
  const blocks: string[] = [];
  let begin = 0;
  for (let at = size; at < ranges.length; at += size) {
    const count = (at - begin) / size;
    if (count < fewestRanges || (count < mostRanges && !beginsBlock(ranges, at, digits))) continue;
    blocks.push(ranges.slice(begin, at));
    begin = at;
  }
  if (begin < ranges.length) blocks.push(ranges.slice(begin));
  return blocks;
}

/** One range in 128 does. */
function beginsBlock(ranges: string, at: number, digits: number): boolean {
  let hash = 0;
  for (let i = at; i < at + digits; i++) hash = (hash * 31 + ranges.charCodeAt(i)) % 65_521;
  return hash % 128 === 0;
}

// Makes of the ranges of a list what gateways search: sorted ranges without addresses in common, in blocks.

import { merged, v4Digits, v6Digits } from "@sluice/limiter/key/address-ranges.ts";
import { sorted } from "../limits/sorted.ts";

/** All ranges of each version of IP, in one text each. */
export interface Ranges {
  readonly v4: string;
  readonly v6: string;
}

/** A block ends early at a range that says so by its digits: so a network more or less changes one block, and not all after it. */
const fewestRanges = 128;
const mostRanges = 512;

/** Ranges that are joined without looking how long it took. */
const rangesAtOnce = 1_000;

/** Sorts ranges, those of IPv4 first. @param ranges in digits @param pause as of `sorted` */
export function sortedRanges(ranges: readonly string[], pause: () => Promise<void>): Promise<string[]> {
  return sorted(ranges, isBefore, pause);
}

/** Texts of IPv4 are shorter. */
function isBefore(a: string, b: string): boolean {
  return a.length === b.length ? a < b : a.length < b.length;
}

/** @param sorted ranges in digits, sorted within each version of IP; they may overlap @param pause as of `sortedRanges` */
export async function rangesOf(sorted: readonly string[], pause: () => Promise<void>): Promise<Ranges> {
  const joined = async (digits: number) => {
    const ranges = sorted.filter(({ length }) => length === 2 * digits);
    const texts: string[] = [];
    let last: string[] = [];
    for (let at = 0; at < ranges.length; at += rangesAtOnce) {
      const some = merged([...last, ...ranges.slice(at, at + rangesAtOnce)], digits);
      // It may overlap with those that follow.
      last = some.splice(-1);
      texts.push(some.join(""));
      await pause();
    }
    return [...texts, ...last].join("");
  };
  return { v4: await joined(v4Digits), v6: await joined(v6Digits) };
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
  for (let i = at; i < at + digits; i++) hash = Math.imul(hash, 31) + ranges.charCodeAt(i);
  return hash % 128 === 0;
}

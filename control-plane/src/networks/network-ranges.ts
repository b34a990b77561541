// Makes of the ranges of a list what gateways search: sorted ranges without addresses in common, in blocks.

import { merged, v4Digits, v6Digits } from "@sluice/limiter/key/address-ranges.ts";

/** All ranges of each version of IP, in one text each. */
export interface Ranges {
  readonly v4: string;
  readonly v6: string;
}

/** A block ends early at a range that says so by its digits: so a network more or less changes one block, and not all after it. */
const fewestRanges = 128;
const mostRanges = 512;

/** Ranges that are sorted, or joined, without looking how long it took. */
const rangesAtOnce = 1_000;

/**
 * Sorts ranges, those of IPv4 first. A hundred thousand would take 200 ms in one go.
 *
 * @param ranges in digits @param pause is called between steps of some milliseconds, and resolves when it is time for the next one
 */
export async function sortedRanges(ranges: readonly string[], pause: () => Promise<void>): Promise<string[]> {
  let runs: string[][] = [];
  for (let at = 0; at < ranges.length; at += rangesAtOnce) {
    runs.push(ranges.slice(at, at + rangesAtOnce).sort((a, b) => (isBefore(a, b) ? -1 : 1)));
    await pause();
  }
  while (runs.length > 1) {
    const longer: string[][] = [];
    for (let i = 0; i < runs.length; i += 2) longer.push(await oneRun(runs[i] ?? [], runs[i + 1] ?? [], pause));
    runs = longer;
  }
  return runs[0] ?? [];
}

async function oneRun(one: readonly string[], other: readonly string[], pause: () => Promise<void>): Promise<string[]> {
  const run: string[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    const [a, b] = [one[i], other[j]];
    if (b === undefined || (a !== undefined && isBefore(a, b))) {
      run.push(a as string);
      i += 1;
    } else {
      run.push(b);
      j += 1;
    }
    if (run.length % rangesAtOnce === 0) await pause();
  }
  return run;
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

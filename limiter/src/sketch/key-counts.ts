// Counts how often each key comes, in bounded memory: the summary of Misra and Gries (1982), which knows as much as the
// space-saving algorithm of Metwally, Agrawal and El Abbadi (2005), and can be merged (Agarwal et al., Mergeable Summaries, 2012).
// When it is full, the median of all counts is taken from each of them, and keys that have nothing left are dropped. This takes at
// least the median from at least half of the keys, so `taken` is never more than 2 × total ÷ capacity.
//
// To make room again and again, while only new keys come, would cost more than a decision. So once the summary has been full, a key
// without a count is first counted in one of a few cells, which it shares with others, and only each eighth that comes to a cell gets a count
// (the filter of Homem and Carvalho, Finding top-k elements in data streams, 2010).

import { emptyTable } from "../basics/table.ts";

/** Most summaries are never full. */
const noCells: readonly number[] = [];
const cellsOfCount = 2;
const eachOfCell = 8;

/**
 * A key came at least as often as its count says, and at most `taken + mostInCell` times more. A key without a count came at most
 * `taken + mostInCell` times.
 */
export interface KeyCounts {
  counts: Record<string, number>;
  /** The number of keys that have a count. */
  size: number;
  /** The most keys that may have a count, from 1 on. */
  capacity: number;
  /** What was taken from each count, in sum. */
  taken: number;
  /** How often keys came that had no count then; empty until the summary was full. */
  cells: readonly number[];
  cellCount: number;
  mostInCell: number;
}

/** The keys with the largest counts, in no order. */
export interface LargestCounts {
  readonly keys: string[];
  readonly counts: number[];
  /** A key that is not among them came at most so many times. */
  readonly unlisted: number;
}

export function newKeyCounts(capacity: number): KeyCounts {
  return { counts: emptyTable(), size: 0, capacity, taken: 0, cells: noCells, cellCount: 0, mostInCell: 0 };
}

/** Returns a summary of one key that came so often. */
export function keyCountsOf(capacity: number, key: string, count: number): KeyCounts {
  const keys = newKeyCounts(capacity);
  keys.counts[key] = count;
  keys.size = 1;
  return keys;
}

/** @param hashOf returns an integer from 0 on */
export function countKey(keys: KeyCounts, key: string, hashOf: (key: string) => number): void {
  const { counts } = keys;
  const counted = counts[key];
  if (counted !== undefined) {
    counts[key] = counted + 1;
    return;
  }
  if (keys.cellCount > 0) {
    if (!isDue(keys, hashOf(key))) return;
    if (keys.size >= keys.capacity) makeRoom(keys);
  } else if (keys.size >= keys.capacity) {
    makeCells(keys);
    isDue(keys, hashOf(key));
    return;
  }
  counts[key] = 1;
  keys.size += 1;
}

function makeCells(keys: KeyCounts): void {
  const cells: number[] = [];
  keys.cells = cells;
  keys.cellCount = cellsOfCount * keys.capacity;
  for (let i = 0; i < keys.cellCount; i++) cells[i] = 0;
}

/** Counts a key in its cell. @returns whether it gets a count of its own */
function isDue(keys: KeyCounts, hash: number): boolean {
  const cell = hash % keys.cellCount;
  const inCell = (keys.cells[cell] as number) + 1;
  (keys.cells as number[])[cell] = inCell;
  if (inCell > keys.mostInCell) keys.mostInCell = inCell;
  return inCell % eachOfCell === 0;
}

/** Returns how much more often than its count says a key may have come. */
export function errorOf({ taken, mostInCell }: KeyCounts): number {
  return taken + mostInCell;
}

/**
 * Returns the keys with the largest counts.
 * @param most how many keys to return at most; of equal counts any may be left out
 */
export function largestCounts(summary: KeyCounts, most: number): LargestCounts {
  const { counts, size } = summary;
  const keys: string[] = [];
  const largest: number[] = [];
  // Of all that are left out, none is larger than this one.
  const leftOut = size > most ? nthSmallest(counts, size - most) : 0;
  let atThreshold = size > most ? most - countAbove(counts, leftOut) : 0;
  let taken = 0;
  for (const key in counts) {
    const count = counts[key] as number;
    if (count < leftOut) continue;
    if (count === leftOut) {
      if (atThreshold === 0) continue;
      atThreshold -= 1;
    }
    keys[taken] = key;
    largest[taken] = count;
    taken += 1;
  }
  return { keys, counts: largest, unlisted: leftOut + errorOf(summary) };
}

function countAbove(counts: Readonly<Record<string, number>>, count: number): number {
  let above = 0;
  for (const key in counts) if ((counts[key] as number) > count) above += 1;
  return above;
}

/** Drops at least half of the keys. */
function makeRoom(keys: KeyCounts): void {
  const { counts } = keys;
  const taken = nthSmallest(counts, Math.ceil(keys.size / 2));
  let size = 0;
  for (const key in counts) {
    const left = (counts[key] as number) - taken;
    if (left > 0) {
      counts[key] = left;
      size += 1;
    } else {
      delete counts[key];
    }
  }
  keys.size = size;
  keys.taken += taken;
}

/** Returns the n-th smallest of the counts, n from 1 on, in a time that grows with their number: most counts are often equal. */
function nthSmallest(counts: Readonly<Record<string, number>>, n: number): number {
  let rest: number[] = [];
  let length = 0;
  for (const key in counts) {
    rest[length] = counts[key] as number;
    length += 1;
  }
  let place = n;
  for (;;) {
    const pivot = rest[Math.floor(length / 2)] as number;
    const smaller: number[] = [];
    const larger: number[] = [];
    let fewer = 0;
    let more = 0;
    for (let i = 0; i < length; i++) {
      const count = rest[i] as number;
      if (count < pivot) {
        smaller[fewer] = count;
        fewer += 1;
      } else if (count > pivot) {
        larger[more] = count;
        more += 1;
      }
    }
    const upToPivot = length - more;
    if (place > fewer && place <= upToPivot) return pivot;
    const isSmaller = place <= fewer;
    rest = isSmaller ? smaller : larger;
    length = isSmaller ? fewer : more;
    if (!isSmaller) place -= upToPivot;
  }
}

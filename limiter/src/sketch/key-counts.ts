// Counts how often each key comes, in bounded memory: the summary of Misra and Gries (1982), which knows as much as the
// space-saving algorithm of Metwally, Agrawal and El Abbadi (2005), and can be merged (Agarwal et al., Mergeable Summaries, 2012).
// When it is full, the median of all counts is taken from each of them, and keys that have nothing left are dropped. This takes at
// least the median from at least half of the keys, so `error` is never more than 2 × total ÷ capacity.

import { emptyTable } from "../basics/table.ts";

/** A key came at least as often as its count says, and at most `error` times more. A key without a count came at most `error` times. */
export interface KeyCounts {
  counts: Record<string, number>;
  /** The number of keys that have a count. */
  size: number;
  /** The most keys that may have a count, from 1 on. */
  capacity: number;
  error: number;
}

/** The keys with the largest counts, in no order. */
export interface LargestCounts {
  readonly keys: string[];
  readonly counts: number[];
  /** A key that is not among them came at most so many times. */
  readonly unlisted: number;
}

export function newKeyCounts(capacity: number): KeyCounts {
  return { counts: emptyTable(), size: 0, capacity, error: 0 };
}

/** Forgets all keys. The summary stays the same object. */
export function clearKeyCounts(keys: KeyCounts): void {
  keys.counts = emptyTable();
  keys.size = 0;
  keys.error = 0;
}

/** @param amount how often the key came */
export function countKey(keys: KeyCounts, key: string, amount: number): void {
  const { counts } = keys;
  const counted = counts[key];
  if (counted !== undefined) {
    counts[key] = counted + amount;
    return;
  }
  if (keys.size >= keys.capacity) makeRoom(keys);
  counts[key] = amount;
  keys.size += 1;
}

/**
 * Returns the keys with the largest counts.
 * @param most how many keys to return at most; of equal counts any may be left out
 */
export function largestCounts({ counts, size, error }: KeyCounts, most: number): LargestCounts {
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
  return { keys, counts: largest, unlisted: leftOut + error };
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
  keys.error += taken;
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

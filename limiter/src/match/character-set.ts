// A set of characters is a list of ascending ranges that do not touch: [first, last, first, last, …].

import { illFormed } from "./characters.ts";

export type CharacterSet = readonly number[];

/** The set that "." stands for. It includes line ends and ill-formed bytes, so that no client evades a pattern by sending one. */
export const everyCharacter: CharacterSet = [0, illFormed];

export const digits: CharacterSet = [48, 57];
export const wordCharacters: CharacterSet = [48, 57, 65, 90, 95, 95, 97, 122];
/** Tab, line feed, form feed, carriage return and space, as in RE2. */
export const spaces: CharacterSet = [9, 10, 12, 13, 32, 32];

export function complement(set: CharacterSet): CharacterSet {
  const rest: number[] = [];
  let from = 0;
  for (let i = 0; i < set.length; i += 2) {
    const first = set[i] as number;
    if (first > from) rest.push(from, first - 1);
    from = (set[i + 1] as number) + 1;
  }
  if (from <= illFormed) rest.push(from, illFormed);
  return rest;
}

/** @param ranges [first, last, …] in any order, overlapping or not */
export function union(ranges: readonly number[]): CharacterSet {
  const pairs: { first: number; last: number }[] = [];
  for (let i = 0; i < ranges.length; i += 2) {
    pairs.push({ first: ranges[i] as number, last: ranges[i + 1] as number });
  }
  pairs.sort((a, b) => a.first - b.first);
  const set: number[] = [];
  for (const { first, last } of pairs) {
    const end = set.length - 1;
    if (end > 0 && first <= (set[end] as number) + 1) set[end] = Math.max(set[end] as number, last);
    else set.push(first, last);
  }
  return set;
}

/** Returns where the coarsest ranges that no set divides begin, ascending; the first is 0. */
export function boundaries(sets: readonly CharacterSet[]): number[] {
  const starts: number[] = [0];
  for (const set of sets) {
    for (let i = 0; i < set.length; i += 2) starts.push(set[i] as number, (set[i + 1] as number) + 1);
  }
  starts.sort((a, b) => a - b);
  const distinct: number[] = [];
  for (const start of starts) {
    if (start !== distinct[distinct.length - 1]) distinct.push(start);
  }
  return distinct;
}

export function hasCharacter(set: CharacterSet, character: number): boolean {
  for (let i = 0; i < set.length; i += 2) {
    if (character >= (set[i] as number) && character <= (set[i + 1] as number)) return true;
  }
  return false;
}

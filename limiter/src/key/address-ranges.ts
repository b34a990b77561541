// Many networks as ranges of addresses, sorted, merged, and written one after the other in digits of fixed width: texts that are searched
// in place. A hundred thousand networks are so a few hundred values without any table, which take the memory of their digits and need no
// time to be built where they arrive. Finding an address takes a binary search.

import { noPause, type Pause } from "../basics/pause.ts";
import { sorted } from "../basics/sort.ts";
import { type Cidr, parseCidr } from "./cidr.ts";

/**
 * Blocks of ranges in order. A range is its first address and its last one, in hex digits: 8 of IPv4, 32 of IPv6. A block has one at
 * least, and no two ranges have an address in common.
 */
export interface RangeBlocks {
  readonly v4: readonly string[];
  readonly v6: readonly string[];
}

export const v4Digits = 8;
export const v6Digits = 32;

/** @returns the digits of the first and of the last address */
export function rangeOf({ groups, bits }: Cidr): string {
  let first = "";
  let last = "";
  for (let i = 0; i < groups.length; i++) {
    const group = groups[i] as number;
    const free = Math.max(0, Math.min(16, (i + 1) * 16 - bits));
    first += digitsOf(group);
    last += digitsOf(group + 2 ** free - 1);
  }
  return first + last;
}

function digitsOf(group: number): string {
  let text = "";
  let rest = group;
  for (let i = 0; i < 4; i++) {
    const digit = rest % 16;
    text = `${"0123456789abcdef".charAt(digit)}${text}`;
    rest = (rest - digit) / 16;
  }
  return text;
}

/**
 * Joins ranges that overlap. Those that only touch stay two, which does no harm.
 *
 * @param ranges of one version of IP, sorted
 */
export function merged(ranges: readonly string[], digits: number): string[] {
  const joined: string[] = [];
  let first = "";
  let last = "";
  for (const range of ranges) {
    const begin = range.slice(0, digits);
    const end = range.slice(digits);
    if (first !== "" && begin <= last) {
      if (end > last) last = end;
    } else {
      if (first !== "") joined.push(first + last);
      first = begin;
      last = end;
    }
  }
  if (first !== "") joined.push(first + last);
  return joined;
}

/** Returns a short list of networks in a block for each version of IP. @param cidrs valid networks, in any order; they may overlap */
export function blocksOf(cidrs: readonly string[]): RangeBlocks {
  const v4: string[] = [];
  const v6: string[] = [];
  for (const cidr of cidrs) {
    const network = parseCidr(cidr) as Cidr;
    (network.groups.length === 2 ? v4 : v6).push(rangeOf(network));
  }
  return { v4: oneBlock(v4, v4Digits), v6: oneBlock(v6, v6Digits) };
}

function oneBlock(ranges: string[], digits: number): readonly string[] {
  const block = merged(sorted(ranges, isBefore), digits).join("");
  return block === "" ? [] : [block];
}

function isBefore(this: void, a: string, b: string): boolean {
  return a < b;
}

/** @param groups an address as `addressGroups` reads it */
export function isInBlocks({ v4, v6 }: RangeBlocks, groups: readonly number[]): boolean {
  return groups.length === 2 ? isIn(v4, groups, v4Digits) : isIn(v6, groups, v6Digits);
}

/** Finds the last range that does not begin after the address. Its end decides. */
function isIn(blocks: readonly string[], groups: readonly number[], digits: number): boolean {
  let low = 0;
  let high = blocks.length;
  while (low < high) {
    const middle = (low + high - ((low + high) % 2)) / 2;
    if (compare(blocks[middle] as string, 0, groups) > 0) high = middle;
    else low = middle + 1;
  }
  if (low === 0) return false;
  const block = blocks[low - 1] as string;
  const size = 2 * digits;
  low = 0;
  high = block.length / size;
  while (low < high) {
    const middle = (low + high - ((low + high) % 2)) / 2;
    if (compare(block, middle * size, groups) > 0) high = middle;
    else low = middle + 1;
  }
  return compare(block, (low - 1) * size + digits, groups) >= 0;
}

/** Compares the digits at a place with an address: most differ from it in the first groups. */
function compare(ranges: string, at: number, groups: readonly number[]): number {
  let place = at;
  for (const group of groups) {
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const code = ranges.charCodeAt(place + i);
      value = value * 16 + (code < 58 ? code - 48 : code - 87);
    }
    if (value !== group) return value - group;
    place += 4;
  }
  return 0;
}

/** Returns whether a text from elsewhere is a block: a search in anything else would not find what is there. */
export function isBlock(text: string, digits: number, pause: Pause = noPause): boolean {
  if (text === "" || text.length % (2 * digits) !== 0) return false;
  // Without a text for each address: so many new texts make LuaJIT build its table of texts anew, which takes 10 ms.
  for (let at = 0; at < text.length; at += digits) {
    /** How the address compares with the one before. */
    let order = at === 0 ? 1 : 0;
    for (let i = at; i < at + digits; i++) {
      const code = text.charCodeAt(i);
      if (!((code >= 48 && code <= 57) || (code >= 97 && code <= 102))) return false;
      if (order === 0) order = code - text.charCodeAt(i - digits);
    }
    // A range may be of one address.
    const isBegin = (at / digits) % 2 === 0;
    if (order < 0 || (isBegin && order === 0)) return false;
    pause();
  }
  return true;
}

/** Returns the last address of a block. */
export function endOfBlock(block: string, digits: number): string {
  return block.slice(block.length - digits);
}

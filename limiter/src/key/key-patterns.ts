// Lists of patterns, one pattern for each part of a key, and a lookup of the first list that a request's key values match. A
// pattern is a value, "*" for any value, or the beginning of a value and "*".
//
// Lists that leave open the same parts, and ask for as many characters of the others, share a table. Finding the first list that
// matches takes one lookup in each table, however many lists there are. So it is the kinds of lists that are bounded.

import { byteLength } from "../basics/byte-length.ts";
import { noPause, type Pause } from "../basics/pause.ts";
import { emptyTable } from "../basics/table.ts";
import { addressGroups, ipPrefix } from "./ip-prefix.ts";
import type { KeyPart } from "./key-part.ts";

export type KeyPatterns = readonly PatternTable[];

interface PatternTable {
  /** The index of the first of its lists. */
  readonly first: number;
  readonly asked: readonly Asked[];
  /** Indexes of lists, keyed by the text of what they ask for. */
  readonly places: Record<string, number>;
}

/** What is compared of a value: the whole of it, or its beginning. */
interface Asked {
  readonly part: number;
  /** In the units of the runtime's own texts. Undefined: the whole value. */
  readonly length: number | undefined;
}

/** How many kinds the lists of a policy may be of. */
export const mostKinds = 64;

/** For a person who wrote lists of more kinds than that. */
export const expectedKinds = `keys of at most ${mostKinds} kinds: those of one kind have values, and beginnings of values of one length, for the same parts`;

/** Returns the same text for lists that share a table in every runtime. @param patterns a list of a valid length */
export function kindOfPatterns(patterns: readonly string[]): string {
  let kind = "";
  for (const pattern of patterns) kind += pattern.endsWith("*") ? `${byteLength(pattern)} ` : "= ";
  return kind;
}

export function isKeyPattern(text: string): boolean {
  const star = text.indexOf("*");
  return star < 0 || star === text.length - 1;
}

/**
 * Returns the value that a pattern without "*" stands for. For `ip`, an address stands for the network that it is counted by, and
 * such a network stands for itself.
 *
 * @returns undefined if the part never has such a value
 */
export function patternValue(part: KeyPart, text: string): string | undefined {
  if (part.source !== "ip") return text;
  const slash = text.indexOf("/");
  const address = slash < 0 ? text : text.slice(0, slash);
  if (addressGroups(address) === undefined) return undefined;
  const network = ipPrefix(address, part.v4Bits, part.v6Bits);
  if (slash < 0) return network;
  const own = network.indexOf("/");
  return text.slice(slash) === (own < 0 ? "/32" : network.slice(own)) ? network : undefined;
}

/**
 * @param lists each as long as the key, and valid for it
 * @param areValues returns whether the texts of a list are values: then "*" at their end is part of the value
 */
export function indexKeyPatterns(
  key: readonly KeyPart[],
  lists: readonly (readonly string[])[],
  pause: Pause = noPause,
  areValues: (this: void, place: number) => boolean = never,
): KeyPatterns {
  const tables: PatternTable[] = [];
  const byKind = emptyTable<PatternTable>();
  for (let place = 0; place < lists.length; place++) {
    const asked: Asked[] = [];
    const values: string[] = [];
    let kind = "";
    for (let part = 0; part < key.length; part++) {
      const pattern = (lists[place] as readonly string[])[part] as string;
      const isBeginning = pattern.endsWith("*") && !areValues(place);
      const value = isBeginning
        ? pattern.slice(0, pattern.length - 1)
        : (patternValue(key[part] as KeyPart, pattern) as string);
      values.push(value);
      if (isBeginning && value === "") continue;
      asked.push({ part, length: isBeginning ? value.length : undefined });
      kind += `${part}:${isBeginning ? value.length : "whole"} `;
    }
    let table = byKind[kind];
    if (table === undefined) {
      table = { first: place, asked, places: emptyTable() };
      byKind[kind] = table;
      tables.push(table);
    }
    const wanted = askedOf(table, values);
    if (table.places[wanted] === undefined) table.places[wanted] = place;
    pause();
  }
  return tables;
}

function never(): boolean {
  return false;
}

/** Returns the index of the first list that matches. @param values in the key's order, not encoded; an absent value is "" */
export function firstMatch(patterns: KeyPatterns, values: readonly string[]): number | undefined {
  let found: number | undefined;
  for (const table of patterns) {
    // Tables come in the order of their first lists, so no later table has an earlier list.
    if (found !== undefined && found < table.first) break;
    const place = table.places[askedOf(table, values)];
    if (place !== undefined && (found === undefined || place < found)) found = place;
  }
  return found;
}

/** Returns the compared parts of the values as one unambiguous text: all but the last are preceded by their lengths. */
function askedOf({ asked }: PatternTable, values: readonly string[]): string {
  let text = "";
  const last = asked.length - 1;
  for (let i = 0; i <= last; i++) {
    const { part, length } = asked[i] as Asked;
    const whole = values[part] as string;
    const value = length === undefined ? whole : whole.slice(0, length);
    text += i === last ? value : `${value.length}:${value}`;
  }
  return text;
}

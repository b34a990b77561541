// Reads regular expressions of paths into a tree. The syntax is a subset of RE2's in which every expression matches in time
// linear in the path: there are no backreferences and no lookaround. Syntax that would mean different things in RE2, PCRE and
// JavaScript is refused as well, with its position.

import {
  type CharacterSet,
  complement,
  digits,
  everyCharacter,
  spaces,
  union,
  wordCharacters,
} from "./character-set.ts";
import { characterAt, unitsOf } from "./characters.ts";

/** `size` is how many instructions of regex-program.ts the node becomes, at most. */
export type RegexNode =
  | { readonly kind: "set"; readonly set: CharacterSet; readonly size: number }
  | { readonly kind: "start" | "end"; readonly size: number }
  | { readonly kind: "sequence" | "choice"; readonly parts: readonly RegexNode[]; readonly size: number }
  | {
      readonly kind: "repeat";
      readonly part: RegexNode;
      readonly min: number;
      /** Undefined: any number. */
      readonly max: number | undefined;
      readonly size: number;
    };

export interface RegexRefusal {
  /** In characters, counted from 1. */
  readonly position: number;
  /** What is wrong there. */
  readonly reason: string;
}

export interface RegexReading {
  /** Present unless the expression is refused. */
  readonly node?: RegexNode;
  readonly refusal?: RegexRefusal;
}

/** The bound for all regular expressions of a policy together. What a request can be made to cost is a multiple of it. */
export const mostInstructions = 1000;
const mostRepeats = 1000;
const deepestGroup = 100;

interface Reader {
  readonly characters: readonly number[];
  /** The index of the next character to read, from 0. */
  at: number;
  depth: number;
  refusal: RegexRefusal | undefined;
}

export function readRegex(text: string): RegexReading {
  const characters: number[] = [];
  let unit = 0;
  while (unit < text.length) {
    const character = characterAt(text, unit);
    characters.push(character);
    unit += unitsOf(character);
  }
  const reader: Reader = { characters, at: 0, depth: 0, refusal: undefined };
  const node = readChoice(reader);
  if (reader.refusal === undefined && reader.at < characters.length) refuse(reader, reader.at, "closes no group");
  if (reader.refusal === undefined && node.size > mostInstructions) {
    refuse(reader, 0, `begins more than ${mostInstructions} steps, its repetitions written out`);
  }
  return reader.refusal === undefined ? { node } : { refusal: reader.refusal };
}

const openGroup = 40;
const closeGroup = 41;
const star = 42;
const plus = 43;
const comma = 44;
const dash = 45;
const dot = 46;
const colon = 58;
const less = 60;
const equals = 61;
const exclamation = 33;
const questionMark = 63;
const openClass = 91;
const backslash = 92;
const closeClass = 93;
const caret = 94;
const dollar = 36;
const openBrace = 123;
const bar = 124;
const closeBrace = 125;

const nothing: RegexNode = { kind: "sequence", parts: [], size: 1 };

function readChoice(reader: Reader): RegexNode {
  const parts = [readSequence(reader)];
  while (peek(reader) === bar) {
    reader.at += 1;
    parts.push(readSequence(reader));
  }
  if (parts.length === 1) return parts[0] as RegexNode;
  let size = parts.length - 1;
  for (const part of parts) size += part.size;
  return { kind: "choice", parts, size };
}

/** Reads up to "|", to the ")" that closes the group, or to the end. */
function readSequence(reader: Reader): RegexNode {
  const parts: RegexNode[] = [];
  let size = 0;
  let next = peek(reader);
  while (next !== undefined && next !== bar && next !== closeGroup) {
    const part = readRepeated(reader);
    parts.push(part);
    size += part.size;
    next = peek(reader);
  }
  return parts.length === 0 ? nothing : { kind: "sequence", parts, size };
}

function readRepeated(reader: Reader): RegexNode {
  const part = readOne(reader);
  const next = peek(reader);
  if (next === undefined || !repeats(next) || reader.refusal !== undefined) return part;
  if (part.kind === "start" || part.kind === "end") return refuse(reader, reader.at, "repeats an anchor");
  const repeated = readRepetition(reader, part, next);
  // Greedy or lazy, the repetition matches the same texts.
  if (peek(reader) === questionMark) reader.at += 1;
  const again = peek(reader);
  if (again !== undefined && repeats(again)) return refuse(reader, reader.at, "repeats a repetition");
  return repeated;
}

function repeats(character: number): boolean {
  return character === star || character === plus || character === questionMark || character === openBrace;
}

function readRepetition(reader: Reader, part: RegexNode, by: number): RegexNode {
  const from = reader.at;
  reader.at += 1;
  if (by === star) return repeat(part, 0, undefined);
  if (by === plus) return repeat(part, 1, undefined);
  if (by === questionMark) return repeat(part, 0, 1);
  const min = readCount(reader);
  let max: number | undefined = min;
  if (peek(reader) === comma) {
    reader.at += 1;
    max = readCount(reader);
  }
  if (min === undefined || peek(reader) !== closeBrace) {
    return refuse(reader, from, "begins no repetition like {2}, {2,} or {2,5}; by itself it is written \\{");
  }
  reader.at += 1;
  if (min > mostRepeats || (max ?? 0) > mostRepeats) {
    return refuse(reader, from, `repeats more than ${mostRepeats} times`);
  }
  if (max !== undefined && max < min) return refuse(reader, from, "repeats at most fewer times than at least");
  return repeat(part, min, max);
}

function repeat(part: RegexNode, min: number, max: number | undefined): RegexNode {
  const size = max === undefined ? Math.max(min, 1) * part.size + 1 : max * part.size + (max - min);
  // This bound is far beyond what is accepted, and keeps sizes finite: groups within groups multiply them.
  return { kind: "repeat", part, min, max, size: Math.min(Math.max(size, 1), 1_000_000) };
}

function readCount(reader: Reader): number | undefined {
  let count: number | undefined;
  let digit = peek(reader);
  while (digit !== undefined && digit >= 48 && digit <= 57) {
    count = Math.min((count ?? 0) * 10 + (digit - 48), mostRepeats + 1);
    reader.at += 1;
    digit = peek(reader);
  }
  return count;
}

function readOne(reader: Reader): RegexNode {
  const from = reader.at;
  const character = take(reader);
  switch (character) {
    case dot:
      return { kind: "set", set: everyCharacter, size: 1 };
    case caret:
      return { kind: "start", size: 1 };
    case dollar:
      return { kind: "end", size: 1 };
    case openGroup:
      return readGroup(reader, from);
    case openClass:
      return readClass(reader, from);
    case backslash:
      return { kind: "set", set: readEscape(reader, from), size: 1 };
    case star:
    case plus:
    case questionMark:
    case openBrace:
      return refuse(reader, from, "repeats nothing");
  }
  return { kind: "set", set: [character, character], size: 1 };
}

function readGroup(reader: Reader, from: number): RegexNode {
  if (peek(reader) === questionMark) {
    const kind = reader.characters[reader.at + 1];
    if (kind !== colon) return refuse(reader, from, groupReason(reader, kind));
    reader.at += 2;
  }
  reader.depth += 1;
  if (reader.depth > deepestGroup) return refuse(reader, from, `is a group more than ${deepestGroup} deep`);
  const inner = readChoice(reader);
  reader.depth -= 1;
  if (reader.refusal !== undefined) return nothing;
  if (peek(reader) !== closeGroup) return refuse(reader, from, "opens a group that is not closed");
  reader.at += 1;
  // A group that holds an anchor may be repeated, as in RE2.
  return inner.kind === "start" || inner.kind === "end" ? { kind: "sequence", parts: [inner], size: 1 } : inner;
}

function groupReason(reader: Reader, kind: number | undefined): string {
  const after = reader.characters[reader.at + 2];
  const looks =
    kind === equals || kind === exclamation || (kind === less && (after === equals || after === exclamation));
  return looks ? "is lookaround, which is not supported" : "is neither ( nor (?: ; names and flags are not supported";
}

function readClass(reader: Reader, from: number): RegexNode {
  const negated = peek(reader) === caret;
  if (negated) reader.at += 1;
  const ranges: number[] = [];
  const begin = reader.at;
  while (peek(reader) !== closeClass) {
    if (peek(reader) === undefined) return refuse(reader, from, "opens a class that is not closed");
    readClassItem(reader, begin, ranges);
    if (reader.refusal !== undefined) return nothing;
  }
  if (reader.at === begin) return refuse(reader, from, "is an empty class; a ] in a class is written \\]");
  reader.at += 1;
  const set = union(ranges);
  return { kind: "set", set: negated ? complement(set) : set, size: 1 };
}

/** Reads a character, a range, or a class by its escape. A dash that stands for itself must come first or last. */
function readClassItem(reader: Reader, begin: number, ranges: number[]): void {
  const from = reader.at;
  const first = readClassCharacter(reader);
  if (reader.refusal !== undefined) return;
  const isDash = reader.characters[from] === dash;
  if (isDash && from !== begin && peek(reader) !== closeClass) {
    refuse(reader, from, "stands between; a - in the middle of a class is written \\-");
    return;
  }
  if (isDash || peek(reader) !== dash || reader.characters[reader.at + 1] === closeClass) {
    for (const bound of first) ranges.push(bound);
    return;
  }
  reader.at += 1;
  const last = peek(reader) === undefined ? first : readClassCharacter(reader);
  if (reader.refusal !== undefined) return;
  if (!isOne(first) || !isOne(last)) {
    refuse(reader, from, "is a range that does not run from one character to one");
    return;
  }
  if ((last[0] as number) < (first[0] as number)) {
    refuse(reader, from, "is a range that runs backwards");
    return;
  }
  ranges.push(first[0] as number, last[0] as number);
}

function isOne(set: CharacterSet): boolean {
  return set.length === 2 && set[0] === set[1];
}

function readClassCharacter(reader: Reader): CharacterSet {
  const from = reader.at;
  const character = take(reader);
  if (character === backslash) return readEscape(reader, from);
  if (character === openClass && peek(reader) === colon) {
    refuse(reader, from, "begins a class by name, which is not supported; by itself it is written \\[");
  }
  return [character, character];
}

/** Reads what follows a backslash. */
function readEscape(reader: Reader, from: number): CharacterSet {
  if (peek(reader) === undefined) {
    refuse(reader, from, "escapes nothing");
    return everyCharacter;
  }
  const character = take(reader);
  switch (character) {
    case 100: // d
      return digits;
    case 68:
      return complement(digits);
    case 119: // w
      return wordCharacters;
    case 87:
      return complement(wordCharacters);
    case 115: // s
      return spaces;
    case 83:
      return complement(spaces);
    case 116: // t
      return [9, 9];
    case 110: // n
      return [10, 10];
    case 114: // r
      return [13, 13];
    case 102: // f
      return [12, 12];
    case 118: // v
      return [11, 11];
  }
  if (character >= 48 && character <= 57) {
    refuse(reader, from, "is a backreference or an octal number, which are not supported");
  } else if (!isPunctuation(character)) {
    refuse(reader, from, "is an escape that is not supported");
  }
  return [character, character];
}

function isPunctuation(character: number): boolean {
  return (
    (character >= 33 && character <= 47) ||
    (character >= 58 && character <= 64) ||
    (character >= 91 && character <= 96) ||
    (character >= 123 && character <= 126)
  );
}

function peek(reader: Reader): number | undefined {
  return reader.characters[reader.at];
}

/** @param reader not at the end */
function take(reader: Reader): number {
  const character = reader.characters[reader.at] as number;
  reader.at += 1;
  return character;
}

/** Keeps only the first refusal, and ends the reading. */
function refuse(reader: Reader, at: number, reason: string): RegexNode {
  if (reader.refusal === undefined) reader.refusal = { position: at + 1, reason };
  reader.at = reader.characters.length;
  return nothing;
}

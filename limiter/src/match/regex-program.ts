// A regular expression as instructions: where each of them leads, and over which character. A matcher follows them all at once,
// so that no expression makes it go back.

import { emptyTable } from "../basics/table.ts";
import { type CharacterSet, everyCharacter } from "./character-set.ts";
import type { RegexNode } from "./regex-syntax.ts";

/** Kinds of instructions: the expression has matched; a character of a set; either of two; the path begins here; it ends here. */
export const matched = 0;
export const character = 1;
export const either = 2;
export const atStart = 3;
export const atEnd = 4;

/** Instructions are indexed by their number; instruction 0 is the only one of kind `matched`. */
export interface RegexProgram {
  readonly entry: number;
  readonly kinds: number[];
  /** Where an instruction leads. */
  readonly next: number[];
  /** For kind `either`, where else the instruction leads; for kind `character`, the index of its set. */
  readonly other: number[];
  readonly sets: CharacterSet[];
}

interface Draft extends RegexProgram {
  readonly setPlaces: Record<string, number>;
}

/** @param node has at most `mostInstructions` */
export function regexProgram(node: RegexNode): RegexProgram {
  const draft: Draft = { entry: 0, kinds: [matched], next: [0], other: [0], sets: [], setPlaces: emptyTable() };
  const body = write(draft, node, 0);
  const { kinds, next, other, sets } = draft;
  if (beginsAtStart(node)) return { entry: body, kinds, next, other, sets };
  // The expression may match anywhere, so any characters may come first.
  const entry = instruct(draft, either, body, 0);
  other[entry] = instruct(draft, character, entry, placeOf(draft, everyCharacter));
  return { entry, kinds, next, other, sets };
}

/** Writes the instructions of a node, which continue at `next`. @returns where they begin */
function write(draft: Draft, node: RegexNode, next: number): number {
  switch (node.kind) {
    case "set":
      return instruct(draft, character, next, placeOf(draft, node.set));
    case "start":
      return instruct(draft, atStart, next, 0);
    case "end":
      return instruct(draft, atEnd, next, 0);
    case "sequence": {
      let entry = next;
      for (let i = node.parts.length - 1; i >= 0; i--) entry = write(draft, node.parts[i] as RegexNode, entry);
      return entry;
    }
    case "choice": {
      let entry = write(draft, node.parts[node.parts.length - 1] as RegexNode, next);
      for (let i = node.parts.length - 2; i >= 0; i--) {
        entry = instruct(draft, either, write(draft, node.parts[i] as RegexNode, next), entry);
      }
      return entry;
    }
    case "repeat":
      return writeRepeat(draft, node, next);
  }
}

function writeRepeat(draft: Draft, node: RegexNode & { kind: "repeat" }, next: number): number {
  const { part, min, max } = node;
  let entry = next;
  let required = min;
  if (max === undefined) {
    const loop = instruct(draft, either, 0, next);
    const body = write(draft, part, loop);
    draft.next[loop] = body;
    // At least one round is required, so the body comes first.
    entry = min > 0 ? body : loop;
    required = min - 1;
  } else {
    for (let i = min; i < max; i++) entry = instruct(draft, either, write(draft, part, entry), next);
  }
  for (let i = 0; i < required; i++) entry = write(draft, part, entry);
  return entry;
}

function instruct({ kinds, next, other }: Draft, kind: number, to: number, orTo: number): number {
  kinds.push(kind);
  next.push(to);
  other.push(orTo);
  return kinds.length - 1;
}

function placeOf({ sets, setPlaces }: Draft, set: CharacterSet): number {
  const text = set.join(",");
  const place = setPlaces[text];
  if (place !== undefined) return place;
  sets.push(set);
  setPlaces[text] = sets.length - 1;
  return sets.length - 1;
}

/** Returns whether the expression can only match from the path's first character on. */
function beginsAtStart(node: RegexNode): boolean {
  switch (node.kind) {
    case "start":
      return true;
    case "sequence":
      return node.parts.length > 0 && beginsAtStart(node.parts[0] as RegexNode);
    case "choice":
      return node.parts.every((part) => beginsAtStart(part));
    case "repeat":
      return node.min > 0 && beginsAtStart(node.part);
    default:
      return false;
  }
}

// Determines whether every path that a regular expression matches is within a realm's paths. This is proven, not guessed: the
// expression's instructions and the realm's paths are followed side by side over all possible paths, until there is a path that
// the expression matches and the realm does not contain, or nothing is left to follow.

import { type CharacterSet, hasCharacter } from "../match/character-set.ts";
import { characterAt, illFormed, unitsOf } from "../match/characters.ts";
import { atEnd, atStart, character, either, matched, type RegexProgram, regexProgram } from "../match/regex-program.ts";
import { type RegexNode, readRegex } from "../match/regex-syntax.ts";

/** The paths of a realm as a tree with one character per node. Node 0 is the empty text before every path. */
interface Tree {
  /** For each node, the characters that lead on, and the nodes that they lead to. */
  readonly characters: number[][];
  readonly nodes: number[][];
  /** For each node, whether the realm contains the path that ends here. */
  readonly holds: boolean[];
}

/** Used in place of a node: the realm contains whatever follows, or nothing that follows. */
const inside = -1;
const outside = -2;

const slash = 47;

/**
 * Many times what a sincere expression takes, which goes down the realm's paths once. If an expression takes more, as one does
 * that is made to, nothing is proven. This many steps take some 30 ms, while nobody else is served.
 */
const mostSteps = 20_000;

/** How many steps are left, for all expressions of one policy together. */
export interface ProofBudget {
  left: number;
}

export function proofBudget(): ProofBudget {
  return { left: mostSteps };
}

/** Returned in place of a path: the search ran out of steps. */
export const unproven = "";

/** How a path that is shown as an example preferably goes on: x - 0 a _ . */
const pleasing = [120, 45, 48, 97, 95, 46];

/** The positions of the search: the instruction that is next, the place in the tree, and whether the path has ended. */
interface Search {
  readonly instructions: number[];
  readonly places: number[];
  readonly ended: boolean[];
  /** The position before, and the character that led on from there; -1: none. */
  readonly from: number[];
  readonly by: number[];
  readonly seen: Record<number, boolean>;
}

/**
 * @param expression without "~", one that `readRegex` accepts
 * @param paths of the realm, at least one
 * @returns a path outside of them that the expression matches; undefined: there is none; or `unproven`
 */
export function pathOutside(
  expression: string,
  paths: readonly string[],
  budget: ProofBudget = proofBudget(),
): string | undefined {
  if (paths.includes("/")) return undefined;
  const program = regexProgram(readRegex(expression).node as RegexNode);
  const tree = treeOf(paths);
  const search: Search = { instructions: [], places: [], ended: [], from: [], by: [], seen: {} };
  reach(search, tree, program.entry, 0, false, -1, -1);
  for (let at = 0; at < search.instructions.length; at++) {
    if (budget.left <= 0) return unproven;
    budget.left -= 1;
    const found = stepFrom(program, tree, search, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @returns a path outside that is matched, if this position gives one */
function stepFrom(program: RegexProgram, tree: Tree, search: Search, at: number): string | undefined {
  const instruction = search.instructions[at] as number;
  const place = search.places[at] as number;
  const ended = search.ended[at] as boolean;
  const next = program.next[instruction] as number;
  switch (program.kinds[instruction]) {
    case matched:
      return exampleAt(tree, search, at);
    case either:
      reach(search, tree, next, place, ended, at, -1);
      reach(search, tree, program.other[instruction] as number, place, ended, at, -1);
      return undefined;
    case atStart:
      // No character leads to the root, so there the path is at its beginning.
      if (place === 0) reach(search, tree, next, place, ended, at, -1);
      return undefined;
    case atEnd:
      reach(search, tree, next, place, true, at, -1);
      return undefined;
    case character:
      if (!ended)
        readCharacter(program.sets[program.other[instruction] as number] as CharacterSet, tree, search, at, next);
  }
  return undefined;
}

function readCharacter(set: CharacterSet, tree: Tree, search: Search, at: number, next: number): void {
  const place = search.places[at] as number;
  if (place === outside) {
    if (search.seen[positionOf(tree, next, outside, false)] === true) return;
    const any = anyOf(set, []);
    if (any >= 0) reach(search, tree, next, outside, false, at, any);
    return;
  }
  const characters = tree.characters[place] as number[];
  for (let i = 0; i < characters.length; i++) {
    const one = characters[i] as number;
    if (hasCharacter(set, one)) reach(search, tree, next, (tree.nodes[place] as number[])[i] as number, false, at, one);
  }
  // Every path begins with "/", and so does every path of a realm.
  if (place === 0) return;
  if (search.seen[positionOf(tree, next, outside, false)] === true) return;
  const other = anyOf(set, characters);
  if (other >= 0) reach(search, tree, next, outside, false, at, other);
}

/** Adds a position to the search. A path that is inside the realm stays there, whatever follows, so it is not followed. */
function reach(
  { instructions, places, ended, from, by, seen }: Search,
  tree: Tree,
  instruction: number,
  place: number,
  hasEnded: boolean,
  before: number,
  over: number,
): void {
  if (place === inside) return;
  const position = positionOf(tree, instruction, place, hasEnded);
  if (seen[position] === true) return;
  seen[position] = true;
  instructions.push(instruction);
  places.push(place);
  ended.push(hasEnded);
  from.push(before);
  by.push(over);
}

function positionOf({ holds }: Tree, instruction: number, place: number, hasEnded: boolean): number {
  return (instruction * (holds.length + 1) + (place === outside ? holds.length : place)) * 2 + (hasEnded ? 1 : 0);
}

/** Called where the expression has matched what leads here. @returns a path outside that begins so; undefined: all are within */
function exampleAt(tree: Tree, search: Search, at: number): string | undefined {
  const place = search.places[at] as number;
  // No path is empty: what matches before the first character matches "/".
  if (place === 0) return search.ended[at] === true ? undefined : "/";
  const text = textTo(search, at);
  if (place === outside || tree.holds[place] !== true) return text;
  if (search.ended[at] === true) return undefined;
  return text + textOf(anyOf([0, illFormed], tree.characters[place] as number[]));
}

/** Returns a character of the set that is none of these; -1: there is none. */
function anyOf(set: CharacterSet, others: readonly number[]): number {
  for (const one of pleasing) {
    if (hasCharacter(set, one) && !others.includes(one)) return one;
  }
  for (let i = 0; i < set.length; i += 2) {
    for (let one = set[i] as number; one <= (set[i + 1] as number); one++) {
      if (!others.includes(one)) return one;
    }
  }
  return -1;
}

function textTo({ from, by }: Search, at: number): string {
  let text = "";
  let position = at;
  while (position >= 0) {
    const over = by[position] as number;
    if (over >= 0) text = textOf(over) + text;
    position = from[position] as number;
  }
  return text;
}

function textOf(one: number): string {
  return one === illFormed ? "\ufffd" : String.fromCodePoint(one);
}

function treeOf(paths: readonly string[]): Tree {
  const tree: Tree = { characters: [[]], nodes: [[]], holds: [false] };
  for (const path of paths) addPath(tree, path);
  return tree;
}

function addPath(tree: Tree, path: string): void {
  let node = 0;
  let at = 0;
  while (at < path.length) {
    const one = characterAt(path, at);
    at += unitsOf(one);
    const known = (tree.characters[node] as number[]).indexOf(one);
    const next = known < 0 ? addNode(tree, node, one) : ((tree.nodes[node] as number[])[known] as number);
    // A path above it is in the realm already, and contains this one.
    if (next === inside) return;
    node = next;
  }
  tree.holds[node] = true;
  const known = (tree.characters[node] as number[]).indexOf(slash);
  if (known >= 0) {
    (tree.nodes[node] as number[])[known] = inside;
  } else {
    (tree.characters[node] as number[]).push(slash);
    (tree.nodes[node] as number[]).push(inside);
  }
}

function addNode({ characters, nodes, holds }: Tree, above: number, one: number): number {
  const node = holds.length;
  (characters[above] as number[]).push(one);
  (nodes[above] as number[]).push(node);
  characters.push([]);
  nodes.push([]);
  holds.push(false);
  return node;
}

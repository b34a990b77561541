// Matches a path against a regular expression, in one pass over the path whatever the expression: all ways of matching are
// followed at once. The sets of instructions that they reach are kept as states, so that a path that resembles an earlier one
// costs one lookup for each character. The states are bounded; where there are too many, the rest of the path is followed without
// keeping any.

import { emptyTable } from "../basics/table.ts";
import { boundaries, hasCharacter } from "./character-set.ts";
import { characterAt, unitsOf } from "./characters.ts";
import { atEnd, atStart, character, either, matched, type RegexProgram, regexProgram } from "./regex-program.ts";
import { type RegexNode, readRegex } from "./regex-syntax.ts";

export interface PathRegex {
  readonly text: string;
  /** Made when the first path is tested: most of ten thousand policies are never met. */
  matcher: Matcher | undefined;
}

/** @param text an expression that `readRegex` accepts */
export function pathRegex(text: string): PathRegex {
  return { text, matcher: undefined };
}

export function matchesRegex(regex: PathRegex, path: string): boolean {
  if (regex.matcher === undefined) regex.matcher = newMatcher(regexProgram(readRegex(regex.text).node as RegexNode));
  return matches(regex.matcher, path);
}

export interface Matcher {
  readonly program: RegexProgram;
  /** Where the classes begin. Characters that no set of the program distinguishes are of one class. */
  readonly classStarts: readonly number[];
  /** The class of each ASCII character. */
  readonly asciiClasses: readonly number[];
  /** Indexed by set of the program, then by class: true if the set has the characters of the class. */
  readonly setHasClass: readonly (readonly boolean[])[];
  start: State | undefined;
  states: Record<string, State>;
  /** How many more numbers the states may hold. */
  room: number;
  /** For each instruction, the last round that reached it. */
  readonly marks: number[];
  round: number;
  /** Instructions that this round reached and that wait for a character or the end, in any order. */
  found: number[];
  foundCount: number;
  readonly stack: number[];
}

/** A state of matching: what can match from here on. */
export interface State {
  /** Instructions that wait for a character or for the end of the path, ascending. */
  readonly waiting: readonly number[];
  /** True if the path matches whatever follows, false if nothing can match; undefined: it depends on what follows. */
  readonly decidedEarly: boolean | undefined;
  readonly matchesAtEnd: boolean;
  /** Indexed by the class of the next character. */
  readonly next: (State | undefined)[];
}

export function newMatcher(program: RegexProgram): Matcher {
  const classStarts = boundaries(program.sets);
  const asciiClasses: number[] = [];
  for (let code = 0; code < 128; code++) asciiClasses.push(classOf(classStarts, code));
  const setHasClass: boolean[][] = [];
  for (const set of program.sets) {
    const has: boolean[] = [];
    for (const start of classStarts) has.push(hasCharacter(set, start));
    setHasClass.push(has);
  }
  const marks: number[] = [];
  for (let i = 0; i < program.kinds.length; i++) marks.push(0);
  return {
    program,
    classStarts,
    asciiClasses,
    setHasClass,
    start: undefined,
    states: emptyTable(),
    room: 0,
    marks,
    round: 0,
    found: [],
    foundCount: 0,
    stack: [],
  };
}

function matches(matcher: Matcher, path: string): boolean {
  let state = startState(matcher);
  if (state.decidedEarly !== undefined) return state.decidedEarly;
  const { asciiClasses } = matcher;
  const length = path.length;
  let at = 0;
  while (at < length) {
    const unit = path.charCodeAt(at);
    let characterClass: number;
    let units = 1;
    if (unit < 0x80) {
      characterClass = asciiClasses[unit] as number;
    } else {
      const wide = characterAt(path, at);
      units = unitsOf(wide);
      characterClass = classOf(matcher.classStarts, wide);
    }
    const known = state.next[characterClass];
    if (known !== undefined) {
      state = known;
    } else {
      const found = nextState(matcher, state, characterClass);
      if (found === undefined) return follow(matcher, state, path, at);
      state = found;
    }
    if (state.decidedEarly !== undefined) return state.decidedEarly;
    at += units;
  }
  return state.matchesAtEnd;
}

export function startState(matcher: Matcher): State {
  if (matcher.start !== undefined) return matcher.start;
  const { program } = matcher;
  matcher.states = emptyTable();
  // There is room for some states of every expression, and for sixteen states of the largest possible one.
  matcher.room = 500 + 16 * program.kinds.length;
  begin(matcher);
  const hasMatched = reach(matcher, program.entry, true, false);
  const waiting = foundInOrder(matcher);
  begin(matcher);
  const start = stateOf(waiting, hasMatched, hasMatched || reach(matcher, program.entry, true, true));
  matcher.start = start;
  return start;
}

/** @returns undefined if there is no room left; the states are then dropped before the next path */
export function nextState(matcher: Matcher, from: State, characterClass: number): State | undefined {
  begin(matcher);
  const hasMatched = step(matcher, from.waiting, from.waiting.length, characterClass);
  const waiting = foundInOrder(matcher);
  const name = hasMatched ? "matched" : waiting.join(",");
  let state = matcher.states[name];
  if (state === undefined) {
    matcher.room -= waiting.length + matcher.classStarts.length;
    if (matcher.room < 0) {
      matcher.start = undefined;
      return undefined;
    }
    state = stateOf(waiting, hasMatched, hasMatched || endMatches(matcher, waiting, waiting.length));
    matcher.states[name] = state;
  }
  from.next[characterClass] = state;
  return state;
}

function stateOf(waiting: readonly number[], hasMatched: boolean, matchesAtEnd: boolean): State {
  const decidedEarly = hasMatched ? true : waiting.length === 0 ? false : undefined;
  return { waiting, decidedEarly, matchesAtEnd, next: [] };
}

/** Follows the rest of the path, from `from`, without keeping states: two lists take turns. */
function follow(matcher: Matcher, state: State, path: string, from: number): boolean {
  let waiting: number[] = [];
  for (const one of state.waiting) waiting.push(one);
  let count = waiting.length;
  let at = from;
  while (at < path.length) {
    const next = characterAt(path, at);
    at += unitsOf(next);
    begin(matcher);
    if (step(matcher, waiting, count, classOf(matcher.classStarts, next))) return true;
    const emptied = waiting;
    waiting = matcher.found;
    count = matcher.foundCount;
    matcher.found = emptied;
    if (count === 0) return false;
  }
  return endMatches(matcher, waiting, count);
}

function begin(matcher: Matcher): void {
  matcher.round += 1;
  matcher.foundCount = 0;
}

/** Finds what a character of the class leads to. @returns whether the expression has matched */
function step(matcher: Matcher, waiting: readonly number[], count: number, characterClass: number): boolean {
  const { program, setHasClass, marks, round } = matcher;
  const { kinds, next, other } = program;
  for (let i = 0; i < count; i++) {
    const at = waiting[i] as number;
    if (kinds[at] !== character) continue;
    const set = setHasClass[other[at] as number] as readonly boolean[];
    if (set[characterClass] !== true) continue;
    const to = next[at] as number;
    if (marks[to] !== round && reach(matcher, to, false, false)) return true;
  }
  return false;
}

/** Returns whether the end of the path matches for one of the instructions that wait for it. */
function endMatches(matcher: Matcher, waiting: readonly number[], count: number): boolean {
  const { program } = matcher;
  begin(matcher);
  for (let i = 0; i < count; i++) {
    const at = waiting[i] as number;
    if (program.kinds[at] === atEnd && reach(matcher, at, false, true)) return true;
  }
  return false;
}

/** Finds what can be reached from an instruction without reading a character. @returns whether the expression has matched */
function reach(matcher: Matcher, from: number, isStart: boolean, isEnd: boolean): boolean {
  const { program, marks, round, found, stack } = matcher;
  const { kinds, next, other } = program;
  let foundCount = matcher.foundCount;
  let depth = 0;
  let at = from;
  while (true) {
    let to = -1;
    if (marks[at] !== round) {
      marks[at] = round;
      const kind = kinds[at];
      if (kind === matched) return true;
      if (kind === either) {
        stack[depth] = other[at] as number;
        depth += 1;
        to = next[at] as number;
      } else if ((kind === atStart && isStart) || (kind === atEnd && isEnd)) {
        to = next[at] as number;
      } else if (kind !== atStart) {
        found[foundCount] = at;
        foundCount += 1;
      }
    }
    if (to < 0) {
      if (depth === 0) break;
      depth -= 1;
      to = stack[depth] as number;
    }
    at = to;
  }
  matcher.foundCount = foundCount;
  return false;
}

/** Returns what this round found, in ascending order, so that equal sets give equal lists. */
function foundInOrder({ found, foundCount }: Matcher): number[] {
  const waiting: number[] = [];
  for (let i = 0; i < foundCount; i++) waiting.push(found[i] as number);
  waiting.sort((a, b) => a - b);
  return waiting;
}

/** Returns the class whose range contains the character. */
function classOf(starts: readonly number[], of: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle] as number) <= of) low = middle;
    else high = middle - 1;
  }
  return low;
}

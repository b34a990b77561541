// Computes what a regular expression for paths can cost a request, before any request comes: a number of steps of equal length
// for each character of the path. Callers that run the expressions of several parties on one path bound their sum.

import { emptyTable } from "../basics/table.ts";
import { type Matcher, newMatcher, nextState, type State, startState } from "./path-regex.ts";
import { regexProgram } from "./regex-program.ts";
import { type RegexNode, readRegex } from "./regex-syntax.ts";

/**
 * One step is the lookup of a state that is kept: 9 to 11 ns in LuaJIT on a busy machine. Where no state is kept, an
 * instruction takes 12 to 28 ns with random paths, and 63 ns with a path that has all instructions followed at every character.
 */
export const stepsOfInstruction = 7;
/** What a character costs besides, where no state is kept for it. */
const stepsOfCharacter = 10;

/**
 * The bound for one policy's expressions together. Looking further, whether all states can be kept, would take tens of
 * milliseconds.
 */
const mostExplored = 150_000;

/**
 * Adds up the steps of the expressions. An expression costs 1 if all states that any path leads to are kept, which is so for most
 * that people write. Otherwise it costs as much as following all instructions at every character.
 *
 * @param texts expressions of one policy, which `readRegex` accepts
 * @returns the sum
 */
export function expressionSteps(texts: readonly string[]): number {
  const budget = { left: mostExplored };
  let steps = 0;
  for (const text of texts) {
    const matcher = newMatcher(regexProgram(readRegex(text).node as RegexNode));
    const all = stepsOfCharacter + stepsOfInstruction * matcher.program.kinds.length;
    steps += keepsAllStates(matcher, budget) ? 1 : all;
  }
  return steps;
}

function keepsAllStates(matcher: Matcher, budget: { left: number }): boolean {
  const first = startState(matcher);
  const states: State[] = [first];
  const seen = emptyTable<boolean>();
  seen[nameOf(first)] = true;
  for (let i = 0; i < states.length; i++) {
    const state = states[i] as State;
    if (state.decidedEarly !== undefined) continue;
    for (let place = 0; place < matcher.classStarts.length; place++) {
      budget.left -= state.waiting.length + 1;
      const next = budget.left < 0 ? undefined : nextState(matcher, state, place);
      if (next === undefined) return false;
      const name = nameOf(next);
      if (seen[name] === true) continue;
      seen[name] = true;
      states.push(next);
    }
  }
  return true;
}

function nameOf({ decidedEarly, waiting }: State): string {
  return decidedEarly === true ? "matched" : waiting.join(",");
}

// What a regular expression of a path can cost a request, known before any request comes: for each character of the path, so
// many steps of the same length. Whoever lets several parties' expressions run on one path bounds their sum.

import { emptyTable } from "../basics/table.ts";
import { type Matcher, newMatcher, nextState, type State, startState } from "./path-regex.ts";
import { regexProgram } from "./regex-program.ts";
import { type RegexNode, readRegex } from "./regex-syntax.ts";

/**
 * One step is a look-up of a state that is kept: 9 to 11 ns in LuaJIT, a busy machine's share. Where none is kept, an
 * instruction takes 12 to 28 ns with random paths, and 63 where the path has all of them followed at every character.
 */
export const stepsOfInstruction = 7;
/** What a character costs beside, where no state is kept for it. */
const stepsOfCharacter = 10;

/** Of one policy's expressions together: to look further, whether all states can be kept, would take tens of milliseconds. */
const mostExplored = 150_000;

/**
 * Of each expression 1 where all states that any path leads to are kept, which is so for most that people write. Otherwise
 * what following all instructions at every character comes to.
 * @param texts expressions of one policy, which `readRegex` takes
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

// What a regular expression of a path can cost a request, known before any request comes: for each character of the path, so
// many steps of the same length. Whoever lets several parties' expressions run on one path bounds their sum.

import { emptyTable } from "../policy/table.ts";
import { newMatcher, nextState, type State, startState } from "./path-regex.ts";
import { regexProgram } from "./regex-program.ts";
import { type RegexNode, readRegex } from "./regex-syntax.ts";

/**
 * One step is a look-up of a state that is kept, about 10 ns in LuaJIT. Where none is kept, an instruction that is followed
 * takes as long as two to four of them; this is a little more than was measured.
 */
export const stepsOfInstruction = 5;
/** What a character costs beside, where no state is kept for it. */
const stepsOfCharacter = 10;

/** Looking further, to find out whether all states can be kept, would take this machine longer than some milliseconds. */
const mostExplored = 300_000;

/**
 * 1 where all states that any path leads to are kept, which is so for most expressions that people write. Otherwise what
 * following all instructions at every character comes to.
 * @param text an expression that `readRegex` takes
 */
export function expressionSteps(text: string): number {
  const matcher = newMatcher(regexProgram(readRegex(text).node as RegexNode));
  const all = stepsOfCharacter + stepsOfInstruction * matcher.program.kinds.length;
  const first = startState(matcher);
  const states: State[] = [first];
  const seen = emptyTable<boolean>();
  seen[nameOf(first)] = true;
  let explored = 0;
  for (let i = 0; i < states.length; i++) {
    const state = states[i] as State;
    if (state.settled !== undefined) continue;
    for (let place = 0; place < matcher.classStarts.length; place++) {
      explored += state.waiting.length + 1;
      const next = explored > mostExplored ? undefined : nextState(matcher, state, place);
      if (next === undefined) return all;
      const name = nameOf(next);
      if (seen[name] === true) continue;
      seen[name] = true;
      states.push(next);
    }
  }
  return 1;
}

function nameOf({ settled, waiting }: State): string {
  return settled === true ? "matched" : waiting.join(",");
}

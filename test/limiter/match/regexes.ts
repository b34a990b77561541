// Random regular expressions of the subset, in a spelling that means the same in JavaScript with the flags "s" and "u", and
// random paths that come near to matching.

import vm from "node:vm";
import fc from "fast-check";

/** Compiles the expression with JavaScript's own engine, by the flags with which it means the same. */
export const inJavaScript = (regex: string) => new RegExp(regex, "su");

const longestMs = 1_000;
const context = vm.createContext({});
const script = new vm.Script("paths.map((path) => expression.test(path))");

/**
 * Says for each path whether the expression matches in JavaScript.
 *
 * @returns undefined if that takes longer than a second: JavaScript's engine tries all ways of matching one after the other, so that a
 *   random expression such as (((a|a)*)*)*b now and then keeps it busy for minutes
 */
export function matchesInJavaScript(expression: string, paths: readonly string[]): boolean[] | undefined {
  Object.assign(context, { expression: inJavaScript(expression), paths });
  try {
    return [...script.runInContext(context, { timeout: longestMs })];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw error;
  }
}

const single = fc.constantFrom("a", "b", "c", "/", "1", "_", "é", "日", "😀", "\\.", "\\n", "\\t", "\\*");
const escaped = fc.constantFrom("\\d", "\\D", "\\w", "\\W");
const item = fc.oneof(single, escaped, fc.constantFrom("a-c", "0-9", "/-b", "à-ü", "日-😀", "\\-"));
const set = fc
  .tuple(fc.boolean(), fc.array(item, { minLength: 1, maxLength: 3 }))
  .map(([negated, items]) => `[${negated ? "^" : ""}${items.join("")}]`);
const repetition = fc.constantFrom("*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}", "{0}", "*?", "+?", "??", "{1,2}?");

export const regex: fc.Arbitrary<string> = fc.letrec<{ choice: string; sequence: string; part: string; one: string }>(
  (tie) => ({
    choice: fc.array(tie("sequence"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("|")),
    sequence: fc.array(tie("part"), { maxLength: 4 }).map((parts) => parts.join("")),
    part: fc.oneof(
      { weight: 6, arbitrary: tie("one") },
      { weight: 3, arbitrary: fc.tuple(tie("one"), repetition).map(([one, by]) => one + by) },
      { weight: 1, arbitrary: fc.constantFrom("^", "$") },
    ),
    one: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      single,
      fc.constant("."),
      escaped,
      set,
      tie("choice").map((inner) => `(${inner})`),
      tie("choice").map((inner) => `(?:${inner})`),
    ),
  }),
).choice;

const character = fc.constantFrom("a", "b", "c", "a", "b", "/", "1", "_", "é", "日", "😀", ".", "\n", "\t", "*", "-");

export const subject: fc.Arbitrary<string> = fc.array(character, { maxLength: 10 }).map((all) => all.join(""));

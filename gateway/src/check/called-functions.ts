// Looks at all Lua of a configuration for what fails only when a request comes: Lua that does not compile, functions that Sluice does not have,
// a variable `sluice` that nobody has set, and a code cache that is switched off.

import { bareCode, calledFields } from "./lua-code.ts";
import type { Directive } from "./nginx-syntax.ts";
import { type Findings, luaIn, phaseOf } from "./phases.ts";

/** @param functions what the global `sluice` has after init_by_lua; undefined: there is no such global */
export function findWrongCalls(
  block: readonly Directive[],
  functions: readonly string[] | undefined,
  findings: Findings,
): void {
  for (const directive of block) {
    const { name, words, inner, place } = directive;
    if (inner !== undefined) findWrongCalls(inner, functions, findings);
    if (name === "lua_code_cache" && words[0] === "off") {
      findings.problems.push(`${place}: expected no "lua_code_cache off": without the cache, Sluice limits nothing`);
    }
    if (phaseOf(name) !== undefined) findWrongCallsIn(directive, functions, findings);
  }
}

function findWrongCallsIn(
  directive: Directive,
  functions: readonly string[] | undefined,
  { problems }: Findings,
): void {
  // Another search has told of a file that cannot be read.
  const { text, place } = luaIn(directive, { problems: [], warnings: [] });
  // A file may begin with a line for a shell, which nginx leaves out.
  const [compiled, failure] = loadstring(string.gsub(text ?? "", "^#[^\n]*", "")[0], "=line");
  if (compiled === undefined) {
    problems.push(`${place}: ${directive.name}: expected Lua that compiles, got an error in ${failure}`);
    return;
  }
  const code = bareCode(text ?? "");
  const misspelt = functions === undefined ? undefined : otherSpellingOf(code);
  if (misspelt !== undefined)
    problems.push(`${place}: expected the variable sluice, which init_by_lua sets, got ${misspelt}`);
  // It may be something else here.
  if (assigns(code, "sluice")) return;
  for (const called of calledFields(code, "sluice")) {
    if (functions === undefined) {
      problems.push(
        `${place}: sluice.${called}(): expected init_by_lua to set the global sluice, as 'sluice = require("sluice")' does, got none after it ran: is it local there?`,
      );
      return;
    }
    if (functions.includes(called)) continue;
    problems.push(`${place}: expected one of the functions ${functions.join(", ")}, got sluice.${called}()`);
  }
}

/** Returns another spelling of `sluice` by which the code calls a function, such as `Sluice`. */
function otherSpellingOf(code: string): string | undefined {
  for (const [owner = ""] of string.gmatch(code, "%f[%w_.]([%a_][%w_]*)%s*[.]%s*[%a_][%w_]*%s*%(")) {
    if (owner !== "sluice" && string.lower(owner) === "sluice" && !assigns(code, owner)) return owner;
  }
  return undefined;
}

function assigns(code: string, variable: string): boolean {
  return string.find(code, `%f[%w_]${variable}%s*=`)[0] !== undefined;
}

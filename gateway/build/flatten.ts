// Makes one straight body of the functions of a Redis script, because Redis runs a script's whole body at every call and lets
// it require nothing. Every function of the program is inlined, constants are computed when the script is built, and records
// that do not escape become locals, as do library functions. Only what a call of the script has to do is left.

import ts from "typescript";
import * as lua from "typescript-to-lua";
import { openBlocks, prune, sinkDeclarations } from "./lua/declarations.ts";
import { fold } from "./lua/fold.ts";
import { inlineProgram } from "./lua/inline.ts";
import { keepLibraryFunctions } from "./lua/library-locals.ts";
import { nameReadably, plainName } from "./lua/names.ts";
import { type LuaModule, link } from "./lua/program.ts";
import { propagateCopies } from "./lua/propagate.ts";
import { replaceRecords } from "./lua/scalar-replace.ts";
import { rewriteBlock, rewriteExpression } from "./lua/walk.ts";

export type { LuaModule } from "./lua/program.ts";

export interface Entry {
  /** Path of the module. */
  readonly path: string;
  /** The function that it exports, to be called with KEYS and ARGV. */
  readonly function: string;
}

/** More rounds than any script needs. Each round simplifies something that the next one builds on. */
const mostRounds = 50;

/**
 * @param modules at least those that the entry needs
 * @param constants values at build time of globals that a module declares but nothing defines, such as
 *   `declare const ALGORITHM: Algorithm`
 * @returns Lua 5.1, which begins with the comment at the top of the entry's module
 * @throws an error that names the function and the call that cannot be inlined, or the line with what Redis does not have
 */
export function flattenScript(
  modules: readonly LuaModule[],
  entry: Entry,
  constants: Readonly<Record<string, string>> = {},
): string {
  const program = link(modules, entry.path, constants);
  const args = ["KEYS", "ARGV"].map((name) => lua.createIdentifier(name));
  const inlined = inlineProgram(program, program.exported(entry.path, entry.function), args, printExpression);
  const unread = program.unreadConstants();
  if (unread.length > 0) throw new Error(`no module of the Redis script reads the constant ${unread}`);

  let statements = inlined;
  let printed = "";
  for (let round = 0; ; round++) {
    if (round === mostRounds) throw new Error(`the Redis script still changes after ${mostRounds} rounds`);
    for (const pass of [
      fold,
      (script: lua.Statement[]) => replaceRecords(script, program.names),
      openBlocks,
      sinkDeclarations,
      propagateCopies,
      prune,
    ]) {
      statements = pass(statements);
    }
    const before = printed;
    printed = print(nameReadably(statements));
    if (printed === before) break;
  }
  printed = print(nameReadably(keepLibraryFunctions(statements, program.names)));
  refuseLeftovers(printed);
  const header = modules.find(({ path }) => path === entry.path)?.header ?? [];
  return header.map((line) => `--${line}\n`).join("") + printed;
}

/** Returns the `//` lines that a TypeScript file begins with, without the slashes. */
export function headerOf(source: string): string[] {
  const lines = source.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  return lines.slice(0, end < 0 ? undefined : end).map((line) => line.slice(2).trimEnd());
}

function refuseLeftovers(script: string): void {
  const withoutStrings = script.replace(/"(?:[^"\\\n]|\\.)*"/g, '""');
  const left = withoutStrings.match(/^.*(____exports|\brequire\b|__TS__|\bfunction\b|module:|@).*$/m);
  if (left) throw new Error(`a Redis script must be flat, but holds: ${left[0].trim()}`);
}

const bare = ts.createProgram({ rootNames: [], options: { noLib: true, types: [] } });
bare.getCompilerOptions()["noHeader"] = true;

function print(statements: readonly lua.Statement[]): string {
  // Two minus signs in a row would begin a comment.
  const safe = rewriteBlock(statements, {
    expression: (part) =>
      lua.isUnaryExpression(part) &&
      part.operator === lua.SyntaxKind.NegationOperator &&
      lua.isUnaryExpression(part.operand) &&
      part.operand.operator === lua.SyntaxKind.NegationOperator
        ? lua.createUnaryExpression(lua.createParenthesizedExpression(part.operand), part.operator)
        : part,
  });
  return new lua.LuaPrinter(ts.sys, bare, "script.ts").print(lua.createFile(safe, new Set(), "")).code;
}

function printExpression(expression: lua.Expression): string {
  const plain = rewriteExpression(expression, {
    expression: (part) => (lua.isIdentifier(part) ? lua.createIdentifier(plainName(part.text)) : part),
  });
  return print([lua.createReturnStatement([plain])])
    .trim()
    .replace(/^return /, "");
}

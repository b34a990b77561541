// Keeps the library functions that a script calls in locals: Lua 5.1 looks up `redis.call` by two names at every call.

import * as lua from "typescript-to-lua";
import { isLocal, type Names } from "./names.ts";
import { rewriteBlock } from "./walk.ts";

const libraries = new Set(["redis", "math", "string", "struct", "table"]);

/** Declares, at the start of the script, a local for each library function that occurs more than once or in a `while` loop. */
export function keepLibraryFunctions(statements: readonly lua.Statement[], names: Names): lua.Statement[] {
  const uses = new Map<string, number>();
  const count = {
    expression: (part: lua.Expression) => {
      const name = libraryFunction(part);
      if (name !== undefined) uses.set(name, (uses.get(name) ?? 0) + 1);
      return part;
    },
    // An occurrence in a loop counts once more.
    statement: (part: lua.Statement) => {
      if (lua.isWhileStatement(part)) rewriteBlock(part.body.statements, count);
      return [part];
    },
  };
  rewriteBlock(statements, count);
  const locals = new Map<string, string>();
  for (const [name, count] of uses) {
    if (count > 1) locals.set(name, names.fresh(name.slice(name.indexOf(".") + 1)));
  }
  const rewritten = rewriteBlock(statements, {
    expression: (part) => {
      const local = locals.get(libraryFunction(part) ?? "");
      return local === undefined ? part : lua.createIdentifier(local);
    },
  });
  const declarations = [...locals].map(([name, local]) => {
    const [library = "", field = ""] = name.split(".");
    const value = lua.createTableIndexExpression(lua.createIdentifier(library), lua.createStringLiteral(field));
    return lua.createVariableDeclarationStatement(lua.createIdentifier(local), value);
  });
  return [...declarations, ...rewritten];
}

/** Returns the name of a library function, such as `math.min`; undefined for any other expression. */
function libraryFunction(part: lua.Expression): string | undefined {
  if (!lua.isTableIndexExpression(part) || !lua.isIdentifier(part.table) || !lua.isStringLiteral(part.index)) {
    return undefined;
  }
  const { text } = part.table;
  return !isLocal(text) && libraries.has(text) ? `${text}.${part.index.value}` : undefined;
}

// Replaces a local by its value if the value is the same wherever the local is read: a constant, or another local that keeps its
// value as long.

import * as lua from "typescript-to-lua";
import { effectsOf, isLiteral, usageOf } from "./effects.ts";
import { isLocal } from "./names.ts";
import { rewriteBlock, substitute } from "./walk.ts";

/** Replaces locals that are constants or copies of other variables, wherever they are read. */
export function propagateCopies(statements: readonly lua.Statement[]): lua.Statement[] {
  const usage = usageOf(statements);
  const values = new Map<string, lua.Expression>();
  rewriteBlock(statements, {
    block: (block) => {
      for (const [i, statement] of block.entries()) {
        if (!lua.isVariableDeclarationStatement(statement) || statement.left.length !== 1) continue;
        const name = (statement.left[0] as lua.Identifier).text;
        if (usage(name).writes > 0) continue;
        const value = statement.right ? statement.right[0] : lua.createNilLiteral();
        if (!value) continue;
        if (isLiteral(value)) values.set(name, value);
        // The local ends with its block: only assignments until then count.
        else if (lua.isIdentifier(value) && keeps(value.text, block.slice(i + 1))) values.set(name, value);
      }
      return block;
    },
  });
  return values.size === 0 ? [...statements] : substitute(statements, values);
}

function keeps(name: string, statements: readonly lua.Statement[]): boolean {
  return !isLocal(name) || !effectsOf(statements).writes.has(name);
}

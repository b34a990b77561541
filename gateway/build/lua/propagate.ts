// Replaces a local by its value if the value is the same wherever the local is read: a constant, another local that keeps its
// value as long, or the value of a temporary that only the next statement reads.

import * as lua from "typescript-to-lua";
import { commutes, effectsOf, firstValue, isLiteral, isPure, usageOf } from "./effects.ts";
import { isLocal, isTemporary } from "./names.ts";
import { mentionsIn, rewriteBlock, substitute } from "./walk.ts";

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

/** Replaces a temporary that is read once, by the statement right behind its declaration. */
export function useInPlace(statements: readonly lua.Statement[]): lua.Statement[] {
  const usage = usageOf(statements);
  return rewriteBlock(statements, {
    block: (block) => {
      const out: lua.Statement[] = [];
      for (const statement of block) {
        const used = out.length > 0 ? replaceLast(out.at(-1) as lua.Statement, statement, usage) : undefined;
        if (used) out.pop();
        out.push(used ?? statement);
      }
      return out;
    },
  });
}

function replaceLast(
  declaration: lua.Statement,
  next: lua.Statement,
  usage: ReturnType<typeof usageOf>,
): lua.Statement | undefined {
  if (!lua.isVariableDeclarationStatement(declaration) || declaration.left.length !== 1) return undefined;
  const name = (declaration.left[0] as lua.Identifier).text;
  const [value] = declaration.right ?? [];
  if (!value || !isTemporary(name) || usage(name).reads !== 1 || usage(name).writes > 0) return undefined;
  const values = new Map([[name, firstValue(value)]]);

  const copied = copyOf(next);
  if (copied && lua.isIdentifier(copied) && copied.text === name) return substitute([next], values)[0];
  const { acts, makesTable } = effectsOf(value);
  if (acts || makesTable) return undefined;
  const evaluated = evaluatedFirst(next);
  if (!evaluated.some((part) => mentionsIn(part, name))) return undefined;
  // A call that runs before the value is read must not change the value.
  const around = evaluated.map((part) => lua.createExpressionStatement(part));
  return evaluated.every(isPure) || commutes(value, around) ? substitute([next], values)[0] : undefined;
}

/** Returns the expression whose value the statement only stores or returns; undefined for any other statement. */
function copyOf(statement: lua.Statement): lua.Expression | undefined {
  if (lua.isReturnStatement(statement))
    return statement.expressions.length === 1 ? statement.expressions[0] : undefined;
  if (lua.isVariableDeclarationStatement(statement))
    return statement.right?.length === 1 ? statement.right[0] : undefined;
  if (!lua.isAssignmentStatement(statement) || statement.left.length !== 1 || statement.right.length !== 1)
    return undefined;
  const [target] = statement.left;
  const isPlain =
    target && (lua.isIdentifier(target) || (lua.isIdentifier(target.table) && lua.isStringLiteral(target.index)));
  return isPlain ? statement.right[0] : undefined;
}

/** Returns the expressions that the statement evaluates once, before any statement inside it runs. */
function evaluatedFirst(statement: lua.Statement): lua.Expression[] {
  if (lua.isVariableDeclarationStatement(statement)) return statement.right ?? [];
  if (lua.isAssignmentStatement(statement)) {
    const targets = statement.left.flatMap((part) =>
      lua.isTableIndexExpression(part) ? [part.table, part.index] : [],
    );
    return [...targets, ...statement.right];
  }
  if (lua.isExpressionStatement(statement)) return [statement.expression];
  if (lua.isReturnStatement(statement)) return statement.expressions;
  if (lua.isIfStatement(statement)) return [statement.condition];
  return [];
}

// Replaces every `return` of a function whose body is inlined by an assignment to the variables that take the result, and a
// way past the rest of the body. For that, Lua 5.1 has if/else and `break`, but no goto.

import * as lua from "typescript-to-lua";
import { elseOf, elseStatements, rewriteBlock } from "./walk.ts";

/** Returns the largest number of values that the function returns. */
export function returnedValues(body: readonly lua.Statement[]): number {
  let most = 0;
  rewriteBlock(body, {
    statement: (statement) => {
      if (lua.isReturnStatement(statement)) most = Math.max(most, statement.expressions.length);
      return [statement];
    },
  });
  return most;
}

/**
 * @param into variables that take the result; none if nothing uses it
 * @param flag returns a name for the variable that says that a return has left a loop
 */
export function withoutReturns(
  body: readonly lua.Statement[],
  into: readonly string[],
  flag: () => string,
): lua.Statement[] {
  const nothing = into.length > 0 && !alwaysReturns(body) ? [result([], into)] : [];
  const nested = inTailPosition(body, into);
  if (nested) return [...nothing, ...nested];
  const flagged = { name: "" };
  const broken = withBreaks(body, into, false, () => {
    if (flagged.name === "") flagged.name = flag();
    return flagged.name;
  });
  const once = lua.createRepeatStatement(lua.createBlock(broken), lua.createBooleanLiteral(true));
  if (flagged.name === "") return [...nothing, once];
  const declared = lua.createVariableDeclarationStatement(
    lua.createIdentifier(flagged.name),
    lua.createBooleanLiteral(false),
  );
  return [...nothing, declared, once];
}

function result(expressions: lua.Expression[], into: readonly string[]): lua.Statement {
  const values = expressions.length > 0 ? expressions : [lua.createNilLiteral()];
  return lua.createAssignmentStatement(
    into.map((name) => lua.createIdentifier(name)),
    values,
  );
}

/** Replaces a return. If nothing uses its values, they are computed only for their effects. */
function taken(statement: lua.ReturnStatement, into: readonly string[]): lua.Statement[] {
  if (into.length > 0) return [result(statement.expressions, into)];
  return statement.expressions.map((expression) => lua.createExpressionStatement(expression));
}

function hasReturn(statement: lua.Statement): boolean {
  let found = false;
  rewriteBlock([statement], {
    statement: (part) => {
      if (lua.isReturnStatement(part)) found = true;
      return [part];
    },
  });
  return found;
}

function alwaysReturns(statements: readonly lua.Statement[]): boolean {
  const last = statements.at(-1);
  if (last === undefined) return false;
  if (lua.isReturnStatement(last)) return true;
  if (lua.isDoStatement(last)) return alwaysReturns(last.statements);
  if (!lua.isIfStatement(last)) return false;
  return alwaysReturns(last.ifBlock.statements) && alwaysReturns(elseStatements(last.elseBlock));
}

/** Returns the body with every return as the last thing that runs; undefined if some code would have to occur twice. */
function inTailPosition(statements: readonly lua.Statement[], into: readonly string[]): lua.Statement[] | undefined {
  const before = statements.findIndex(hasReturn);
  if (before < 0) return [...statements];
  const head = statements.slice(0, before);
  const statement = statements[before] as lua.Statement;
  const rest = statements.slice(before + 1);
  if (lua.isReturnStatement(statement)) return [...head, ...taken(statement, into)];
  if (lua.isDoStatement(statement)) {
    const inner = inTailPosition([...statement.statements, ...rest], into);
    return inner && [...head, lua.createDoStatement(inner)];
  }
  if (!lua.isIfStatement(statement)) return undefined;
  const branches = [statement.ifBlock.statements, elseStatements(statement.elseBlock)];
  const goesOn = branches.filter((branch) => !alwaysReturns(branch));
  if (goesOn.length > 1 && rest.length > 0) return undefined;
  const [met, unmet] = branches.map((branch) =>
    inTailPosition(alwaysReturns(branch) ? branch : [...branch, ...rest], into),
  );
  if (met === undefined || unmet === undefined) return undefined;
  return [...head, lua.createIfStatement(statement.condition, lua.createBlock(met), elseOf(unmet))];
}

/** Returns the body with a `break` for every return, for a loop that runs it once. */
function withBreaks(
  statements: readonly lua.Statement[],
  into: readonly string[],
  inLoop: boolean,
  flag: () => string,
): lua.Statement[] {
  return statements.flatMap((statement): lua.Statement[] => {
    if (!hasReturn(statement)) return [statement];
    const inner = (block: readonly lua.Statement[]) => withBreaks(block, into, inLoop, flag);
    if (lua.isReturnStatement(statement)) {
      const raised = inLoop
        ? [lua.createAssignmentStatement(lua.createIdentifier(flag()), lua.createBooleanLiteral(true))]
        : [];
      return [...taken(statement, into), ...raised, lua.createBreakStatement()];
    }
    if (lua.isDoStatement(statement)) return [lua.createDoStatement(inner(statement.statements))];
    if (lua.isIfStatement(statement)) {
      const met = lua.createBlock(inner(statement.ifBlock.statements));
      return [lua.createIfStatement(statement.condition, met, elseOf(inner(elseStatements(statement.elseBlock))))];
    }
    const leave = lua.createIfStatement(lua.createIdentifier(flag()), lua.createBlock([lua.createBreakStatement()]));
    return [withLoopBody(statement, (body) => withBreaks(body, into, true, flag)), leave];
  });
}

function withLoopBody(loop: lua.Statement, change: (body: lua.Statement[]) => lua.Statement[]): lua.Statement {
  if (lua.isWhileStatement(loop)) {
    return lua.createWhileStatement(lua.createBlock(change(loop.body.statements)), loop.condition);
  }
  if (lua.isRepeatStatement(loop)) {
    return lua.createRepeatStatement(lua.createBlock(change(loop.body.statements)), loop.condition);
  }
  if (lua.isForStatement(loop)) {
    const body = lua.createBlock(change(loop.body.statements));
    const { controlVariable, controlVariableInitializer, limitExpression, stepExpression } = loop;
    return lua.createForStatement(body, controlVariable, controlVariableInitializer, limitExpression, stepExpression);
  }
  if (lua.isForInStatement(loop)) {
    return lua.createForInStatement(lua.createBlock(change(loop.body.statements)), loop.names, loop.expressions);
  }
  throw new Error(`a return inside of ${lua.SyntaxKind[loop.kind]}`);
}

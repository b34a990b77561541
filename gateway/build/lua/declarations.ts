// Moves each declaration to where its variable gets its first value, drops variables that nothing reads, and takes away the
// `do` of a block where few locals are alive: Lua allows 200 locals at once.

import * as lua from "typescript-to-lua";
import { isLiteral, isPure, usageOf } from "./effects.ts";
import { elseOf, elseStatements, mentions, mentionsIn, rewriteBlock } from "./walk.ts";

const mostLocals = 80;

/** Declares each variable no earlier than the first statement that needs it. */
export function sinkDeclarations(statements: readonly lua.Statement[]): lua.Statement[] {
  return rewriteBlock(statements, {
    block: (block) => {
      let sunk = block;
      for (const declaration of block) sunk = sink(sunk, declaration) ?? sunk;
      return sunk;
    },
  });
}

function sink(block: lua.Statement[], declaration: lua.Statement): lua.Statement[] | undefined {
  if (!lua.isVariableDeclarationStatement(declaration) || declaration.left.length !== 1) return undefined;
  const [variable] = declaration.left as [lua.Identifier];
  const [value] = declaration.right ?? [];
  if (value && !isPure(value)) return undefined;
  const from = block.indexOf(declaration);
  const to = block.findIndex((statement, i) => i > from && mentions([statement], variable.text));
  const user = block[to];
  if (user === undefined) return undefined;
  const replaced = (statement: lua.Statement) => [
    ...block.slice(0, from),
    ...block.slice(from + 1, to),
    statement,
    ...block.slice(to + 1),
  ];

  if (lua.isAssignmentStatement(user) && user.left.length === 1 && user.right.length === 1) {
    const [target] = user.left;
    const [first] = user.right as [lua.Expression];
    if (target && lua.isIdentifier(target) && target.text === variable.text && !mentionsIn(first, variable.text)) {
      return replaced(lua.createVariableDeclarationStatement(variable, first));
    }
  }
  // The declaration moves into the one branch that uses the variable, if nothing behind uses it.
  if (value && !isLiteral(value)) return undefined;
  if (mentions(block.slice(to + 1), variable.text)) return undefined;
  const again = lua.createVariableDeclarationStatement(variable, value);
  if (lua.isDoStatement(user)) return replaced(lua.createDoStatement([again, ...user.statements]));
  if (!lua.isIfStatement(user) || mentionsIn(user.condition, variable.text)) return undefined;
  const met = user.ifBlock.statements;
  const unmet = elseStatements(user.elseBlock);
  const inMet = mentions(met, variable.text);
  if (inMet && mentions(unmet, variable.text)) return undefined;
  const add = (branch: lua.Statement[], uses: boolean) => (uses ? [again, ...branch] : branch);
  return replaced(lua.createIfStatement(user.condition, lua.createBlock(add(met, inMet)), elseOf(add(unmet, !inMet))));
}

/** Removes variables that nothing reads. Calls in their values that have other effects stay. */
export function prune(statements: readonly lua.Statement[]): lua.Statement[] {
  const unread = unreadIn(statements);
  return rewriteBlock(statements, {
    statement: (statement) => {
      if (lua.isDoStatement(statement) && statement.statements.length === 0) return [];
      if (lua.isVariableDeclarationStatement(statement)) {
        const isUnread = statement.left.every(({ text }) => unread.has(text));
        return (isUnread && effectOf(statement.right ?? [])) || [statement];
      }
      if (!lua.isAssignmentStatement(statement)) return [statement];
      const isUnread = statement.left.every((target) => lua.isIdentifier(target) && unread.has(target.text));
      return (isUnread && effectOf(statement.right)) || [statement];
    },
  });
}

/** Returns statements with the effects of computing the values; undefined if a value has effects but is itself no call. */
function effectOf(values: readonly lua.Expression[]): lua.Statement[] | undefined {
  const acting = values.filter((value) => !isPure(value));
  if (!acting.every((value) => lua.isCallExpression(value) || lua.isMethodCallExpression(value))) return undefined;
  return acting.map((value) => lua.createExpressionStatement(value));
}

function unreadIn(statements: readonly lua.Statement[]): Set<string> {
  const usage = usageOf(statements);
  const ownReads = new Map<string, number>();
  const names = new Set<string>();
  const kept = new Set<string>();
  rewriteBlock(statements, {
    statement: (statement) => {
      if (lua.isVariableDeclarationStatement(statement)) for (const { text } of statement.left) names.add(text);
      if (!lua.isAssignmentStatement(statement)) return [statement];
      const [target] = statement.left;
      const [value] = statement.right;
      if (statement.left.length === 1 && target && value && lua.isIdentifier(target) && effectOf(statement.right)) {
        // `x = x + 1` reads x only to compute x: such a read does not count.
        const own = isPure(value) ? usageOf([lua.createExpressionStatement(value)])(target.text).reads : 0;
        ownReads.set(target.text, (ownReads.get(target.text) ?? 0) + own);
      } else for (const part of statement.left) if (lua.isIdentifier(part)) kept.add(part.text);
      return [statement];
    },
  });
  return new Set([...names].filter((name) => !kept.has(name) && usage(name).reads === (ownReads.get(name) ?? 0)));
}

/** Opens `do` blocks into the block around them, as long as few locals are alive there. */
export function openBlocks(statements: readonly lua.Statement[], alive = 0): lua.Statement[] {
  const declared = (block: readonly lua.Statement[]) =>
    block.reduce((sum, part) => sum + (lua.isVariableDeclarationStatement(part) ? part.left.length : 0), 0);
  let own = declared(statements);
  return statements.flatMap((statement) => {
    if (!lua.isDoStatement(statement)) return [openInside(statement, alive + own)];
    const inner = openBlocks(statement.statements, alive + own);
    if (isLoop(inner) || alive + own + declared(inner) > mostLocals) return [lua.createDoStatement(inner)];
    own += declared(inner);
    return inner;
  });
}

/** Returns whether the block is a loop with its variables. No statement behind the loop could gain from knowing them. */
function isLoop(block: readonly lua.Statement[]): boolean {
  const last = block.at(-1);
  return block.length > 1 && last !== undefined && (lua.isWhileStatement(last) || lua.isForStatement(last));
}

function openInside(statement: lua.Statement, alive: number): lua.Statement {
  const open = (block: lua.Block, more = 0) => lua.createBlock(openBlocks(block.statements, alive + more));
  if (lua.isIfStatement(statement)) {
    const otherwise = elseOf(openBlocks(elseStatements(statement.elseBlock), alive));
    return lua.createIfStatement(statement.condition, open(statement.ifBlock), otherwise);
  }
  if (lua.isWhileStatement(statement)) return lua.createWhileStatement(open(statement.body), statement.condition);
  if (lua.isRepeatStatement(statement)) return lua.createRepeatStatement(open(statement.body), statement.condition);
  if (lua.isForStatement(statement)) {
    const { controlVariable, controlVariableInitializer, limitExpression, stepExpression } = statement;
    // Lua itself keeps three more locals for the loop.
    const body = open(statement.body, 4);
    return lua.createForStatement(body, controlVariable, controlVariableInitializer, limitExpression, stepExpression);
  }
  if (lua.isForInStatement(statement)) {
    const body = open(statement.body, 3 + statement.names.length);
    return lua.createForInStatement(body, statement.names, statement.expressions);
  }
  return statement;
}

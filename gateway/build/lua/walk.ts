// Walks TypeScriptToLua's Lua tree for the passes. A pass never changes a node but makes a new tree, so that two inlined copies
// of a body share nothing.

import * as lua from "typescript-to-lua";

export interface Rewriter {
  /** Called with an expression whose parts are already rewritten. */
  readonly expression?: (expression: lua.Expression) => lua.Expression;
  /** Called with a variable where it is declared or assigned. */
  readonly target?: (variable: lua.Identifier) => lua.Identifier;
  /** Called with a statement whose parts are already rewritten. */
  readonly statement?: (statement: lua.Statement) => lua.Statement[];
  /** Called with the statements of one block, which are already rewritten. */
  readonly block?: (statements: lua.Statement[]) => lua.Statement[];
}

/** Returns the expression with its direct parts replaced, in the order in which Lua evaluates them. */
export function mapParts(
  expression: lua.Expression,
  part: (expression: lua.Expression) => lua.Expression,
): lua.Expression {
  if (lua.isBinaryExpression(expression)) {
    const left = part(expression.left);
    return lua.createBinaryExpression(left, part(expression.right), expression.operator);
  }
  if (lua.isUnaryExpression(expression)) {
    return lua.createUnaryExpression(part(expression.operand), expression.operator);
  }
  if (lua.isCallExpression(expression)) {
    const callee = part(expression.expression);
    return lua.createCallExpression(callee, expression.params.map(part));
  }
  if (lua.isMethodCallExpression(expression)) {
    const prefix = part(expression.prefixExpression);
    return lua.createMethodCallExpression(prefix, expression.name, expression.params.map(part));
  }
  if (lua.isTableIndexExpression(expression)) {
    const table = part(expression.table);
    return lua.createTableIndexExpression(table, part(expression.index));
  }
  if (lua.isTableExpression(expression)) {
    return lua.createTableExpression(
      expression.fields.map((field) => {
        const key = field.key && part(field.key);
        return lua.createTableFieldExpression(part(field.value), key);
      }),
    );
  }
  if (lua.isParenthesizedExpression(expression)) return lua.createParenthesizedExpression(part(expression.expression));
  if (lua.isConditionalExpression(expression)) throw new Error("Lua 5.1 has no conditional expression");
  return expression;
}

export function rewriteExpression(expression: lua.Expression, rewriter: Rewriter): lua.Expression {
  const rewritten = lua.isFunctionExpression(expression)
    ? lua.createFunctionExpression(
        lua.createBlock(rewriteBlock(expression.body.statements, rewriter)),
        expression.params?.map((parameter) => rewriter.target?.(parameter) ?? parameter),
        expression.dots,
      )
    : mapParts(expression, (part) => rewriteExpression(part, rewriter));
  return rewriter.expression?.(rewritten) ?? rewritten;
}

export function rewriteBlock(statements: readonly lua.Statement[], rewriter: Rewriter): lua.Statement[] {
  const rewritten = statements.flatMap((statement) => {
    const whole = rewriteParts(statement, rewriter);
    return rewriter.statement?.(whole) ?? [whole];
  });
  return rewriter.block?.(rewritten) ?? rewritten;
}

function rewriteParts(statement: lua.Statement, rewriter: Rewriter): lua.Statement {
  const expression = <T extends lua.Expression>(part: T) => rewriteExpression(part, rewriter);
  const target = (variable: lua.Identifier) => rewriter.target?.(variable) ?? variable;
  const block = (part: lua.Block) => lua.createBlock(rewriteBlock(part.statements, rewriter));

  if (lua.isVariableDeclarationStatement(statement)) {
    const right = statement.right?.map(expression);
    return lua.createVariableDeclarationStatement(statement.left.map(target), right);
  }
  if (lua.isAssignmentStatement(statement)) {
    const left = statement.left.map((part) =>
      lua.isIdentifier(part) ? target(part) : (expression(part) as lua.AssignmentLeftHandSideExpression),
    );
    return lua.createAssignmentStatement(left, statement.right.map(expression));
  }
  if (lua.isExpressionStatement(statement)) return lua.createExpressionStatement(expression(statement.expression));
  if (lua.isReturnStatement(statement)) return lua.createReturnStatement(statement.expressions.map(expression));
  if (lua.isBreakStatement(statement)) return lua.createBreakStatement();
  if (lua.isDoStatement(statement)) return lua.createDoStatement(rewriteBlock(statement.statements, rewriter));
  if (lua.isIfStatement(statement)) {
    const condition = expression(statement.condition);
    return lua.createIfStatement(condition, block(statement.ifBlock), rewriteElse(statement.elseBlock, rewriter));
  }
  if (lua.isWhileStatement(statement)) {
    const condition = expression(statement.condition);
    return lua.createWhileStatement(block(statement.body), condition);
  }
  if (lua.isRepeatStatement(statement)) {
    const body = block(statement.body);
    return lua.createRepeatStatement(body, expression(statement.condition));
  }
  if (lua.isForStatement(statement)) {
    const first = expression(statement.controlVariableInitializer);
    const last = expression(statement.limitExpression);
    const step = statement.stepExpression && expression(statement.stepExpression);
    return lua.createForStatement(block(statement.body), target(statement.controlVariable), first, last, step);
  }
  if (lua.isForInStatement(statement)) {
    const expressions = statement.expressions.map(expression);
    return lua.createForInStatement(block(statement.body), statement.names.map(target), expressions);
  }
  // Only LuaJIT has these, for `continue`; the linker refuses them in a Redis script.
  if (lua.isGotoStatement(statement) || lua.isLabelStatement(statement)) return statement;
  throw new Error(`there is no way to go over a ${lua.SyntaxKind[statement.kind]}`);
}

/** Rewrites an else part. An `elseif` becomes an `else` if the rewriter made anything but one `if` of it. */
function rewriteElse(
  part: lua.Block | lua.IfStatement | undefined,
  rewriter: Rewriter,
): lua.Block | lua.IfStatement | undefined {
  if (part === undefined) return undefined;
  const statements = rewriteBlock(lua.isIfStatement(part) ? [part] : part.statements, rewriter);
  return elseOf(statements);
}

/** Returns the else part that runs the statements; undefined if there are none. */
export function elseOf(statements: lua.Statement[]): lua.Block | lua.IfStatement | undefined {
  if (statements.length === 0) return undefined;
  const [first] = statements;
  return statements.length === 1 && first && lua.isIfStatement(first) ? first : lua.createBlock(statements);
}

/** Returns the statements of an else part. */
export function elseStatements(part: lua.Block | lua.IfStatement | undefined): lua.Statement[] {
  if (part === undefined) return [];
  return lua.isIfStatement(part) ? [part] : part.statements;
}

/** Returns whether the name is read, declared or assigned anywhere in the statements. */
export function mentions(statements: readonly lua.Statement[], name: string): boolean {
  let found = false;
  const see = <T extends lua.Expression>(part: T): T => {
    if (lua.isIdentifier(part) && part.text === name) found = true;
    return part;
  };
  rewriteBlock(statements, { expression: see, target: see });
  return found;
}

export function mentionsIn(expression: lua.Expression, name: string): boolean {
  return mentions([lua.createExpressionStatement(expression)], name);
}

/** Returns the statements with variables replaced where they are read. */
export function substitute(
  statements: readonly lua.Statement[],
  values: ReadonlyMap<string, lua.Expression>,
): lua.Statement[] {
  return rewriteBlock(statements, { expression: replacing(values) });
}

export function substituteIn(expression: lua.Expression, values: ReadonlyMap<string, lua.Expression>): lua.Expression {
  return rewriteExpression(expression, { expression: replacing(values) });
}

function replacing(values: ReadonlyMap<string, lua.Expression>): (part: lua.Expression) => lua.Expression {
  return (part) => {
    let value: lua.Expression = part;
    while (lua.isIdentifier(value) && values.has(value.text)) value = values.get(value.text) as lua.Expression;
    return value;
  };
}

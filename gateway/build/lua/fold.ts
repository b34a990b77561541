// Computes at build time what depends only on constants, and drops the branches that are never taken.

import * as lua from "typescript-to-lua";
import { hasOneValue, isTrue as isAlwaysTrue, isLiteral, isPure } from "./effects.ts";
import { elseOf, elseStatements, rewriteBlock, rewriteExpression } from "./walk.ts";

export function fold(statements: readonly lua.Statement[]): lua.Statement[] {
  return rewriteBlock(statements, { expression: foldExpression, statement: foldStatement, block: untilLeft });
}

type Constant = number | string | boolean | undefined;

/** Returns the value of a literal, in an object because the value may be nil; undefined if the expression is no literal. */
function constantOf(expression: lua.Expression): { readonly value: Constant } | undefined {
  if (!isLiteral(expression)) return undefined;
  if (lua.isUnaryExpression(expression)) return { value: -(expression.operand as lua.NumericLiteral).value };
  if (lua.isNumericLiteral(expression) || lua.isStringLiteral(expression)) return { value: expression.value };
  if (lua.isNilLiteral(expression)) return { value: undefined };
  return { value: expression.kind === lua.SyntaxKind.TrueKeyword };
}

const isTrue = (value: Constant) => value !== undefined && value !== false;

function literal(value: Constant): lua.Expression {
  if (value === undefined) return lua.createNilLiteral();
  if (typeof value === "string") return lua.createStringLiteral(value);
  if (typeof value === "boolean") return lua.createBooleanLiteral(value);
  const positive = lua.createNumericLiteral(Math.abs(value));
  return value < 0 ? lua.createUnaryExpression(positive, lua.SyntaxKind.NegationOperator) : positive;
}

function foldExpression(expression: lua.Expression): lua.Expression {
  if (lua.isParenthesizedExpression(expression)) {
    // Parentheses cut several values to one: an expression with one value needs none.
    return hasOneValue(expression.expression) ? expression.expression : expression;
  }
  if (lua.isUnaryExpression(expression)) return foldUnary(expression);
  if (lua.isBinaryExpression(expression)) return foldBinary(expression);
  if (lua.isTableIndexExpression(expression)) {
    return lua.createTableIndexExpression(expression.table, sumOfConstants(expression.index));
  }
  return expression;
}

function foldUnary(expression: lua.UnaryExpression): lua.Expression {
  const { operand, operator } = expression;
  if (operator === lua.SyntaxKind.NotOperator) {
    const constant = constantOf(operand);
    if (constant) return literal(!isTrue(constant.value));
    if (!lua.isBinaryExpression(operand)) return expression;
    if (operand.operator === lua.SyntaxKind.EqualityOperator) {
      return lua.createBinaryExpression(operand.left, operand.right, lua.SyntaxKind.InequalityOperator);
    }
    if (operand.operator === lua.SyntaxKind.InequalityOperator) {
      return lua.createBinaryExpression(operand.left, operand.right, lua.SyntaxKind.EqualityOperator);
    }
  }
  if (operator === lua.SyntaxKind.NegationOperator && lua.isUnaryExpression(operand) && isLiteral(operand)) {
    return operand.operand;
  }
  return expression;
}

function foldBinary(expression: lua.BinaryExpression): lua.Expression {
  const { left, right, operator } = expression;
  const a = constantOf(left);
  if (!a && isAlwaysTrue(left)) {
    if (operator === lua.SyntaxKind.OrOperator) return left;
    if (operator === lua.SyntaxKind.AndOperator && isPure(left)) return right;
  }
  if (operator === lua.SyntaxKind.AndOperator) return a ? (isTrue(a.value) ? right : left) : expression;
  if (operator === lua.SyntaxKind.OrOperator) return a ? (isTrue(a.value) ? left : right) : expression;
  const b = constantOf(right);
  if (!a || !b) return expression;
  if (operator === lua.SyntaxKind.EqualityOperator) return literal(a.value === b.value);
  if (operator === lua.SyntaxKind.InequalityOperator) return literal(a.value !== b.value);
  if (typeof a.value !== "number" || typeof b.value !== "number") return expression;
  const value = compute(a.value, b.value, operator);
  // JavaScript and Lua print infinity, NaN and negative zero differently.
  if (typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))) return expression;
  return value === undefined ? expression : literal(value);
}

function compute(a: number, b: number, operator: lua.BinaryOperator): number | boolean | undefined {
  switch (operator) {
    case lua.SyntaxKind.AdditionOperator:
      return a + b;
    case lua.SyntaxKind.SubtractionOperator:
      return a - b;
    case lua.SyntaxKind.MultiplicationOperator:
      return a * b;
    case lua.SyntaxKind.DivisionOperator:
      return a / b;
    case lua.SyntaxKind.ModuloOperator:
      // Lua 5.1 rounds the quotient, and its remainder has the divisor's sign, unlike JavaScript's.
      return Number.isSafeInteger(a) && Number.isSafeInteger(b) && a >= 0 && b > 0 ? a % b : undefined;
    case lua.SyntaxKind.LessThanOperator:
      return a < b;
    case lua.SyntaxKind.LessEqualOperator:
      return a <= b;
    case lua.SyntaxKind.GreaterThanOperator:
      return a > b;
    case lua.SyntaxKind.GreaterEqualOperator:
      return a >= b;
    default:
      return undefined;
  }
}

/** Makes `i * 5 + 1 + 1` into `i * 5 + 2`. That is exact for an index, which is whole and small. */
function sumOfConstants(index: lua.Expression): lua.Expression {
  if (!isSum(index) || !isSum(index.left)) return index;
  const [a, b] = [index.left.right, index.right];
  if (!isSmallNumber(a) || !isSmallNumber(b)) return index;
  const sum = lua.createNumericLiteral(a.value + b.value);
  return sumOfConstants(lua.createBinaryExpression(index.left.left, sum, lua.SyntaxKind.AdditionOperator));
}

function isSum(expression: lua.Expression): expression is lua.BinaryExpression {
  return lua.isBinaryExpression(expression) && expression.operator === lua.SyntaxKind.AdditionOperator;
}

function isSmallNumber(expression: lua.Expression): expression is lua.NumericLiteral {
  return lua.isNumericLiteral(expression) && Number.isInteger(expression.value) && Math.abs(expression.value) < 2 ** 31;
}

function foldStatement(statement: lua.Statement): lua.Statement[] {
  if (lua.isIfStatement(statement)) return foldIf(statement);
  if (lua.isWhileStatement(statement)) {
    const condition = constantOf(statement.condition);
    return condition && !isTrue(condition.value) ? [] : [statement];
  }
  if (lua.isRepeatStatement(statement)) {
    const condition = constantOf(statement.condition);
    if (condition === undefined || !isTrue(condition.value)) return [statement];
    const body = withoutLastBreak(statement.body.statements);
    return [
      breaks(body)
        ? lua.createRepeatStatement(lua.createBlock(body), statement.condition)
        : lua.createDoStatement(body),
    ];
  }
  return [statement];
}

function foldIf(statement: lua.IfStatement): lua.Statement[] {
  const met = statement.ifBlock.statements;
  const unmet = elseStatements(statement.elseBlock);
  const condition = constantOf(statement.condition);
  if (condition) return [lua.createDoStatement(isTrue(condition.value) ? met : unmet)];
  if (met.length === 0 && unmet.length === 0 && isPure(statement.condition)) return [];
  if (met.length === 0 && unmet.length > 0) {
    const not = lua.createUnaryExpression(statement.condition, lua.SyntaxKind.NotOperator);
    return [lua.createIfStatement(rewriteExpression(not, { expression: foldExpression }), lua.createBlock(unmet))];
  }
  return [lua.createIfStatement(statement.condition, lua.createBlock(met), elseOf(unmet))];
}

function withoutLastBreak(statements: lua.Statement[]): lua.Statement[] {
  const last = statements.at(-1);
  return last && lua.isBreakStatement(last) ? statements.slice(0, -1) : statements;
}

/** Returns whether a `break` leaves the loop whose body these statements are. */
function breaks(statements: readonly lua.Statement[]): boolean {
  return statements.some((statement) => {
    if (lua.isBreakStatement(statement)) return true;
    if (lua.isDoStatement(statement)) return breaks(statement.statements);
    if (!lua.isIfStatement(statement)) return false;
    return breaks(statement.ifBlock.statements) || breaks(elseStatements(statement.elseBlock));
  });
}

/** Drops the statements behind a `break` or a `return`, which never run. */
function untilLeft(statements: lua.Statement[]): lua.Statement[] {
  const left = statements.findIndex(leaves);
  return left < 0 ? statements : statements.slice(0, left + 1);
}

function leaves(statement: lua.Statement): boolean {
  if (lua.isBreakStatement(statement) || lua.isReturnStatement(statement)) return true;
  if (lua.isDoStatement(statement)) return statement.statements.some(leaves);
  if (!lua.isIfStatement(statement)) return false;
  return statement.ifBlock.statements.some(leaves) && elseStatements(statement.elseBlock).some(leaves);
}

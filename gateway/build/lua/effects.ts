// Finds what a piece of Lua reads and writes. From this the passes know whether a value may be computed later, earlier or not
// at all. The result may name too many effects, but never too few. Reading a field counts as pure, because TypeScript has
// proved that what is indexed is a table.

import * as lua from "typescript-to-lua";
import { isLocal } from "./names.ts";
import { rewriteBlock, rewriteExpression } from "./walk.ts";

/** Libraries of Redis whose functions, except `math.random`, depend only on their arguments. */
const pureLibraries = new Set(["math", "string", "bit", "struct"]);
const pureFunctions = new Set(["tonumber", "tostring", "type"]);
/** Libraries whose functions change something, but never a table of the script. */
const outsideLibraries = new Set(["redis", "cjson", "cmsgpack"]);

export interface Effects {
  readonly reads: Set<string>;
  readonly writes: Set<string>;
  /** Names of fields; `#` stands for any number, `*` for any key. */
  readonly fieldReads: Set<string>;
  readonly fieldWrites: Set<string>;
  /** True if the piece calls something that may do more than compute, makes a function, or returns. */
  acts: boolean;
  /** True if the piece makes a table: computing it twice would make two tables. */
  makesTable: boolean;
}

export function effectsOf(what: lua.Expression | readonly lua.Statement[]): Effects {
  const effects: Effects = {
    reads: new Set(),
    writes: new Set(),
    fieldReads: new Set(),
    fieldWrites: new Set(),
    acts: false,
    makesTable: false,
  };
  const rewriter = {
    expression: (part: lua.Expression) => {
      noteExpression(part, effects);
      return part;
    },
    target: (variable: lua.Identifier) => {
      effects.writes.add(variable.text);
      return variable;
    },
    statement: (statement: lua.Statement) => {
      if (lua.isAssignmentStatement(statement)) {
        for (const left of statement.left) {
          if (lua.isTableIndexExpression(left)) effects.fieldWrites.add(fieldOf(left.index));
        }
      }
      // A return changes no value, but nothing may be moved past it.
      if (lua.isReturnStatement(statement)) effects.acts = true;
      return [statement];
    },
  };
  if (Array.isArray(what)) rewriteBlock(what, rewriter);
  else rewriteExpression(what as lua.Expression, rewriter);
  return effects;
}

function noteExpression(part: lua.Expression, effects: Effects): void {
  if (lua.isIdentifier(part)) effects.reads.add(part.text);
  else if (lua.isTableExpression(part)) effects.makesTable = true;
  else if (lua.isTableIndexExpression(part)) {
    if (libraryOf(part) === undefined) effects.fieldReads.add(fieldOf(part.index));
  } else if (lua.isUnaryExpression(part) && part.operator === lua.SyntaxKind.LengthOperator) {
    effects.fieldReads.add("*");
  } else if (lua.isMethodCallExpression(part) || lua.isFunctionExpression(part)) {
    effects.acts = true;
    effects.fieldWrites.add("*");
  } else if (lua.isCallExpression(part)) {
    const callee = part.expression;
    const library = libraryOf(callee);
    if (library !== undefined && pureLibraries.has(library)) {
      if (lua.isTableIndexExpression(callee) && fieldOf(callee.index) === "random") effects.acts = true;
      return;
    }
    if (lua.isIdentifier(callee) && pureFunctions.has(callee.text)) return;
    effects.acts = true;
    if (library === undefined || !outsideLibraries.has(library)) effects.fieldWrites.add("*");
  }
}

/** Returns `math` for `math.floor`, as long as `math` is the global one. */
function libraryOf(expression: lua.Expression): string | undefined {
  if (!lua.isTableIndexExpression(expression) || !lua.isIdentifier(expression.table)) return undefined;
  const { text } = expression.table;
  return pureLibraries.has(text) || outsideLibraries.has(text) ? text : undefined;
}

function fieldOf(index: lua.Expression): string {
  if (lua.isStringLiteral(index)) return index.value;
  const isNumber =
    lua.isNumericLiteral(index) ||
    (lua.isBinaryExpression(index) &&
      index.operator >= lua.SyntaxKind.AdditionOperator &&
      index.operator <= lua.SyntaxKind.PowerOperator);
  return isNumber ? "#" : "*";
}

/** Returns whether leaving the expression out changes nothing. */
export function isPure(expression: lua.Expression): boolean {
  return !effectsOf(expression).acts;
}

/** Returns whether the expression has the same value after the statements as before, and they do the same after it. */
export function commutes(expression: lua.Expression, statements: readonly lua.Statement[]): boolean {
  const value = effectsOf(expression);
  if (value.reads.size === 0 && !value.acts) return true;
  const between = effectsOf(statements);
  if (value.acts) return false;
  for (const name of value.reads) if (isLocal(name) && between.writes.has(name)) return false;
  for (const read of value.fieldReads) {
    for (const written of between.fieldWrites) {
      if (read === written || read === "*" || written === "*") return false;
    }
  }
  return true;
}

export interface Usage {
  reads: number;
  /** Assignments, without the declaration. */
  writes: number;
}

/** Counts how often each local is read and assigned. */
export function usageOf(statements: readonly lua.Statement[]): (name: string) => Usage {
  const usages = new Map<string, Usage>();
  const usage = (name: string) => {
    const known = usages.get(name) ?? { reads: 0, writes: 0 };
    usages.set(name, known);
    return known;
  };
  rewriteBlock(statements, {
    expression: (part) => {
      if (lua.isIdentifier(part)) usage(part.text).reads++;
      return part;
    },
    statement: (statement) => {
      if (lua.isAssignmentStatement(statement)) {
        for (const left of statement.left) if (lua.isIdentifier(left)) usage(left.text).writes++;
      }
      return [statement];
    },
  });
  return usage;
}

export function isLiteral(expression: lua.Expression): boolean {
  if (lua.isUnaryExpression(expression)) {
    return expression.operator === lua.SyntaxKind.NegationOperator && lua.isNumericLiteral(expression.operand);
  }
  return (
    lua.isNumericLiteral(expression) ||
    lua.isStringLiteral(expression) ||
    lua.isBooleanLiteral(expression) ||
    lua.isNilLiteral(expression)
  );
}

const severalValues = new Set(["find", "match", "byte", "gsub", "gmatch", "modf", "frexp", "unpack"]);

/** Returns whether the expression has exactly one value in every position; a call may have several values, or none. */
export function hasOneValue(expression: lua.Expression): boolean {
  if (lua.isMethodCallExpression(expression)) return false;
  if (!lua.isCallExpression(expression)) return expression.kind !== lua.SyntaxKind.DotsKeyword;
  const callee = expression.expression;
  if (lua.isIdentifier(callee)) return pureFunctions.has(callee.text);
  const library = libraryOf(callee);
  const name = lua.isTableIndexExpression(callee) ? fieldOf(callee.index) : "";
  if (library === "redis") return name === "call" || name === "pcall";
  return library !== undefined && pureLibraries.has(library) && !severalValues.has(name);
}

/** Returns the expression cut to its first value, for moving it to a place that would take all its values. */
export function firstValue(expression: lua.Expression): lua.Expression {
  return hasOneValue(expression) ? expression : lua.createParenthesizedExpression(expression);
}

/** Returns whether the expression is certainly neither nil nor false. */
export function isTrue(expression: lua.Expression): boolean {
  if (lua.isTableExpression(expression) || lua.isNumericLiteral(expression) || lua.isStringLiteral(expression)) {
    return true;
  }
  if (lua.isUnaryExpression(expression)) return expression.operator !== lua.SyntaxKind.NotOperator;
  if (!lua.isBinaryExpression(expression)) return expression.kind === lua.SyntaxKind.TrueKeyword;
  const { operator } = expression;
  return operator >= lua.SyntaxKind.AdditionOperator && operator <= lua.SyntaxKind.ConcatOperator;
}

// Replaces every call of a function of the program by the function's body, so that a script makes no closure. Everything is
// still evaluated once and in the same order: a value that an inlined body could change is read into a local before the body.

import * as lua from "typescript-to-lua";
import { commutes, effectsOf, firstValue, isLiteral, isPure, isTrue } from "./effects.ts";
import { plainName } from "./names.ts";
import type { Program } from "./program.ts";
import { returnedValues, withoutReturns } from "./returns.ts";
import { elseOf, elseStatements, mapParts, mentionsIn, rewriteBlock, substituteIn } from "./walk.ts";

/**
 * @param print prints an expression as Lua, for messages
 * @throws when a call cannot be inlined, or a function is used in another way than by calling it
 */
export function inlineProgram(
  program: Program,
  entry: lua.Expression,
  args: readonly lua.Expression[],
  print: (expression: lua.Expression) => string,
): lua.Statement[] {
  return new Inliner(program, print).script(entry, args);
}

interface Copy {
  readonly params: readonly string[];
  readonly body: lua.Statement[];
}

class Inliner {
  readonly #program: Program;
  readonly #print: (expression: lua.Expression) => string;
  /** The function or record of functions that a parameter or a local stands for, keyed by its name. */
  readonly #known = new Map<string, lua.Expression>();
  /** Declarations of constants of modules that are computed at the start of the script. */
  readonly #prelude: lua.Statement[] = [];
  readonly #computed = new Map<string, string>();
  readonly #within: lua.Expression[] = [];

  constructor(program: Program, print: (expression: lua.Expression) => string) {
    this.#program = program;
    this.#print = print;
  }

  script(entry: lua.Expression, args: readonly lua.Expression[]): lua.Statement[] {
    const called = this.#static(entry);
    if (called === undefined || !lua.isFunctionExpression(called)) {
      throw new Error(`${this.#print(entry)} is no function`);
    }
    const { params, body } = this.#copy(called);
    const bound = params.map((name, i) => declare([name], [args[i] ?? lua.createNilLiteral()]));
    this.#within.push(called);
    const statements = this.#block(body);
    return [...this.#prelude, ...bound, ...statements];
  }

  // Functions, and variables and fields that stand for them.

  /** Returns the function or record of functions that the expression is known to be, or undefined. */
  #static(expression: lua.Expression): lua.FunctionExpression | lua.TableExpression | undefined {
    if (lua.isFunctionExpression(expression)) return expression;
    if (lua.isTableExpression(expression)) return this.#holdsFunctions(expression) ? expression : undefined;
    if (lua.isParenthesizedExpression(expression)) return this.#static(expression.expression);
    if (lua.isIdentifier(expression)) {
      const value = this.#known.get(expression.text) ?? this.#program.definition(expression.text);
      return value && this.#static(value);
    }
    if (!lua.isTableIndexExpression(expression)) return undefined;
    const value = this.#field(expression);
    return value && this.#static(value);
  }

  /**
   * Returns whether the table is a record of functions. Its other fields must be literals, because a field that had to be
   * computed would be computed at every use.
   */
  #holdsFunctions(table: lua.TableExpression): boolean {
    const isKnown = ({ key, value }: lua.TableFieldExpression) =>
      key !== undefined && lua.isStringLiteral(key) && (isLiteral(value) || this.#static(value) !== undefined);
    return table.fields.every(isKnown) && table.fields.some(({ value }) => this.#static(value) !== undefined);
  }

  /** Returns the value of a field of a known record; undefined if the record is not known. */
  #field({ table, index }: lua.TableIndexExpression): lua.Expression | undefined {
    const record = this.#static(table);
    if (record === undefined || !lua.isTableExpression(record)) return undefined;
    const field = record.fields.find(
      ({ key }) => key && lua.isStringLiteral(key) && lua.isStringLiteral(index) && key.value === index.value,
    );
    if (field) return field.value;
    throw new Error(`${this.#print(table)} has no ${this.#print(index)} that is known when the script is built`);
  }

  #function(call: lua.CallExpression): lua.FunctionExpression | undefined {
    const callee = this.#static(call.expression);
    if (callee === undefined) return undefined;
    if (lua.isFunctionExpression(callee)) return callee;
    throw new Error(`${this.#print(call)} calls a record of functions`);
  }

  #label(called: lua.Expression): string {
    return this.#program.labelOf(called) ?? "an inner function";
  }

  #enter<T>(called: lua.Expression, call: lua.CallExpression, inside: () => T): T {
    // An inner function is copied together with the function around it, so only the depth shows that it is recursive.
    if (this.#within.includes(called) || this.#within.length > 100) {
      const chain = [...this.#within.slice(-8), called].map((one) => this.#label(one)).join(" → ");
      throw new Error(`${this.#label(called)} cannot be inlined in ${this.#print(call)}: recursion, ${chain}`);
    }
    this.#within.push(called);
    const result = inside();
    this.#within.pop();
    return result;
  }

  /** Copies the function with new names for everything that it declares. */
  #copy(called: lua.FunctionExpression): Copy {
    const renamed = new Map<string, string>();
    const note = (name: string) => renamed.set(name, this.#program.names.fresh(name));
    const params = (called.params ?? []).map(({ text }) => text);
    params.forEach(note);
    rewriteBlock(called.body.statements, {
      expression: (part) => {
        if (lua.isFunctionExpression(part)) for (const { text } of part.params ?? []) note(text);
        return part;
      },
      statement: (statement) => {
        if (lua.isVariableDeclarationStatement(statement)) for (const { text } of statement.left) note(text);
        if (lua.isForStatement(statement)) note(statement.controlVariable.text);
        if (lua.isForInStatement(statement)) for (const { text } of statement.names) note(text);
        return [statement];
      },
    });
    const rename = (variable: lua.Identifier) => lua.createIdentifier(renamed.get(variable.text) ?? variable.text);
    const body = rewriteBlock(called.body.statements, {
      expression: (part) => (lua.isIdentifier(part) ? rename(part) : part),
      target: rename,
    });
    return { params: params.map((name) => renamed.get(name) as string), body };
  }

  // Calls.

  /** Binds the arguments that are functions, and returns the others in the order of the parameters. */
  #arguments(
    params: readonly string[],
    call: lua.CallExpression,
    out: lua.Statement[],
  ): (readonly [name: string, value: lua.Expression])[] {
    const values = call.params.map((argument, i) => {
      const known = this.#static(argument);
      const name = params[i];
      if (known === undefined || name === undefined) return { name, argument };
      this.#known.set(name, known);
      return undefined;
    });
    const passed = values.filter((value) => value !== undefined);
    const lowered = this.#list(
      passed.map(({ argument }) => argument),
      out,
    );
    const bound = passed.map(
      ({ name }, i) => [name ?? this.#program.names.fresh("unused"), lowered[i] as lua.Expression] as const,
    );
    const missing = params.slice(call.params.length).map((name) => [name, lua.createNilLiteral()] as const);
    return [...bound, ...missing];
  }

  /** Inlines the call as statements that leave its results in the variables. */
  #callInto(
    called: lua.FunctionExpression,
    call: lua.CallExpression,
    into: readonly string[],
    out: lua.Statement[],
  ): void {
    const { params, body } = this.#copy(called);
    const block: lua.Statement[] = [];
    for (const [name, value] of this.#arguments(params, call, block)) block.push(declare([name], [value]));
    const straight = withoutReturns(body, into, () => this.#program.names.fresh("returned"));
    this.#enter(called, call, () => block.push(...this.#block(straight)));
    out.push(lua.createDoStatement(block));
  }

  #callInPlace(called: lua.FunctionExpression, call: lua.CallExpression, out: lua.Statement[]): lua.Expression {
    if (returnedValues(called.body.statements) > 1) {
      throw new Error(`${this.#label(called)} returns several values, of which ${this.#print(call)} could take one`);
    }
    if (!isOneExpression(called)) {
      const result = this.#program.names.fresh(this.#program.labelOf(called)?.replace(/.*\./, "") ?? "result");
      out.push(declare([result]));
      this.#callInto(called, call, [result], out);
      return lua.createIdentifier(result);
    }
    const { params, body } = this.#copy(called);
    const expression = (body[0] as lua.ReturnStatement).expressions[0] as lua.Expression;
    // A function of the program that the expression calls is not looked into: it may do anything.
    const acts = !isPure(expression);
    const inPlace = new Map<string, lua.Expression>();
    const bound: lua.Statement[] = [];
    for (const [name, value] of this.#arguments(params, call, out).reverse()) {
      const isName = lua.isIdentifier(value) || isLiteral(value);
      const once = !acts && count(expression, name) === 1 && isPure(value) && !effectsOf(value).makesTable;
      if ((isName || once) && commutes(value, bound)) inPlace.set(name, firstValue(value));
      else bound.unshift(declare([name], [value]));
    }
    out.push(...bound);
    const result = this.#enter(called, call, () => this.#expression(substituteIn(expression, inPlace), out));
    return firstValue(result);
  }

  // Expressions.

  /** Returns the expression with every call of the program's functions inlined; `out` gets the statements that run before it. */
  #expression(expression: lua.Expression, out: lua.Statement[]): lua.Expression {
    if (lua.isIdentifier(expression)) return this.#variable(expression);
    if (lua.isFunctionExpression(expression)) throw new Error(`${this.#print(expression)} is not called where it is`);
    if (lua.isTableIndexExpression(expression)) {
      const value = this.#field(expression);
      if (value) {
        if (this.#static(value)) throw new Error(`${this.#print(expression)} is a function, and is not called`);
        return this.#expression(value, out);
      }
    }
    if (lua.isCallExpression(expression)) {
      const called = this.#function(expression);
      if (called) return this.#callInPlace(called, expression, out);
    }
    if (lua.isMethodCallExpression(expression) && this.#static(expression.prefixExpression)) {
      throw new Error(`${this.#print(expression)} passes a \`this\`: declare the function with \`this: void\``);
    }
    if (lua.isBinaryExpression(expression) && isShortCircuit(expression)) return this.#shortCircuit(expression, out);
    const parts: lua.Expression[] = [];
    mapParts(expression, (part) => {
      parts.push(part);
      return part;
    });
    const lowered = this.#list(parts, out);
    let next = 0;
    return mapParts(expression, () => lowered[next++] as lua.Expression);
  }

  #variable(variable: lua.Identifier): lua.Expression {
    if (this.#static(variable)) throw new Error(`${plainName(variable.text)} is a function, and is not called`);
    const value = this.#program.definition(variable.text);
    if (value === undefined) return variable;
    const out: lua.Statement[] = [];
    const lowered = this.#expression(value, out);
    if (isLiteral(lowered)) return lowered;
    const known = this.#computed.get(variable.text);
    if (known !== undefined) return lua.createIdentifier(known);
    const name = this.#program.names.fresh(variable.text);
    this.#computed.set(variable.text, name);
    this.#prelude.push(...out, declare([name], [lowered]));
    return lua.createIdentifier(name);
  }

  /** Does the same for expressions that are evaluated one after the other. */
  #list(expressions: readonly lua.Expression[], out: lua.Statement[]): lua.Expression[] {
    const parts = expressions.map((expression) => {
      const before: lua.Statement[] = [];
      return { value: this.#expression(expression, before), before };
    });
    return parts.map(({ value, before }, i) => {
      out.push(...before);
      const after = parts.slice(i + 1).flatMap((part) => part.before);
      if (after.length === 0 || commutes(value, after)) return value;
      const name = this.#program.names.fresh("before");
      out.push(declare([name], [value]));
      return lua.createIdentifier(name);
    });
  }

  #needsStatements(expression: lua.Expression): boolean {
    const called = lua.isCallExpression(expression) ? this.#function(expression) : undefined;
    if (called && !isOneExpression(called)) return true;
    const out: lua.Statement[] = [];
    this.#expression(expression, out);
    return out.length > 0;
  }

  #shortCircuit(expression: lua.BinaryExpression, out: lua.Statement[]): lua.Expression {
    if (!this.#needsStatements(expression.left) && !this.#needsStatements(expression.right)) {
      return mapParts(expression, (part) => this.#expression(part, []));
    }
    if (!this.#needsStatements(expression.right)) {
      const left = this.#expression(expression.left, out);
      return lua.createBinaryExpression(left, this.#expression(expression.right, []), expression.operator);
    }
    const name = this.#program.names.fresh("value");
    out.push(declare([name]));
    this.#into(name, expression, out);
    return lua.createIdentifier(name);
  }

  /** Adds statements that leave the expression's value in a variable, which the expression must not read. */
  #into(name: string, expression: lua.Expression, out: lua.Statement[]): void {
    if (lua.isCallExpression(expression)) {
      const called = this.#function(expression);
      if (called && this.#needsStatements(expression)) {
        this.#callInto(called, expression, [name], out);
        return;
      }
    }
    if (lua.isBinaryExpression(expression) && isShortCircuit(expression)) {
      const { left, right, operator } = expression;
      const isChoice = operator === lua.SyntaxKind.OrOperator && lua.isBinaryExpression(left);
      if (isChoice && left.operator === lua.SyntaxKind.AndOperator) {
        if (this.#needsStatements(left.right) || this.#needsStatements(right)) {
          const met: lua.Statement[] = [];
          this.#into(name, left.right, met);
          // `c and a or b` does the same as if/else as long as `a` is never false or nil.
          if (alwaysTrue(name, met)) {
            const condition = this.#expression(left.left, out);
            const unmet: lua.Statement[] = [];
            this.#into(name, right, unmet);
            out.push(lua.createIfStatement(condition, lua.createBlock(met), elseOf(unmet)));
            return;
          }
        }
      }
      if (this.#needsStatements(right)) {
        this.#into(name, left, out);
        const then: lua.Statement[] = [];
        this.#into(name, right, then);
        const value = lua.createIdentifier(name);
        const isAnd = operator === lua.SyntaxKind.AndOperator;
        const goesOn = isAnd ? value : lua.createUnaryExpression(value, lua.SyntaxKind.NotOperator);
        out.push(lua.createIfStatement(goesOn, lua.createBlock(then)));
        return;
      }
    }
    const value = this.#expression(expression, out);
    out.push(lua.createAssignmentStatement(lua.createIdentifier(name), value));
  }

  // Statements.

  #block(statements: readonly lua.Statement[]): lua.Statement[] {
    return statements.flatMap((statement) => {
      const out: lua.Statement[] = [];
      this.#statement(statement, out);
      // Locals that only this statement needs are in a block, so that they do not stay alive behind it.
      const isScoped = out.length > 1 && !lua.isVariableDeclarationStatement(statement);
      return isScoped ? [lua.createDoStatement(out)] : out;
    });
  }

  #statement(statement: lua.Statement, out: lua.Statement[]): void {
    const inner = (block: lua.Block) => lua.createBlock(this.#block(block.statements));

    if (lua.isVariableDeclarationStatement(statement)) {
      this.#declaration(statement, out);
      return;
    }
    if (lua.isAssignmentStatement(statement)) {
      this.#assignment(statement, out);
      return;
    }
    if (lua.isExpressionStatement(statement)) {
      this.#effect(statement.expression, out);
      return;
    }
    if (lua.isReturnStatement(statement)) {
      out.push(lua.createReturnStatement(this.#list(statement.expressions, out)));
      return;
    }
    if (lua.isDoStatement(statement)) {
      out.push(lua.createDoStatement(this.#block(statement.statements)));
      return;
    }
    if (lua.isIfStatement(statement)) {
      const condition = this.#expression(statement.condition, out);
      const otherwise = elseOf(this.#block(elseStatements(statement.elseBlock)));
      out.push(lua.createIfStatement(condition, inner(statement.ifBlock), otherwise));
      return;
    }
    if (lua.isWhileStatement(statement)) {
      const before: lua.Statement[] = [];
      const condition = this.#expression(statement.condition, before);
      const body = this.#block(statement.body.statements);
      if (before.length === 0) {
        out.push(lua.createWhileStatement(lua.createBlock(body), condition));
        return;
      }
      const stops = lua.createUnaryExpression(condition, lua.SyntaxKind.NotOperator);
      const leave = lua.createIfStatement(stops, lua.createBlock([lua.createBreakStatement()]));
      const whole = lua.createBlock([...before, leave, ...body]);
      out.push(lua.createWhileStatement(whole, lua.createBooleanLiteral(true)));
      return;
    }
    if (lua.isRepeatStatement(statement)) {
      const body = this.#block(statement.body.statements);
      const before: lua.Statement[] = [];
      const condition = this.#expression(statement.condition, before);
      if (body.at(-1)?.kind === lua.SyntaxKind.BreakStatement) {
        out.push(lua.createRepeatStatement(lua.createBlock(body), lua.createBooleanLiteral(true)));
      } else out.push(lua.createRepeatStatement(lua.createBlock([...body, ...before]), condition));
      return;
    }
    if (lua.isForStatement(statement)) {
      const { controlVariableInitializer, limitExpression, stepExpression, controlVariable } = statement;
      const bounds = [controlVariableInitializer, limitExpression, ...(stepExpression ? [stepExpression] : [])];
      const [first, last, step] = this.#list(bounds, out) as [lua.Expression, lua.Expression, lua.Expression?];
      out.push(lua.createForStatement(inner(statement.body), controlVariable, first, last, step));
      return;
    }
    if (lua.isForInStatement(statement)) {
      const expressions = this.#list(statement.expressions, out);
      out.push(lua.createForInStatement(inner(statement.body), statement.names, expressions));
      return;
    }
    out.push(statement);
  }

  /** Adds statements with the effects of the expression, whose value nothing uses. */
  #effect(expression: lua.Expression, out: lua.Statement[]): void {
    const called = lua.isCallExpression(expression) ? this.#function(expression) : undefined;
    if (called) {
      this.#callInto(called, expression as lua.CallExpression, [], out);
      return;
    }
    const value = this.#expression(expression, out);
    if (lua.isCallExpression(value) || lua.isMethodCallExpression(value)) {
      out.push(lua.createExpressionStatement(value));
    } else out.push(declare([this.#program.names.fresh("unused")], [value]));
  }

  #declaration({ left, right }: lua.VariableDeclarationStatement, out: lua.Statement[]): void {
    const names = left.map(({ text }) => text);
    const [name] = names;
    const [value] = right ?? [];
    if (right === undefined || value === undefined || name === undefined) {
      out.push(declare(names));
      return;
    }
    if (right.length > 1 || (names.length > 1 && !lua.isCallExpression(value))) {
      out.push(declare(names, this.#list(right, out)));
      return;
    }
    const known = names.length === 1 ? this.#static(value) : undefined;
    if (known) {
      this.#known.set(name, known);
      return;
    }
    const called = lua.isCallExpression(value) ? this.#function(value) : undefined;
    if (called && names.length > 1) {
      out.push(declare(names));
      this.#callInto(called, value as lua.CallExpression, names, out);
      return;
    }
    if (names.length > 1 || !this.#needsStatements(value)) {
      out.push(declare(names, [this.#expression(value, out)]));
      return;
    }
    out.push(declare(names));
    this.#into(name, value, out);
  }

  #assignment({ left, right }: lua.AssignmentStatement, out: lua.Statement[]): void {
    for (const target of left) {
      if (lua.isIdentifier(target) ? this.#static(target) : this.#static(target.table)) {
        throw new Error(`${this.#print(target)} is known when the script is built, and cannot be assigned`);
      }
    }
    const [target] = left;
    const [value] = right;
    const names = left.flatMap((part) => (lua.isIdentifier(part) ? [part.text] : []));
    if (value && right.length === 1 && names.length === left.length) {
      const reads = names.some((name) => mentionsIn(value, name));
      const called = lua.isCallExpression(value) ? this.#function(value) : undefined;
      if (names.length > 1 && called && !reads) {
        this.#callInto(called, value as lua.CallExpression, names, out);
        return;
      }
      if (names.length === 1 && target && !reads && this.#needsStatements(value)) {
        this.#into(names[0] as string, value, out);
        return;
      }
    }
    // The table and the index of a target are evaluated before the values.
    const parts = left.flatMap((part) => (lua.isTableIndexExpression(part) ? [part.table, part.index] : []));
    const lowered = this.#list([...parts, ...right], out);
    const targets = left.map((part) => {
      if (lua.isIdentifier(part)) return part;
      const [table, index] = lowered.splice(0, 2) as [lua.Expression, lua.Expression];
      return lua.createTableIndexExpression(table, index);
    });
    out.push(lua.createAssignmentStatement(targets, lowered));
  }
}

function declare(names: readonly string[], values?: lua.Expression[]): lua.VariableDeclarationStatement {
  return lua.createVariableDeclarationStatement(
    names.map((name) => lua.createIdentifier(name)),
    values,
  );
}

function isOneExpression({ body }: lua.FunctionExpression): boolean {
  const [only] = body.statements;
  return (
    body.statements.length === 1 && only !== undefined && lua.isReturnStatement(only) && only.expressions.length === 1
  );
}

function isShortCircuit({ operator }: lua.BinaryExpression): boolean {
  return operator === lua.SyntaxKind.AndOperator || operator === lua.SyntaxKind.OrOperator;
}

function count(expression: lua.Expression, name: string): number {
  let found = 0;
  rewriteBlock([lua.createExpressionStatement(expression)], {
    expression: (part) => {
      if (lua.isIdentifier(part) && part.text === name) found++;
      return part;
    },
  });
  return found;
}

/** Returns whether every value that the statements assign to the variable is certainly neither nil nor false. */
function alwaysTrue(name: string, statements: readonly lua.Statement[]): boolean {
  let yes = true;
  rewriteBlock(statements, {
    statement: (statement) => {
      if (!lua.isAssignmentStatement(statement)) return [statement];
      const assigns = statement.left.some((target) => lua.isIdentifier(target) && target.text === name);
      if (assigns && !(statement.right.length === 1 && isTrue(statement.right[0] as lua.Expression))) yes = false;
      return [statement];
    },
  });
  return yes;
}

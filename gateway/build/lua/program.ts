// Joins modules to one program. Every function and constant of a module, and every local, gets a unique name, so that a
// reference means the same wherever it is moved. A module that does more than define functions and constants is refused.

import { posix } from "node:path";
import * as lua from "typescript-to-lua";
import { Names, plainName } from "./names.ts";
import { mapParts } from "./walk.ts";

export interface LuaModule {
  /** The TypeScript file, with forward slashes. */
  readonly path: string;
  readonly file: lua.File;
  /** The `//` lines that the file begins with, without the slashes. */
  readonly header: readonly string[];
}

export interface Program {
  readonly names: Names;
  /** Returns the function, constant or record of functions with the unique name; undefined if the name is a local's. */
  definition(name: string): lua.Expression | undefined;
  /** Returns the name of a function for messages. */
  labelOf(value: lua.Expression): string | undefined;
  /** @throws when the module exports no such name */
  exported(path: string, name: string): lua.Expression;
  /** Returns the constants that nothing has read yet. */
  unreadConstants(): string[];
}

type Binding =
  | { readonly kind: "definition"; readonly name: string }
  | { readonly kind: "module"; readonly path: string }
  | { readonly kind: "import"; readonly path: string; readonly name: string };

interface Collected {
  readonly path: string;
  readonly bindings: Map<string, Binding>;
  readonly exports: Map<string, string>;
  /** Values as the module writes them, keyed by unique name. */
  readonly values: Map<string, lua.Expression>;
}

const exportsTable = "____exports";
const modulePrefix = "module:";

/**
 * @param entry path of the module that the script begins in
 * @param constants values of globals that are known when the script is built
 * @throws when a module does more than define, or assigns a variable of the module
 */
export function link(
  modules: readonly LuaModule[],
  entry: string,
  constants: Readonly<Record<string, string>>,
): Program {
  const names = new Names();
  const sources = new Map(modules.map((module) => [module.path, module]));
  const collected = new Map<string, Collected>();
  const owners = new Map<string, Collected>();
  const labels = new Map<lua.Expression, string>();
  const definitions = new Map<string, lua.Expression>();
  const read = new Set<string>();

  const reach = (path: string, from: string): void => {
    const module = sources.get(path);
    if (module === undefined) throw new Error(`${from} needs ${path}, which was not compiled with the Redis script`);
    if (collected.has(path)) return;
    const found = collect(module, names);
    collected.set(path, found);
    for (const name of found.values.keys()) owners.set(name, found);
    for (const binding of found.bindings.values()) if (binding.kind === "module") reach(binding.path, path);
  };
  reach(entry, "the build");

  const exportedName = (path: string, name: string): string => {
    const found = collected.get(path)?.exports.get(name);
    if (found === undefined) throw new Error(`${path} exports no ${name}`);
    return found;
  };
  const constant = (name: string): lua.Expression | undefined => {
    if (!Object.hasOwn(constants, name)) return undefined;
    read.add(name);
    return lua.createStringLiteral(constants[name] as string);
  };

  return {
    names,
    definition(name) {
      const known = definitions.get(name);
      if (known) return known;
      const owner = owners.get(name);
      const value = owner?.values.get(name);
      if (owner === undefined || value === undefined) return undefined;
      const resolved = new Resolver(owner, names, exportedName, constant).expression(value, new Map());
      definitions.set(name, resolved);
      label(resolved, plainName(name), labels);
      return resolved;
    },
    labelOf: (value) => labels.get(value),
    exported: (path, name) => lua.createIdentifier(exportedName(path, name)),
    unreadConstants: () => Object.keys(constants).filter((name) => !read.has(name)),
  };
}

function label(value: lua.Expression, name: string, labels: Map<lua.Expression, string>): void {
  if (lua.isFunctionExpression(value)) labels.set(value, name);
  if (!lua.isTableExpression(value)) return;
  for (const field of value.fields) {
    if (field.key && lua.isStringLiteral(field.key)) label(field.value, `${name}.${field.key.value}`, labels);
  }
}

function collect(module: LuaModule, names: Names): Collected {
  const { path } = module;
  const collected: Collected = { path, bindings: new Map(), exports: new Map(), values: new Map() };
  const { bindings, exports, values } = collected;
  const define = (name: string, value: lua.Expression | undefined): string => {
    const unique = names.fresh(name);
    if (value) values.set(unique, value);
    return unique;
  };
  const refuse = (what: string) => {
    throw new Error(`${path} ${what}: a module of a Redis script only defines functions and constants`);
  };

  const visit = (statements: readonly lua.Statement[]) => {
    for (const statement of statements) {
      if (lua.isReturnStatement(statement)) continue;
      // TypeScriptToLua puts a re-export into a block of its own.
      if (lua.isDoStatement(statement)) visit(statement.statements);
      else if (lua.isVariableDeclarationStatement(statement)) declare(statement);
      else if (lua.isAssignmentStatement(statement)) assign(statement);
      else refuse(`does something when it is loaded (${lua.SyntaxKind[statement.kind]})`);
    }
  };

  const declare = ({ left, right }: lua.VariableDeclarationStatement) => {
    if (right && right.length !== left.length) refuse(`takes ${left.map(({ text }) => text)} apart`);
    for (const [i, { text }] of left.entries()) {
      const value = right?.[i];
      if (text === exportsTable) continue;
      const imported = value && importOf(value);
      bindings.set(text, imported ?? { kind: "definition", name: define(text, value) });
    }
  };

  const importOf = (value: lua.Expression): Binding | undefined => {
    if (lua.isCallExpression(value) && lua.isIdentifier(value.expression) && value.expression.text === "require") {
      const [from] = value.params;
      if (!from || !lua.isStringLiteral(from)) throw new Error(`${path} requires what is not known before it runs`);
      return { kind: "module", path: posix.join(posix.dirname(path), from.value) };
    }
    if (!lua.isTableIndexExpression(value) || !lua.isIdentifier(value.table)) return undefined;
    const module = bindings.get(value.table.text);
    if (module?.kind !== "module" || !lua.isStringLiteral(value.index)) return undefined;
    return { kind: "import", path: module.path, name: value.index.value };
  };

  const assign = ({ left, right }: lua.AssignmentStatement) => {
    const [target] = left;
    const [value] = right;
    if (left.length !== 1 || !target || !value) return refuse("assigns several variables at once");
    if (lua.isIdentifier(target)) {
      const binding = bindings.get(target.text);
      if (binding?.kind !== "definition" || values.has(binding.name)) return refuse(`assigns ${target.text}`);
      values.set(binding.name, value);
      return;
    }
    const isExport = lua.isIdentifier(target.table) && target.table.text === exportsTable;
    if (!isExport || !lua.isStringLiteral(target.index)) return refuse("changes a table when it is loaded");
    const name = target.index.value;
    if (exports.has(name)) return refuse(`assigns ${name} twice`);
    exports.set(name, define(name, value));
  };

  visit(module.file.statements);
  return collected;
}

type Scope = ReadonlyMap<string, string>;

/** Gives every local a unique name, and replaces every reference to a definition by the definition's unique name. */
class Resolver {
  readonly #module: Collected;
  readonly #names: Names;
  readonly #exported: (path: string, name: string) => string;
  readonly #constant: (name: string) => lua.Expression | undefined;

  constructor(
    module: Collected,
    names: Names,
    exported: (path: string, name: string) => string,
    constant: (name: string) => lua.Expression | undefined,
  ) {
    this.#module = module;
    this.#names = names;
    this.#exported = exported;
    this.#constant = constant;
  }

  expression(expression: lua.Expression, scope: Scope): lua.Expression {
    if (lua.isIdentifier(expression)) return this.#read(expression, scope);
    if (lua.isFunctionExpression(expression)) {
      if (expression.dots) throw new Error(`a function of ${this.#module.path} takes a variable number of arguments`);
      const inner = new Map(scope);
      const params = (expression.params ?? []).map((parameter) => this.#declare(parameter, inner));
      return lua.createFunctionExpression(lua.createBlock(this.#block(expression.body.statements, inner)), params);
    }
    const resolved = mapParts(expression, (part) => this.expression(part, scope));
    if (!lua.isTableIndexExpression(resolved) || !lua.isIdentifier(resolved.table)) return resolved;
    if (!lua.isStringLiteral(resolved.index)) return resolved;
    const { text } = resolved.table;
    if (text === exportsTable) {
      return lua.createIdentifier(this.#exported(this.#module.path, resolved.index.value));
    }
    if (!text.startsWith(modulePrefix)) return resolved;
    return lua.createIdentifier(this.#exported(text.slice(modulePrefix.length), resolved.index.value));
  }

  #read(variable: lua.Identifier, scope: Scope): lua.Expression {
    const local = scope.get(variable.text);
    if (local !== undefined) return lua.createIdentifier(local);
    const binding = this.#module.bindings.get(variable.text);
    if (binding === undefined) return this.#constant(variable.text) ?? lua.createIdentifier(variable.text);
    if (binding.kind === "definition") return lua.createIdentifier(binding.name);
    if (binding.kind === "module") return lua.createIdentifier(modulePrefix + binding.path);
    return lua.createIdentifier(this.#exported(binding.path, binding.name));
  }

  #declare(variable: lua.Identifier, scope: Map<string, string>): lua.Identifier {
    const name = this.#names.fresh(variable.text);
    scope.set(variable.text, name);
    return lua.createIdentifier(name);
  }

  /** @param scope the block's own scope, which gets the block's locals */
  #block(statements: readonly lua.Statement[], scope: Map<string, string>): lua.Statement[] {
    return statements.map((statement) => this.#statement(statement, scope));
  }

  #statement(statement: lua.Statement, scope: Map<string, string>): lua.Statement {
    const expression = (part: lua.Expression) => this.expression(part, scope);
    const block = (part: lua.Block, inner = new Map(scope)) => lua.createBlock(this.#block(part.statements, inner));

    if (lua.isVariableDeclarationStatement(statement)) {
      const [value] = statement.right ?? [];
      // A function may call itself, so its name is declared before its body is resolved.
      if (statement.left.length === 1 && value && lua.isFunctionExpression(value)) {
        const [variable] = statement.left.map((name) => this.#declare(name, scope));
        return lua.createVariableDeclarationStatement(variable as lua.Identifier, this.expression(value, scope));
      }
      const right = statement.right?.map(expression);
      return lua.createVariableDeclarationStatement(
        statement.left.map((variable) => this.#declare(variable, scope)),
        right,
      );
    }
    if (lua.isAssignmentStatement(statement)) {
      const left = statement.left.map((target) => {
        if (!lua.isIdentifier(target)) return expression(target) as lua.AssignmentLeftHandSideExpression;
        const local = scope.get(target.text);
        if (local === undefined) throw new Error(`${this.#module.path} assigns ${target.text}, which is no local`);
        return lua.createIdentifier(local);
      });
      return lua.createAssignmentStatement(left, statement.right.map(expression));
    }
    if (lua.isExpressionStatement(statement)) return lua.createExpressionStatement(expression(statement.expression));
    if (lua.isReturnStatement(statement)) return lua.createReturnStatement(statement.expressions.map(expression));
    if (lua.isBreakStatement(statement)) return lua.createBreakStatement();
    if (lua.isDoStatement(statement)) return lua.createDoStatement(this.#block(statement.statements, new Map(scope)));
    if (lua.isIfStatement(statement)) {
      const { elseBlock } = statement;
      const otherwise =
        elseBlock &&
        (lua.isIfStatement(elseBlock)
          ? (this.#statement(elseBlock, new Map(scope)) as lua.IfStatement)
          : block(elseBlock));
      return lua.createIfStatement(expression(statement.condition), block(statement.ifBlock), otherwise);
    }
    if (lua.isWhileStatement(statement)) {
      return lua.createWhileStatement(block(statement.body), expression(statement.condition));
    }
    if (lua.isRepeatStatement(statement)) {
      const inner = new Map(scope);
      const body = block(statement.body, inner);
      return lua.createRepeatStatement(body, this.expression(statement.condition, inner));
    }
    if (lua.isForStatement(statement)) {
      const first = expression(statement.controlVariableInitializer);
      const last = expression(statement.limitExpression);
      const step = statement.stepExpression && expression(statement.stepExpression);
      const inner = new Map(scope);
      const variable = this.#declare(statement.controlVariable, inner);
      return lua.createForStatement(block(statement.body, inner), variable, first, last, step);
    }
    if (lua.isForInStatement(statement)) {
      const expressions = statement.expressions.map(expression);
      const inner = new Map(scope);
      const variables = statement.names.map((name) => this.#declare(name, inner));
      return lua.createForInStatement(block(statement.body, inner), variables, expressions);
    }
    throw new Error(`${this.#module.path} has a ${lua.SyntaxKind[statement.kind]}, which Lua 5.1 does not know`);
  }
}

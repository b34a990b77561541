// Rewrites each module of the gateway so that LuaJIT knows the target of every call. LuaJIT compiles a call inline if it knows
// the target, and it knows the target if the function is in a local that is assigned once. TypeScriptToLua declares locals
// ahead and assigns functions to them later. So this plugin declares functions before their callers, lets a module call its
// own exports by locals, and reads functions of the standard library and `ngx` into locals once. It also joins a text of many parts
// in one step: if the parts were joined two by two, every intermediate text would be made and hashed.

import ts from "typescript";
import * as lua from "typescript-to-lua";
import { rewriteBlock } from "./lua/walk.ts";

const exportsTable = "____exports";
const libraries = ["math", "string"];
/** What does not change after nginx has loaded the module. */
const globals = ["ngx", "tonumber", "tostring", "type"];

export const earlyBinding: lua.Plugin = {
  visitors: {
    [ts.SyntaxKind.SourceFile]: (source, context) => {
      const [file] = context.superTransformNode(source);
      if (!file || !lua.isFile(file)) throw new Error(`${source.fileName} became no file of Lua`);
      return bindEarly(file);
    },
  },
};

function bindEarly(file: lua.File): lua.File {
  const statements = ownExports(readLibraryOnce(joinAtOnce(file.statements)));
  return lua.createFile(declareBeforeUse(statements), file.luaLibFeatures, file.trivia);
}

/** Makes `(a .. b) .. c` into `a .. b .. c`, which groups from the right and which Lua joins in one step. */
function joinAtOnce(statements: readonly lua.Statement[]): lua.Statement[] {
  const rewritten = rewriteBlock(statements, {
    expression: (part) => {
      const parts = joined(part);
      return parts.length > 2 ? parts.reduceRight((right, left) => join(left, right)) : part;
    },
  });
  return withComments(statements, rewritten);
}

function join(left: lua.Expression, right: lua.Expression): lua.Expression {
  return lua.createBinaryExpression(left, right, lua.SyntaxKind.ConcatOperator);
}

function joined(part: lua.Expression): lua.Expression[] {
  if (lua.isParenthesizedExpression(part) && isJoin(part.expression)) return joined(part.expression);
  return isJoin(part) ? [...joined(part.left), ...joined(part.right)] : [part];
}

function isJoin(part: lua.Expression): part is lua.BinaryExpression {
  return lua.isBinaryExpression(part) && part.operator === lua.SyntaxKind.ConcatOperator;
}

/**
 * Declares `local math_floor = math.floor` for every library function that the module names, and uses the local instead. For the
 * global functions that it names, and for `ngx`, a local of the same name does.
 */
function readLibraryOnce(statements: readonly lua.Statement[]): lua.Statement[] {
  const read = new Map<string, lua.Expression>();
  const rewritten = rewriteBlock(statements, {
    expression: (part) => {
      if (!lua.isTableIndexExpression(part) || !lua.isIdentifier(part.table) || !lua.isStringLiteral(part.index)) {
        return part;
      }
      if (!libraries.includes(part.table.text)) return part;
      const name = `${part.table.text}_${part.index.value}`;
      read.set(name, part);
      return lua.createIdentifier(name);
    },
  });
  const reads = [...read].map(([name, value]) =>
    lua.createVariableDeclarationStatement(lua.createIdentifier(name), value),
  );
  const names = namesIn(statements);
  const own = declaredBy(statements);
  const readGlobals = globals
    .filter((name) => names.has(name) && !own.has(name))
    .map((name) => lua.createVariableDeclarationStatement(lua.createIdentifier(name), lua.createIdentifier(name)));
  return [...readGlobals, ...reads, ...withComments(statements, rewritten)];
}

/** Returns the names of the module's own variables, without those of its functions. */
function declaredBy(statements: readonly lua.Statement[]): Set<string> {
  const names = new Set<string>();
  for (const statement of statements) {
    if (lua.isVariableDeclarationStatement(statement)) for (const { text } of statement.left) names.add(text);
  }
  return names;
}

/** Makes every export that does not change a local, which is then exported: `____exports.f` is a look-up at every use. */
function ownExports(statements: readonly lua.Statement[]): lua.Statement[] {
  const taken = namesIn(statements);
  const exportedOnce = assignedOnce(statements);
  const exportedConstant = (statement: lua.Statement): string | undefined => {
    const name = exportIn(statement);
    return name !== undefined && exportedOnce.has(name) ? name : undefined;
  };
  const locals = new Map<string, string>();
  for (const statement of statements) {
    const name = exportedConstant(statement);
    if (name === undefined) continue;
    locals.set(name, taken.has(name) ? `____${name}` : name);
  }
  const rewritten = rewriteBlock(statements, {
    expression: (part) => {
      const name = exportNamed(part);
      const local = name === undefined ? undefined : locals.get(name);
      return local === undefined ? part : lua.createIdentifier(local);
    },
  });
  return withComments(statements, rewritten).flatMap((statement, i) => {
    const name = exportedConstant(statements[i] as lua.Statement);
    if (name === undefined || !lua.isAssignmentStatement(statement)) return [statement];
    const local = lua.createIdentifier(locals.get(name) as string);
    const declaration = lua.createVariableDeclarationStatement(local, statement.right[0]);
    keepComments(statement, declaration);
    const target = lua.createTableIndexExpression(lua.createIdentifier(exportsTable), lua.createStringLiteral(name));
    return [declaration, lua.createAssignmentStatement(target, local)];
  });
}

/** Returns the name of the export that this statement assigns a value. */
function exportIn(statement: lua.Statement): string | undefined {
  if (!lua.isAssignmentStatement(statement) || statement.left.length !== 1) return undefined;
  return exportNamed(statement.left[0] as lua.Expression);
}

/** Returns the exports that are assigned once in the whole module. */
function assignedOnce(statements: readonly lua.Statement[]): Set<string> {
  const once = new Set<string>();
  const again = new Set<string>();
  rewriteBlock(statements, {
    statement: (statement) => {
      for (const target of lua.isAssignmentStatement(statement) ? statement.left : []) {
        const name = exportNamed(target);
        if (name !== undefined) (once.has(name) ? again : once).add(name);
      }
      return [statement];
    },
  });
  return new Set([...once].filter((name) => !again.has(name)));
}

function exportNamed(part: lua.Expression): string | undefined {
  if (!lua.isTableIndexExpression(part) || !lua.isIdentifier(part.table) || part.table.text !== exportsTable) {
    return undefined;
  }
  return lua.isStringLiteral(part.index) ? part.index.value : undefined;
}

/**
 * Declares each variable that TypeScriptToLua declared ahead where it is defined, and moves the definition before the
 * statements that name it. Only variables that are assigned more than once, and functions that call each other, stay
 * declared ahead.
 */
function declareBeforeUse(statements: readonly lua.Statement[]): lua.Statement[] {
  const ahead = new Set<string>();
  for (const statement of statements) {
    if (lua.isVariableDeclarationStatement(statement) && !statement.right?.length) {
      for (const { text } of statement.left) ahead.add(text);
    }
  }
  const assignments = assignmentCounts(statements);
  const definers = new Map<string, lua.Statement>();
  // Imports of two modules with the same base name share a local, which holds each until the next: they stay where they are.
  const definedAgain = new Set<string>();
  for (const statement of statements) {
    for (const name of definedBy(statement, ahead)) {
      if (definers.has(name)) definedAgain.add(name);
      if ((assignments.get(name) ?? 0) <= 1) definers.set(name, statement);
    }
  }
  for (const name of definedAgain) definers.delete(name);

  const fillers = fillersOf(statements);
  const ordered: lua.Statement[] = [];
  const stillAhead = new Set([...ahead].filter((name) => !definers.has(name)));
  const state = new Map<lua.Statement, "begun" | "done">();
  const emit = (statement: lua.Statement): void => {
    state.set(statement, "begun");
    const names = namesIn([statement]);
    for (const name of names) {
      const definer = definers.get(name);
      if (definer === undefined || definer === statement || state.get(definer) === "done") continue;
      if (state.get(definer) === "begun") stillAhead.add(name);
      else emit(definer);
    }
    const own = definedBy(statement, ahead);
    for (const name of names) {
      if (own.includes(name)) continue;
      for (const filler of fillers.get(name) ?? []) {
        if (filler === statement) break;
        if (!state.has(filler)) emit(filler);
      }
    }
    state.set(statement, "done");
    ordered.push(statement);
  };
  for (const statement of statements) {
    if (lua.isVariableDeclarationStatement(statement) && !statement.right?.length) continue;
    if (!state.has(statement)) emit(statement);
  }

  const declared = ordered.map((statement) => {
    const [name] = definedBy(statement, ahead);
    if (name === undefined || stillAhead.has(name)) return assignmentOf(statement, stillAhead);
    if (!lua.isAssignmentStatement(statement)) return statement;
    const declaration = lua.createVariableDeclarationStatement(lua.createIdentifier(name), statement.right[0]);
    keepComments(statement, declaration);
    return declaration;
  });
  if (stillAhead.size === 0) return declared;
  const names = [...stillAhead].map((name) => lua.createIdentifier(name));
  return [lua.createVariableDeclarationStatement(names), ...declared];
}

/** Returns, by name, the statements that fill the list of `[...some, more]` before it is read. TypeScriptToLua gives each such list a name of its own. */
function fillersOf(statements: readonly lua.Statement[]): Map<string, lua.Statement[]> {
  const fillers = new Map<string, lua.Statement[]>();
  for (const statement of statements) {
    if (!lua.isExpressionStatement(statement)) continue;
    for (const name of namesIn([statement])) {
      if (name.startsWith("____array_")) fillers.set(name, [...(fillers.get(name) ?? []), statement]);
    }
  }
  return fillers;
}

/** Returns a definition as an assignment if its name stays declared ahead. */
function assignmentOf(statement: lua.Statement, stillAhead: ReadonlySet<string>): lua.Statement {
  if (!lua.isVariableDeclarationStatement(statement) || !statement.right?.length) return statement;
  if (!statement.left.some(({ text }) => stillAhead.has(text))) return statement;
  const assignment = lua.createAssignmentStatement(statement.left, statement.right);
  keepComments(statement, assignment);
  return assignment;
}

function definedBy(statement: lua.Statement, ahead: ReadonlySet<string>): string[] {
  if (lua.isVariableDeclarationStatement(statement) && statement.right?.length) {
    return statement.left.map(({ text }) => text);
  }
  if (!lua.isAssignmentStatement(statement) || statement.left.length !== 1) return [];
  const [target] = statement.left;
  return target && lua.isIdentifier(target) && ahead.has(target.text) ? [target.text] : [];
}

/** Counts the assignments to each variable anywhere in the module. A declaration is no assignment, even with a value. */
function assignmentCounts(statements: readonly lua.Statement[]): Map<string, number> {
  const counts = new Map<string, number>();
  const count = ({ text }: lua.Identifier) => counts.set(text, (counts.get(text) ?? 0) + 1);
  rewriteBlock(statements, {
    statement: (statement) => {
      if (lua.isAssignmentStatement(statement)) {
        for (const target of statement.left) if (lua.isIdentifier(target)) count(target);
      }
      return [statement];
    },
  });
  return counts;
}

function namesIn(statements: readonly lua.Statement[]): Set<string> {
  const names = new Set<string>();
  const see = <Part extends lua.Expression>(part: Part): Part => {
    if (lua.isIdentifier(part)) names.add(part.text);
    return part;
  };
  rewriteBlock(statements, { expression: see, target: see });
  return names;
}

/** Copies the comments of the module's top-level statements to the new statements that rewriting has made. */
function withComments(before: readonly lua.Statement[], after: readonly lua.Statement[]): lua.Statement[] {
  for (const [i, statement] of after.entries()) keepComments(before[i] as lua.Statement, statement);
  return [...after];
}

function keepComments(from: lua.Statement, to: lua.Statement): void {
  if (from.leadingComments) to.leadingComments = from.leadingComments;
  if (from.trailingComments) to.trailingComments = from.trailingComments;
}

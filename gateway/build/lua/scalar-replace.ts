// Makes each field of a record a local if nothing but one variable refers to the record: such a record needs no table.

import * as lua from "typescript-to-lua";
import { type Names, plainName } from "./names.ts";
import { mentionsIn, rewriteBlock } from "./walk.ts";

/** Replaces every local that only ever holds records written as `{…}`, and of which only fields are used. */
export function replaceRecords(statements: readonly lua.Statement[], names: Names): lua.Statement[] {
  const records = recordsIn(statements);
  if (records.size === 0) return [...statements];
  const locals = new Map<string, Map<string, string>>();
  for (const [record, fields] of records) {
    const named = [...fields].map((field) => [field, names.fresh(fieldName(record, field))] as const);
    locals.set(record, new Map(named));
  }
  const localsOf = (variable: lua.Expression) => (lua.isIdentifier(variable) ? locals.get(variable.text) : undefined);

  return rewriteBlock(statements, {
    expression: (part) => {
      if (!lua.isTableIndexExpression(part) || !lua.isStringLiteral(part.index)) return part;
      const local = localsOf(part.table)?.get(part.index.value);
      return local === undefined ? part : lua.createIdentifier(local);
    },
    statement: (statement) => {
      if (lua.isVariableDeclarationStatement(statement)) {
        const fields = localsOf(statement.left[0] as lua.Identifier);
        if (!fields) return [statement];
        const [value] = statement.right ?? [];
        const given = value ? fieldsOf(value) : undefined;
        const order = [...new Set([...(given?.keys() ?? []), ...fields.keys()])];
        return order.map((field) =>
          lua.createVariableDeclarationStatement(lua.createIdentifier(fields.get(field) as string), given?.get(field)),
        );
      }
      if (!lua.isAssignmentStatement(statement)) return [statement];
      const fields = localsOf(statement.left[0] as lua.Expression);
      const given = fields && fieldsOf(statement.right[0] as lua.Expression);
      return given ? assignFields(fields, given) : [statement];
    },
  });
}

function fieldName(record: string, field: string): string {
  const name = plainName(record);
  // A parameter that is taken apart (`{ a, b }`) has no name in the source.
  return name.startsWith("bindingPattern") ? field : `${name}_${field}`;
}

function assignFields(fields: ReadonlyMap<string, string>, given: Map<string, lua.Expression>): lua.Statement[] {
  const order = [...new Set([...given.keys(), ...fields.keys()])];
  const targets = order.map((field) => lua.createIdentifier(fields.get(field) as string));
  const values = order.map((field) => given.get(field) ?? lua.createNilLiteral());
  // The new record is made of the old one's fields: one assignment reads all of them before it writes any.
  if (values.some((value) => targets.some(({ text }) => mentionsIn(value, text)))) {
    return [lua.createAssignmentStatement(targets, values)];
  }
  return targets.map((target, i) => lua.createAssignmentStatement(target, values[i] as lua.Expression));
}

/** Returns the fields of a record written as `{…}`; undefined for any other expression. */
function fieldsOf(expression: lua.Expression): Map<string, lua.Expression> | undefined {
  if (!lua.isTableExpression(expression)) return undefined;
  const fields = new Map<string, lua.Expression>();
  for (const { key, value } of expression.fields) {
    if (!key || !lua.isStringLiteral(key) || fields.has(key.value)) return undefined;
    fields.set(key.value, value);
  }
  return fields;
}

/** Returns the locals that can be replaced, each with the names of all its fields. */
function recordsIn(statements: readonly lua.Statement[]): Map<string, Set<string>> {
  const fields = new Map<string, Set<string>>();
  const refused = new Set<string>();
  const uses = new Map<string, number>();
  const use = (name: string, by: number) => uses.set(name, (uses.get(name) ?? 0) + by);
  const note = (name: string, found: Iterable<string>) => {
    fields.set(name, new Set([...(fields.get(name) ?? []), ...found]));
  };
  const made = new Set<string>();
  const make = (name: string, value: lua.Expression | undefined) => {
    const given = value && fieldsOf(value);
    if (!given) {
      refused.add(name);
      return;
    }
    made.add(name);
    note(name, given.keys());
  };

  rewriteBlock(statements, {
    expression: (part) => {
      if (lua.isIdentifier(part)) use(part.text, 1);
      if (lua.isTableIndexExpression(part) && lua.isIdentifier(part.table) && lua.isStringLiteral(part.index)) {
        use(part.table.text, -1);
        note(part.table.text, [part.index.value]);
      }
      return part;
    },
    statement: (statement) => {
      if (lua.isVariableDeclarationStatement(statement)) {
        const { left, right } = statement;
        if (left.length === 1 && right === undefined) return [statement];
        for (const { text } of left) make(text, left.length === 1 && right?.length === 1 ? right[0] : undefined);
      } else if (lua.isAssignmentStatement(statement)) {
        const { left, right } = statement;
        for (const target of left) {
          if (lua.isIdentifier(target))
            make(target.text, left.length === 1 && right.length === 1 ? right[0] : undefined);
        }
      } else if (lua.isForStatement(statement)) refused.add(statement.controlVariable.text);
      else if (lua.isForInStatement(statement)) for (const { text } of statement.names) refused.add(text);
      return [statement];
    },
  });
  // A record that is used in another way than by a field escapes: into another table, an array or a function.
  return new Map([...fields].filter(([name]) => made.has(name) && !refused.has(name) && uses.get(name) === 0));
}

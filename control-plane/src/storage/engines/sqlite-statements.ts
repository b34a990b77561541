// Prepared statements of SQLite connections. A change consists of some twenty statements, and it is the same ones each time: to prepare
// them again took as long as to run them.

import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import type { CompiledQuery, QueryResult } from "kysely";

/** The control plane has fewer texts of its own; lists of values of different lengths make further ones. */
const mostKept = 200;
const longestKept = 4_000;

interface Prepared {
  readonly statement: StatementSync;
  readonly hasRows: boolean;
}

const preparedOf = new WeakMap<DatabaseSync, Map<string, Prepared>>();

/** @throws errors of SQLite */
export function run<R>(database: DatabaseSync, { sql, parameters }: CompiledQuery): QueryResult<R> {
  const { statement, hasRows } = prepared(database, sql);
  const values = parameters as SQLInputValue[];
  if (hasRows) return { rows: statement.all(...values) as R[] };
  const { changes, lastInsertRowid } = statement.run(...values);
  return { numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid), rows: [] };
}

function prepared(database: DatabaseSync, sql: string): Prepared {
  const kept = preparedOf.get(database) ?? new Map<string, Prepared>();
  preparedOf.set(database, kept);
  const known = kept.get(sql);
  if (known !== undefined) return known;
  const statement = database.prepare(sql);
  const made = { statement, hasRows: statement.columns().length > 0 };
  if (!isOfRows(sql)) {
    // It may change tables, and with them what a kept statement returns.
    kept.clear();
    return made;
  }
  if (sql.length > longestKept) return made;
  if (kept.size >= mostKept) kept.clear();
  kept.set(sql, made);
  return made;
}

function isOfRows(sql: string): boolean {
  return /^\s*(select|insert|update|delete)\b/i.test(sql);
}

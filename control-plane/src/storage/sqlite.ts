// Node's own SQLite in the shape of database that Kysely's SQLite dialect works with, so that the embedded default
// needs no native package.

import { closeSync, openSync } from "node:fs";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { type Dialect, type SqliteDatabase, SqliteDialect } from "kysely";

/** How long a statement waits for another process that writes to the same file. */
const busyMs = 5_000;

export function sqliteDialect(path: string): Dialect {
  return new SqliteDialect({ database: async () => openSqlite(path) });
}

/** SQLITE_FULL: nothing of the transaction was written. */
const diskFull = 13;

export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === diskFull;
}

function openSqlite(path: string): SqliteDatabase {
  // SQLite would let everybody read it. Of the files that it makes beside, each has the mode of this one.
  if (path !== ":memory:") closeSync(openSync(path, "a", 0o600));
  const database = new DatabaseSync(path, { timeout: busyMs });
  // Every commit is synced: an answered PUT survives a power cut, not only a killed process.
  database.exec("pragma journal_mode = wal; pragma synchronous = full");
  return {
    close: () => database.close(),
    prepare: (sql) => {
      // SQLite has rolled back already where it could not write (disk full): why, is to be heard, and not this.
      if (sql === "rollback" && !database.isTransaction) return nothingToDo;
      const statement = database.prepare(sql);
      return {
        reader: statement.columns().length > 0,
        all: (parameters) => statement.all(...(parameters as SQLInputValue[])),
        run: (parameters) => statement.run(...(parameters as SQLInputValue[])),
        iterate: (parameters) => statement.iterate(...(parameters as SQLInputValue[])),
      };
    },
  };
}

const nothingToDo: ReturnType<SqliteDatabase["prepare"]> = {
  reader: false,
  all: () => [],
  run: () => ({ changes: 0, lastInsertRowid: 0 }),
  iterate: () => [][Symbol.iterator](),
};

// Opens the database that the configuration names and brings its schema up to date. SQL lives in this folder alone.

import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { type Dialect, Kysely, sql } from "kysely";
import type { DatabaseConfiguration } from "../configuration.ts";
import { migrate } from "./migrations.ts";
import { sqliteDialect } from "./sqlite.ts";
import type { Tables } from "./tables.ts";

export type Database = Kysely<Tables>;

/** @throws when it cannot be opened or migrated; what was opened is closed again */
export async function openDatabase(configuration: DatabaseConfiguration): Promise<Database> {
  await mkdir(dirname(configuration.path), { recursive: true, mode: 0o700 });
  const database = new Kysely<Tables>({ dialect: dialectFor(configuration) });
  try {
    await migrate(database);
  } catch (error) {
    await database.destroy();
    throw error;
  }
  return database;
}

/** @throws when the database does not answer */
export async function probeDatabase(database: Database): Promise<void> {
  await sql`select 1`.execute(database);
}

function dialectFor(configuration: DatabaseConfiguration): Dialect {
  switch (configuration.kind) {
    case "sqlite":
      return sqliteDialect(configuration.path);
  }
}

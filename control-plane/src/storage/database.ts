// Opens the configured database and brings its schema up to date. All SQL is in this folder.

import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { type Dialect, Kysely, sql } from "kysely";
import { ConfigurationError, type DatabaseConfiguration } from "../configuration.ts";
import { migrate } from "./migrations.ts";
import { sqliteDialect } from "./sqlite.ts";
import { DatabaseUnwritable } from "./sqlite-errors.ts";
import { DatabaseInUse } from "./sqlite-lock.ts";
import { StorageHealth } from "./storage-health.ts";
import type { Database, Tables } from "./tables.ts";

/** @throws when the database cannot be opened or migrated; then what was opened is closed again */
export async function openDatabase(
  configuration: DatabaseConfiguration,
): Promise<{ database: Database; health: StorageHealth }> {
  const health = new StorageHealth();
  await mkdir(dirname(configuration.path), { recursive: true, mode: 0o700 });
  const database = new Kysely<Tables>({ dialect: dialectFor(configuration, health) });
  try {
    await migrate(database);
  } catch (error) {
    await database.destroy().catch(() => undefined);
    throw reported(error, configuration);
  }
  return { database, health };
}

/** @throws when the database does not answer */
export async function probeDatabase(database: Database): Promise<void> {
  await sql`select 1`.execute(database);
}

/**
 * Tries a write that changes nothing.
 * @throws DatabaseUnwritable when the disk is full or cannot be written to, DatabaseBusy
 */
export async function probeWriting(database: Database): Promise<void> {
  await database
    .updateTable("meta")
    .set((row) => ({ revision: row.ref("revision") }))
    .where("id", "=", 1)
    .execute();
}

/** Rewords an error for the operator who starts the control plane. */
function reported(error: unknown, { variable, path }: DatabaseConfiguration): unknown {
  if (error instanceof DatabaseInUse) {
    const who = error.pid === undefined ? "another one" : `the one with pid ${error.pid}`;
    return new ConfigurationError(
      variable,
      "a database file that no other control plane has open (one process per SQLite file)",
      `${error.path}, which ${who} has: stop that one, or give this one another SLUICE_DATA_DIR. Several control planes ` +
        "on one database need MySQL or PostgreSQL, which are not available yet",
    );
  }
  if (error instanceof DatabaseUnwritable) {
    const why = error.fault === "full" ? "whose disk is full" : `which cannot be written to (${error.message})`;
    return new ConfigurationError(
      variable,
      "room to make the database or bring it up to date",
      `${path}, ${why}; nothing was changed`,
    );
  }
  return error;
}

function dialectFor(configuration: DatabaseConfiguration, health: StorageHealth): Dialect {
  switch (configuration.kind) {
    case "sqlite":
      return sqliteDialect(configuration.path, health);
  }
}

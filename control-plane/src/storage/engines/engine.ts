// The engines by kind: SQLite in this process, or a server. Only the driver of the configured server is loaded.

import type { Dialect } from "kysely";
import type { ServerConfiguration, SqliteConfiguration } from "./database-url.ts";
import type { ServerTimes } from "./server-dialect.ts";
import { sqliteDialect } from "./sqlite.ts";
import type { StorageHealth } from "./storage-health.ts";

/** A request waits for a database that hangs until it has a connection and its first statement gets no answer. */
export const serverTimes: ServerTimes = { connectMs: 5_000, statementMs: 10_000, lockMs: 5_000 };

/** Other control planes may be migrating, and a large table takes its time. */
const migrationTimes: ServerTimes = { connectMs: 5_000, statementMs: 600_000, lockMs: 600_000 };

export async function dialectFor(
  configuration: SqliteConfiguration | ServerConfiguration,
  health: StorageHealth,
  times = serverTimes,
): Promise<Dialect> {
  if (configuration.kind === "sqlite") return sqliteDialect(configuration.path, health);
  return serverDialectFor(configuration, times, health);
}

/** A server is migrated over connections of its own, which may wait for longer. */
export function migrationDialectFor(configuration: ServerConfiguration, health: StorageHealth): Promise<Dialect> {
  return serverDialectFor({ ...configuration, connections: 2 }, migrationTimes, health, true);
}

async function serverDialectFor(
  configuration: ServerConfiguration,
  waits: ServerTimes,
  health: StorageHealth,
  migrates = false,
): Promise<Dialect> {
  if (configuration.kind === "mysql") return (await import("./mysql.ts")).mysqlDialect(configuration, waits, health);
  return (await import("./postgres.ts")).postgresDialect(configuration, waits, health, migrates);
}

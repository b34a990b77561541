// The engines by kind: SQLite in this process, or a server.

import type { Dialect } from "kysely";
import type { ServerConfiguration, SqliteConfiguration } from "./database-url.ts";
import { mysqlDialect } from "./mysql.ts";
import { postgresDialect } from "./postgres.ts";
import type { ServerTimes } from "./server-dialect.ts";
import { sqliteDialect } from "./sqlite.ts";
import type { StorageHealth } from "./storage-health.ts";

/** A request waits for a database that hangs until it has a connection and its first statement gets no answer. */
export const serverTimes: ServerTimes = { connectMs: 5_000, statementMs: 10_000, lockMs: 5_000 };

/** Other control planes may be migrating, and a large table takes its time. */
const migrationTimes: ServerTimes = { connectMs: 5_000, statementMs: 600_000, lockMs: 600_000 };

export function dialectFor(
  configuration: SqliteConfiguration | ServerConfiguration,
  health: StorageHealth,
  times = serverTimes,
): Dialect {
  if (configuration.kind === "sqlite") return sqliteDialect(configuration.path, health);
  return serverDialectFor(configuration, times, health);
}

/** A server is migrated over connections of its own, which may wait for longer. */
export function migrationDialectFor(configuration: ServerConfiguration, health: StorageHealth): Dialect {
  return serverDialectFor({ ...configuration, connections: 2 }, migrationTimes, health);
}

function serverDialectFor(configuration: ServerConfiguration, waits: ServerTimes, health: StorageHealth): Dialect {
  return configuration.kind === "mysql"
    ? mysqlDialect(configuration, waits, health)
    : postgresDialect(configuration, waits, health);
}

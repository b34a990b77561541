// The clock of the database, which is one for all control planes that share it.

import { type Expression, MysqlAdapter, SqliteAdapter, sql, type Transaction } from "kysely";
import type { Database, Tables } from "./tables.ts";

/** Milliseconds since 1970. */
export function databaseNowMs(database: Database | Transaction<Tables>): Expression<number> {
  const { adapter } = database.getExecutor();
  if (adapter instanceof MysqlAdapter) return sql<number>`cast(unix_timestamp(now(3)) * 1000 as signed)`;
  if (adapter instanceof SqliteAdapter) return sql<number>`cast(unixepoch('subsec') * 1000 as integer)`;
  return sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
}

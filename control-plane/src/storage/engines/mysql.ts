// MySQL and MariaDB by the package mysql2.

import { readFileSync } from "node:fs";
import { CompiledQuery, type Dialect, MysqlDialect, type MysqlPool, type MysqlPoolConnection } from "kysely";
import { createPool, type Pool, type PoolConnection, type QueryError } from "mysql2";
import type { DatabaseFault } from "./database-errors.ts";
import type { ServerConfiguration } from "./database-url.ts";
import { isNetworkError } from "./network-errors.ts";
import { type ServerTimes, serverDialect } from "./server-dialect.ts";
import type { StorageHealth } from "./storage-health.ts";

export function mysqlDialect(configuration: ServerConfiguration, times: ServerTimes, health: StorageHealth): Dialect {
  const dialect = new MysqlDialect({
    pool: async () => poolOf(configuration, times),
    onCreateConnection: async (connection) => {
      // Traditional: a text that does not fit is an error, and is never stored cut.
      const lockSeconds = Math.ceil(times.lockMs / 1_000);
      const settings = `set session sql_mode = 'TRADITIONAL', innodb_lock_wait_timeout = ${lockSeconds}`;
      await connection.executeQuery(CompiledQuery.raw(settings));
    },
  });
  return serverDialect(dialect, faultOf, times, health);
}

function poolOf(configuration: ServerConfiguration, times: ServerTimes): MysqlPool {
  const { host, port, user, password, database, tls, connections } = configuration;
  const ca = tls?.caFile === undefined ? {} : { ca: readFileSync(tls.caFile) };
  const pool = createPool({
    ...(host.startsWith("/") ? { socketPath: host } : { host, port }),
    user,
    password,
    database,
    charset: "utf8mb4_bin",
    connectTimeout: times.connectMs,
    connectionLimit: connections,
    idleTimeout: 30_000,
    enableKeepAlive: true,
    ...(tls === undefined ? {} : { ssl: { rejectUnauthorized: tls.verify, verifyIdentity: tls.verify, ...ca } }),
  });
  const guarded = new WeakMap<PoolConnection, MysqlPoolConnection>();
  return {
    getConnection: (callback) => connectionOf(pool, times, guarded, callback),
    end: (callback) => pool.end((error) => callback(error)),
  };
}

/** The package waits for a free connection without end. */
function connectionOf(
  pool: Pool,
  { connectMs, statementMs }: ServerTimes,
  guarded: WeakMap<PoolConnection, MysqlPoolConnection>,
  callback: Parameters<MysqlPool["getConnection"]>[0],
): void {
  let late = false;
  const patience = setTimeout(() => {
    late = true;
    const error = Object.assign(new Error(`no connection of the pool was free for ${connectMs} ms`), {
      code: "ETIMEDOUT",
    });
    callback(error, undefined as never);
  }, connectMs);
  pool.getConnection((error, connection) => {
    clearTimeout(patience);
    if (error !== null) {
      if (!late) callback(error, undefined as never);
      return;
    }
    if (late) {
      connection.release();
      return;
    }
    const known = guarded.get(connection) ?? guard(connection, statementMs);
    guarded.set(connection, known);
    callback(undefined, known);
  });
}

/** A connection that failed does not go back to the pool: its next user would get the reply of this one. */
function guard(connection: PoolConnection, statementMs: number): MysqlPoolConnection {
  let broken = false;
  // Without a listener, an error between two statements would end the process.
  connection.on("error", () => {
    broken = true;
  });
  return {
    query: (sql: string, parameters: unknown[], callback: (error: unknown, result: never) => void) => {
      connection.query({ sql, values: parameters, timeout: statementMs }, (error, result) => {
        if (error !== null && faultOf(error) === "unreachable") broken = true;
        callback(error, result as never);
      });
    },
    release: () => {
      if (broken) connection.destroy();
      else connection.release();
    },
  } as MysqlPoolConnection;
}

/** From https://mariadb.com/kb/en/mariadb-error-code-reference/ and MySQL's list of server errors. */
const faults: Readonly<Record<number, DatabaseFault | "busy">> = {
  1205: "busy", // lock wait timeout
  1213: "busy", // deadlock
  1317: "busy", // the statement was interrupted
  1969: "busy", // max_statement_time
  1021: "full", // disk full
  1114: "full", // the table is full
  1290: "unwritable", // --read-only
  1792: "unwritable", // a transaction that only reads
  1836: "unwritable", // the server only reads
  1040: "unreachable", // too many connections
  1053: "unreachable", // the server shuts down
  1077: "unreachable",
  1203: "unreachable", // too many connections of this user
  1927: "unreachable", // the connection was killed
};

export function faultOf(error: unknown): DatabaseFault | "busy" | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errno, code } = error as Partial<QueryError>;
  if (errno !== undefined && errno > 0 && faults[errno] !== undefined) return faults[errno];
  if (isNetworkError(error)) return "unreachable";
  return code?.startsWith("PROTOCOL_") === true || /closed state|Can't add new command/.test(error.message)
    ? "unreachable"
    : undefined;
}

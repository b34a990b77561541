// MySQL and MariaDB by the package mysql2.

import { readFileSync } from "node:fs";
import { type Dialect, MysqlDialect, type MysqlPool, type MysqlPoolConnection } from "kysely";
import { createPool, type Pool, type PoolConnection, type QueryError } from "mysql2";
import type { DatabaseFault } from "./database-errors.ts";
import type { ServerConfiguration } from "./database-url.ts";
import { isNetworkError } from "./network-errors.ts";
import { type ServerTimes, serverDialect, silenceMs } from "./server-dialect.ts";
import type { StorageHealth } from "./storage-health.ts";

export function mysqlDialect(configuration: ServerConfiguration, times: ServerTimes, health: StorageHealth): Dialect {
  const dialect = new MysqlDialect({ pool: async () => poolOf(configuration, times) });
  return serverDialect(dialect, faultOf, times, health);
}

/**
 * What a server may have set otherwise, and the queries rely on.
 *
 * - traditional: a text that does not fit is an error, and is never stored cut
 * - read committed, as on PostgreSQL: with the server's own default, two transactions that each delete and insert other rows may
 *   wait for each other
 * - the time zone: the server's clock, which tells who runs, does not repeat an hour in autumn
 */
function settingsOf(times: ServerTimes): string[] {
  const [lock, silence] = [times.lockMs, silenceMs(times)].map((ms) => Math.ceil(ms / 1_000));
  const variables = ["sql_mode = 'TRADITIONAL'", "autocommit = 1", "time_zone = '+00:00'"];
  return [
    `set session ${[...variables, `innodb_lock_wait_timeout = ${lock}`, `wait_timeout = ${silence}`].join(", ")}`,
    "set session transaction isolation level read committed",
  ];
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
    // The pool closes idle connections only if it may keep fewer of them. It does so before the server would.
    maxIdle: connections - 1,
    idleTimeout: Math.min(15_000, silenceMs(times) / 2),
    enableKeepAlive: true,
    ...(tls === undefined ? {} : { ssl: { rejectUnauthorized: tls.verify, verifyIdentity: tls.verify, ...ca } }),
  });
  // Without a listener, an error between two statements would end the process.
  pool.on("connection", (connection) => connection.on("error", () => {}));
  const guarded = new WeakMap<PoolConnection, MysqlPoolConnection>();
  return {
    getConnection: (callback) => connectionOf(pool, times, guarded, callback),
    end: (callback) => pool.end((error) => callback(error)),
  };
}

/** The package waits for a free connection without end. */
function connectionOf(
  pool: Pool,
  times: ServerTimes,
  guarded: WeakMap<PoolConnection, MysqlPoolConnection>,
  callback: Parameters<MysqlPool["getConnection"]>[0],
): void {
  const { connectMs } = times;
  let late = false;
  const patience = setTimeout(() => {
    late = true;
    callback(unreachable(`no connection of the pool was free for ${connectMs} ms`), undefined as never);
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
    const known = guarded.get(connection);
    if (known !== undefined) {
      callback(undefined, known);
      return;
    }
    prepare(connection, times).then(
      () => {
        const ready = guard(connection, times.statementMs);
        guarded.set(connection, ready);
        callback(undefined, ready);
      },
      (failure) => {
        connection.destroy();
        callback(failure, undefined as never);
      },
    );
  });
}

/** Kysely's own hook for a new connection loses the connection if a setting fails. */
async function prepare(connection: PoolConnection, times: ServerTimes): Promise<void> {
  for (const sql of settingsOf(times)) {
    await new Promise<void>((resolve, reject) => {
      connection.query({ sql, timeout: times.connectMs }, (error) => (error === null ? resolve() : reject(error)));
    });
  }
}

/** A connection that failed does not go back to the pool: its next user would get the reply of this one. */
function guard(connection: PoolConnection, statementMs: number): MysqlPoolConnection {
  let broken = false;
  connection.on("error", () => {
    broken = true;
  });
  return {
    query: (sql: string, parameters: unknown[], callback: (error: unknown, result: never) => void) => {
      // A rollback after a time-out would wait for the same server once more.
      if (broken) {
        callback(unreachable("the connection has failed"), undefined as never);
        return;
      }
      connection.query({ sql, values: parameters, timeout: statementMs }, (error, result) => {
        // A transaction that could not be ended must not be the next user's.
        if (error !== null && (faultOf(error) === "unreachable" || sql === "rollback")) broken = true;
        callback(error, result as never);
      });
    },
    release: () => {
      if (broken) connection.destroy();
      else connection.release();
    },
  } as MysqlPoolConnection;
}

function unreachable(message: string): Error {
  return Object.assign(new Error(message), { code: "ETIMEDOUT" });
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
  4031: "unreachable", // the connection said nothing for too long
};
/** The server could not write a file; the message has the system's reason. */
const writeErrors: ReadonlySet<number> = new Set([3, 1005, 1026, 1030]);
const noSpace = 28;

export function faultOf(error: unknown): DatabaseFault | "busy" | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errno, code } = error as Partial<QueryError>;
  if (errno !== undefined && errno > 0 && faults[errno] !== undefined) return faults[errno];
  if (errno !== undefined && writeErrors.has(errno)) {
    return new RegExp(`\\b${noSpace}\\b`).test(error.message) ? "full" : "unwritable";
  }
  if (isNetworkError(error)) return "unreachable";
  return code?.startsWith("PROTOCOL_") === true || /closed state|Can't add new command/.test(error.message)
    ? "unreachable"
    : undefined;
}

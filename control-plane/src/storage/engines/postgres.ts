// PostgreSQL by the package pg.

import { readFileSync } from "node:fs";
import { type Dialect, PostgresDialect, type PostgresPool, type PostgresPoolClient } from "kysely";
import { type ClientConfig, DatabaseError, Pool, type PoolClient } from "pg";
import type { DatabaseFault } from "./database-errors.ts";
import type { ServerConfiguration } from "./database-url.ts";
import { isNetworkError } from "./network-errors.ts";
import { type ServerTimes, serverDialect, silenceMs } from "./server-dialect.ts";
import type { StorageHealth } from "./storage-health.ts";

/** The server cancels a statement before we stop to wait for it. */
const graceMs = 2_000;

export function postgresDialect(
  configuration: ServerConfiguration,
  times: ServerTimes,
  health: StorageHealth,
): Dialect {
  return serverDialect(new PostgresDialect({ pool: async () => poolOf(configuration, times) }), faultOf, times, health);
}

function poolOf(configuration: ServerConfiguration, times: ServerTimes): PostgresPool {
  const { connectMs, statementMs, lockMs } = times;
  const pool = new Pool({
    ...connectionOptions(configuration),
    max: configuration.connections,
    connectionTimeoutMillis: connectMs,
    // The server cancels first. Our own limit is for a server that does not answer at all.
    query_timeout: statementMs + graceMs,
    options: Object.entries({
      statement_timeout: statementMs,
      lock_timeout: lockMs,
      idle_in_transaction_session_timeout: silenceMs(times),
      // A server may have set another one, with which writers that wait for each other would fail.
      default_transaction_isolation: "read\\ committed",
    })
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(" "),
    application_name: "sluice",
    keepAlive: true,
    idleTimeoutMillis: 30_000,
  });
  // A connection that breaks while nobody uses it leaves the pool by itself.
  pool.on("error", () => {});
  // Without a listener, an error would end the process. The pool takes its own one away before we have the connection, and the server may
  // end the connection in the message that opens it.
  pool.on("connect", (client) => client.on("error", () => {}));
  return {
    connect: async () => guarded(await pool.connect()),
    end: () => pool.end(),
  };
}

/** Says to which database a connection goes, as whom, and how it is encrypted. */
export function connectionOptions({ host, port, user, password, database, tls }: ServerConfiguration): ClientConfig {
  const ca = tls?.caFile === undefined ? {} : { ca: readFileSync(tls.caFile) };
  const ssl = tls === undefined ? false : { rejectUnauthorized: tls.verify, ...ca };
  return { host, port, user, password, database, ssl };
}

/** Gives a connection that failed back to nobody: its next user would get the reply of this one. */
function guarded(client: PoolClient): PostgresPoolClient {
  let broken = false;
  const note = () => {
    broken = true;
  };
  client.on("error", note);
  return {
    query: async (text: string, values: unknown[]) => {
      // A rollback after a time-out would wait for the same server once more.
      if (broken) throw new Error("Connection terminated: it has failed");
      try {
        const result = await client.query(text, values);
        // To the commit of a transaction with a failed statement, the server answers that it has rolled back.
        if (text === "commit" && result.command !== "COMMIT") throw new Error("the transaction was not committed");
        return result;
      } catch (error) {
        // A transaction that could not be ended must not be the next user's.
        if (faultOf(error) === "unreachable" || text === "rollback") broken = true;
        throw error;
      }
    },
    release: () => {
      client.off("error", note);
      client.release(broken);
    },
  } as unknown as PostgresPoolClient;
}

/** From https://www.postgresql.org/docs/current/errcodes-appendix.html. */
const faults: Readonly<Record<string, DatabaseFault | "busy">> = {
  "40001": "busy", // serialization_failure
  "40P01": "busy", // deadlock_detected
  "55P03": "busy", // lock_not_available
  "57014": "busy", // query_canceled
  "53100": "full", // disk_full
  "25006": "unwritable", // read_only_sql_transaction
  "58030": "unwritable", // io_error
  "53300": "unreachable", // too_many_connections
  "25P03": "unreachable", // idle_in_transaction_session_timeout
  "25P04": "unreachable", // transaction_timeout
  "57P01": "unreachable", // admin_shutdown
  "57P02": "unreachable", // crash_shutdown
  "57P03": "unreachable", // cannot_connect_now
  "57P05": "unreachable", // idle_session_timeout
};

export function faultOf(error: unknown): DatabaseFault | "busy" | undefined {
  if (error instanceof DatabaseError && error.code !== undefined) {
    return faults[error.code] ?? (error.code.startsWith("08") ? "unreachable" : undefined);
  }
  return isNetworkError(error) || isOfDriver(error) ? "unreachable" : undefined;
}

/** The driver reports these without a code. */
function isOfDriver(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error)/.test(
      error.message,
    )
  );
}

// PostgreSQL by the package pg, with or without a pooler in between.
//
// The bounds of statements, locks and silence are asked for twice. A connection asks for them when it opens, by the startup parameter
// `options`. Poolers refuse or drop this parameter, and give each transaction any connection of theirs. So each transaction sets its bounds
// itself, in the message that begins it. If the server does not have the bounds for a connection, each statement gets a transaction.

import { readFileSync } from "node:fs";
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresDialect,
  PostgresDriver,
  type PostgresPool,
  type PostgresPoolClient,
  type TransactionSettings,
} from "kysely";
import { type ClientConfig, DatabaseError, Pool, type PoolClient, type QueryConfig } from "pg";
import type { DatabaseFault } from "./database-errors.ts";
import type { ServerConfiguration } from "./database-url.ts";
import { isNetworkError } from "./network-errors.ts";
import { type ServerTimes, serverDialect, silenceMs } from "./server-dialect.ts";
import type { StorageHealth } from "./storage-health.ts";

/** The server cancels a statement before we stop to wait for it. */
const graceMs = 2_000;

/** A server may have another default, with which writers that wait for each other would fail. */
const usualIsolation = "read committed";
/** Nothing else in the database locks this number. */
const migrationLock = "3853314791062309107";
/**
 * The lock ends with its transaction. A lock of a session would stay in a connection of the pooler, where its owner does not find it again.
 */
const lockForMigration = `select pg_advisory_xact_lock(${migrationLock})`;

/** Bounds by the names that PostgreSQL has for them, in milliseconds. */
type Bounds = Readonly<Record<string, number>>;

/** @param migrates each transaction waits until no other one migrates the database */
export function postgresDialect(
  configuration: ServerConfiguration,
  times: ServerTimes,
  health: StorageHealth,
  migrates = false,
): Dialect {
  const bounds = boundsOf(times);
  const first = migrates ? [lockForMigration] : [];
  return serverDialect(new BoundedDialect(configuration, times, bounds, first), faultOf, times, health);
}

function boundsOf(times: ServerTimes): Bounds {
  return {
    statement_timeout: times.statementMs,
    lock_timeout: times.lockMs,
    idle_in_transaction_session_timeout: silenceMs(times),
  };
}

/** Returns the statements that begin a transaction, as one message. */
function beginWith(bounds: Bounds, { isolationLevel = usualIsolation, accessMode }: TransactionSettings): string {
  const begin = `begin isolation level ${isolationLevel} ${accessMode ?? ""}`;
  const settings = Object.entries(bounds).map(([name, value]) => `set local ${name} = ${value}`);
  return [begin, ...settings].join("; ");
}

class BoundedDialect extends PostgresDialect {
  readonly #createDriver: () => Driver;

  /** @param first further statements at the beginning of each transaction */
  constructor(configuration: ServerConfiguration, times: ServerTimes, bounds: Bounds, first: readonly string[]) {
    const pool = async () => poolOf(configuration, times, bounds);
    super({ pool });
    this.#createDriver = () => new BoundedDriver(pool, bounds, first);
  }

  override createDriver(): Driver {
    return this.#createDriver();
  }

  override createAdapter(): PostgresAdapter {
    return new AdapterWithoutLock();
  }
}

/** Kysely's own lock is one of the session. */
class AdapterWithoutLock extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}

  override async releaseMigrationLock(): Promise<void> {}
}

class BoundedDriver extends PostgresDriver {
  readonly #bounds: Bounds;
  readonly #first: readonly string[];

  constructor(pool: () => Promise<PostgresPool>, bounds: Bounds, first: readonly string[]) {
    super({ pool });
    this.#bounds = bounds;
    this.#first = first;
  }

  override async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const statements = [beginWith(this.#bounds, settings), ...this.#first];
    try {
      await connection.executeQuery(CompiledQuery.raw(statements.join("; ")));
    } catch (error) {
      // The transaction may have begun before a later statement failed, and Kysely ends none that did not begin for it.
      await this.rollbackTransaction(connection).catch(() => undefined);
      throw error;
    }
  }
}

function poolOf(configuration: ServerConfiguration, times: ServerTimes, bounds: Bounds): PostgresPool {
  const pool = new Pool({
    ...connectionOptions(configuration),
    max: configuration.connections,
    connectionTimeoutMillis: times.connectMs,
    // The server cancels first. Our own limit is for a server that does not answer at all.
    query_timeout: times.statementMs + graceMs,
    options: [...Object.entries(bounds), ["default_transaction_isolation", usualIsolation.replace(" ", "\\ ")]]
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
  const bounded = new WeakMap<PoolClient, boolean>();
  return {
    connect: async () => {
      const client = await connectTo(pool);
      if (!bounded.has(client)) bounded.set(client, await hasBounds(client, bounds, times.connectMs));
      const guardedClient = guarded(client);
      return bounded.get(client) === true ? guardedClient : withBounds(guardedClient, bounds);
    },
    end: () => pool.end(),
  };
}

/** Connects without `options` from now on if a pooler refuses them. */
async function connectTo(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    if (!refusesOptions(error)) throw error;
    delete pool.options.options;
    return pool.connect();
  }
}

/** PgBouncer calls it an unsupported parameter; a pooler that does not know it says that the feature is not supported. */
function refusesOptions(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false;
  return error.code === "0A000" || (error.code === "08P01" && /unsupported startup parameter/.test(error.message));
}

/**
 * Finds out whether the server has our bounds without being told by each transaction: `options` came through, or the role has them.
 * @throws what the query throws; then the connection is gone
 */
async function hasBounds(client: PoolClient, bounds: Bounds, timeoutMs: number) {
  const text = "select name, setting from pg_settings where name = any($1)";
  const wanted = { ...bounds, default_transaction_isolation: usualIsolation };
  const query: QueryConfig & { query_timeout: number } = {
    text,
    values: [Object.keys(wanted)],
    query_timeout: timeoutMs,
  };
  try {
    const { rows } = await client.query<{ name: string; setting: string }>(query);
    const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
    return Object.entries(wanted).every(([name, value]) => settings.get(name) === String(value));
  } catch (error) {
    client.release(true);
    throw error;
  }
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

/** Gives each statement outside of a transaction one of its own, which sets the bounds. */
function withBounds(client: PostgresPoolClient, bounds: Bounds): PostgresPoolClient {
  let isInTransaction = false;
  return {
    query: async (text: string, values: readonly unknown[]) => {
      const begins = text.startsWith("begin ");
      const ends = text === "commit" || text === "rollback";
      if (begins || ends) isInTransaction = begins;
      if (isInTransaction || ends) return client.query(text, values);
      try {
        await client.query(beginWith(bounds, {}), []);
        const result = await client.query(text, values);
        await client.query("commit", []);
        return result;
      } catch (error) {
        await client.query("rollback", []).catch(() => undefined);
        throw error;
      }
    },
    release: () => client.release(),
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

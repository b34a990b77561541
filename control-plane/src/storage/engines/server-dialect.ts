// What the servers of databases have in common: their errors become those of database-errors.ts, and the health of the
// storage follows what they answer.

import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SelectQueryNode,
  type TransactionSettings,
} from "kysely";
import { DatabaseBusy, type DatabaseFault, DatabaseUnreachable, DatabaseUnwritable } from "./database-errors.ts";
import type { StorageHealth } from "./storage-health.ts";

/** The times after which we give up, in milliseconds. */
export interface ServerTimes {
  /** Making a connection, or waiting for one of the pool. */
  readonly connectMs: number;
  /** One statement, with the locks that it waits for. */
  readonly statementMs: number;
  /** The locks alone. */
  readonly lockMs: number;
}

/**
 * How long the server keeps a transaction whose control plane says nothing, in milliseconds. A machine that lost its power does not
 * say that it is gone, and its transaction would keep all others from writing.
 */
export function silenceMs({ statementMs }: ServerTimes): number {
  return statementMs * 3;
}

/** Says what an error of the driver means; undefined: it has nothing to do with the state of the server. */
export type FaultOf = (error: unknown) => DatabaseFault | "busy" | undefined;

export function serverDialect(dialect: Dialect, faultOf: FaultOf, times: ServerTimes, health: StorageHealth): Dialect {
  return {
    createDriver: () => new WatchedDriver(dialect.createDriver(), faultOf, times, health),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (database) => dialect.createIntrospector(database),
  };
}

class WatchedDriver implements Driver {
  readonly #inner: Driver;
  readonly #faultOf: FaultOf;
  readonly #times: ServerTimes;
  readonly #health: StorageHealth;

  constructor(inner: Driver, faultOf: FaultOf, times: ServerTimes, health: StorageHealth) {
    this.#inner = inner;
    this.#faultOf = faultOf;
    this.#times = times;
    this.#health = health;
  }

  init(): Promise<void> {
    return this.#inner.init();
  }

  async acquireConnection(): Promise<WatchedConnection> {
    try {
      return new WatchedConnection(await this.#inner.acquireConnection(), this);
    } catch (error) {
      throw this.#translated(error, false);
    }
  }

  async beginTransaction(connection: WatchedConnection, settings: TransactionSettings): Promise<void> {
    await this.watch(() => this.#inner.beginTransaction(connection.inner, settings));
    connection.transaction = { hasChanged: false };
  }

  async commitTransaction(connection: WatchedConnection): Promise<void> {
    const hasChanged = connection.transaction?.hasChanged === true;
    connection.transaction = undefined;
    await this.watch(() => this.#inner.commitTransaction(connection.inner), true);
    if (hasChanged) this.hasStored();
  }

  async rollbackTransaction(connection: WatchedConnection): Promise<void> {
    connection.transaction = undefined;
    try {
      await this.#inner.rollbackTransaction(connection.inner);
    } catch {
      // The server rolls back whatever a lost connection has begun. The error that led here is the one to report.
    }
  }

  releaseConnection(connection: WatchedConnection): Promise<void> {
    return this.#inner.releaseConnection(connection.inner);
  }

  destroy(): Promise<void> {
    return this.#inner.destroy();
  }

  /**
   * Runs what only the server can answer: a free connection of the pool says nothing about the server.
   * @param commits an error leaves open whether the change was stored
   */
  async watch<T>(act: () => Promise<T>, commits = false): Promise<T> {
    try {
      const result = await act();
      this.#health.answered();
      return result;
    } catch (error) {
      throw this.#translated(error, commits);
    }
  }

  hasStored(): void {
    // On a full disk, a small change still finds room now and then. Whoever tries to write decides.
    if (this.#health.state === "unreachable") this.#health.worked();
  }

  #translated(error: unknown, commits: boolean): unknown {
    const fault = this.#faultOf(error);
    if (fault === undefined) return error;
    if (fault === "busy") return new DatabaseBusy(this.#times.statementMs, error);
    this.#health.failed(fault, error);
    // PostgreSQL crashes if its log finds no room for a commit, which may be in it all the same.
    if (fault === "unreachable" || commits) return new DatabaseUnreachable(error, commits);
    return new DatabaseUnwritable(fault, error);
  }
}

class WatchedConnection implements DatabaseConnection {
  readonly inner: DatabaseConnection;
  /** Undefined: each statement is a transaction of its own. */
  transaction: { hasChanged: boolean } | undefined;
  readonly #driver: WatchedDriver;

  constructor(inner: DatabaseConnection, driver: WatchedDriver) {
    this.inner = inner;
    this.#driver = driver;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const commits = this.transaction === undefined && !SelectQueryNode.is(query.query);
    const result = await this.#driver.watch(() => this.inner.executeQuery<R>(query), commits);
    if ((result.numAffectedRows ?? 0n) > 0n) {
      if (this.transaction === undefined) this.#driver.hasStored();
      else this.transaction.hasChanged = true;
    }
    return result;
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }
}

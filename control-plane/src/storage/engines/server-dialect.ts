// What the servers of databases have in common: their errors become those of database-errors.ts, and the health of the
// storage follows what they answer.

import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult, TransactionSettings } from "kysely";
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
    return new WatchedConnection(await this.watch(() => this.#inner.acquireConnection()), this);
  }

  beginTransaction(connection: WatchedConnection, settings: TransactionSettings): Promise<void> {
    return this.watch(() => this.#inner.beginTransaction(connection.inner, settings));
  }

  commitTransaction(connection: WatchedConnection): Promise<void> {
    return this.watch(() => this.#inner.commitTransaction(connection.inner), true);
  }

  async rollbackTransaction(connection: WatchedConnection): Promise<void> {
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

  /** @param commits an error leaves open whether the change was stored */
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
    this.#health.worked();
  }

  #translated(error: unknown, commits: boolean): unknown {
    const fault = this.#faultOf(error);
    if (fault === undefined) return error;
    if (fault === "busy") return new DatabaseBusy(this.#times.statementMs, error);
    this.#health.failed(fault, error);
    return fault === "unreachable" ? new DatabaseUnreachable(error, commits) : new DatabaseUnwritable(fault, error);
  }
}

class WatchedConnection implements DatabaseConnection {
  readonly inner: DatabaseConnection;
  readonly #driver: WatchedDriver;

  constructor(inner: DatabaseConnection, driver: WatchedDriver) {
    this.inner = inner;
    this.#driver = driver;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const result = await this.#driver.watch(() => this.inner.executeQuery<R>(query));
    if ((result.numAffectedRows ?? 0n) > 0n) this.#driver.hasStored();
    return result;
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }
}

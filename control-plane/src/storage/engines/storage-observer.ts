// Lets somebody watch what the database does and how long it takes, whichever engine it has: metrics and traces do.

import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult, TransactionSettings } from "kysely";

export const transactionKinds = ["read", "write"] as const;
export type TransactionKind = (typeof transactionKinds)[number];

export const statementKinds = ["select", "insert", "update", "delete", "other"] as const;
export type StatementKind = (typeof statementKinds)[number];

export interface Transaction {
  readonly kind: TransactionKind;
  /** When the caller wanted a connection, by `performance.now()`. */
  readonly wantedAtMs: number;
  /** When the transaction had begun. */
  readonly begunAtMs: number;
  readonly endedAtMs: number;
  /** The failure that ended it; undefined if it was committed. */
  readonly error: unknown;
}

export interface Statement {
  readonly kind: StatementKind;
  readonly query: CompiledQuery;
  readonly begunAtMs: number;
  readonly endedAtMs: number;
  readonly error: unknown;
  /** Whether it belongs to a transaction of several statements. */
  readonly inTransaction: boolean;
}

export interface StorageListener {
  statement(statement: Statement): void;
  /** @returns a function to call when the transaction has ended */
  transaction(): (transaction: Transaction) => void;
  /** @param durationMs the wait for a connection, or for the turn to write */
  waited(durationMs: number): void;
  failed(error: unknown): void;
}

/** The list of listeners, which are not known yet when the database is opened. */
export class StorageObserver implements StorageListener {
  readonly #listeners: StorageListener[] = [];

  add(listener: StorageListener): void {
    this.#listeners.push(listener);
  }

  statement(statement: Statement): void {
    for (const listener of this.#listeners) listener.statement(statement);
  }

  transaction(): (transaction: Transaction) => void {
    const ends = this.#listeners.map((listener) => listener.transaction());
    return (transaction) => {
      for (const end of ends) end(transaction);
    };
  }

  waited(durationMs: number): void {
    for (const listener of this.#listeners) listener.waited(durationMs);
  }

  failed(error: unknown): void {
    for (const listener of this.#listeners) listener.failed(error);
  }
}

export function observedDialect(dialect: Dialect, observer: StorageObserver): Dialect {
  return {
    createDriver: () => new ObservedDriver(dialect.createDriver(), observer),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (database) => dialect.createIntrospector(database),
  };
}

class ObservedDriver implements Driver {
  readonly #inner: Driver;
  readonly #observer: StorageObserver;

  constructor(inner: Driver, observer: StorageObserver) {
    this.#inner = inner;
    this.#observer = observer;
  }

  init(): Promise<void> {
    return this.#inner.init();
  }

  async acquireConnection(): Promise<ObservedConnection> {
    const wantedAtMs = performance.now();
    const inner = await this.#watched(() => this.#inner.acquireConnection());
    return new ObservedConnection(inner, this.#observer, wantedAtMs);
  }

  async beginTransaction(connection: ObservedConnection, settings: TransactionSettings): Promise<void> {
    const kind = settings.accessMode === "read only" ? "read" : "write";
    connection.open = { kind, begunAtMs: Number.NaN, end: this.#observer.transaction(), error: undefined };
    // SQLite's writers take turns here, and do not wait for a connection.
    const fromMs = performance.now();
    try {
      await this.#watched(() => this.#inner.beginTransaction(connection.inner, settings), connection);
    } finally {
      connection.open.begunAtMs = performance.now();
      connection.waitedMs += connection.open.begunAtMs - fromMs;
    }
  }

  async commitTransaction(connection: ObservedConnection): Promise<void> {
    await this.#watched(() => this.#inner.commitTransaction(connection.inner), connection);
    connection.ended();
  }

  rollbackTransaction(connection: ObservedConnection): Promise<void> {
    return this.#inner.rollbackTransaction(connection.inner);
  }

  async releaseConnection(connection: ObservedConnection): Promise<void> {
    this.#observer.waited(connection.waitedMs);
    // A transaction that still counts as open was rolled back, or never began.
    connection.ended(rolledBack);
    await this.#inner.releaseConnection(connection.inner);
  }

  destroy(): Promise<void> {
    return this.#inner.destroy();
  }

  async #watched<T>(act: () => Promise<T>, { open }: { open?: OpenTransaction | undefined } = {}): Promise<T> {
    try {
      return await act();
    } catch (error) {
      if (open !== undefined) open.error = error;
      this.#observer.failed(error);
      throw error;
    }
  }
}

const rolledBack = new Error("rolled back");

interface OpenTransaction {
  readonly kind: TransactionKind;
  begunAtMs: number;
  readonly end: (transaction: Transaction) => void;
  error: unknown;
}

class ObservedConnection implements DatabaseConnection {
  readonly inner: DatabaseConnection;
  readonly #observer: StorageObserver;
  readonly #wantedAtMs: number;
  waitedMs: number;
  open: OpenTransaction | undefined;

  constructor(inner: DatabaseConnection, observer: StorageObserver, wantedAtMs: number) {
    this.inner = inner;
    this.#observer = observer;
    this.#wantedAtMs = wantedAtMs;
    this.waitedMs = performance.now() - wantedAtMs;
  }

  ended(otherwise?: Error): void {
    const { open } = this;
    this.open = undefined;
    if (open === undefined) return;
    const { kind, begunAtMs, error = otherwise } = open;
    open.end({ kind, wantedAtMs: this.#wantedAtMs, begunAtMs, endedAtMs: performance.now(), error });
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const begunAtMs = performance.now();
    let error: unknown;
    try {
      return await this.inner.executeQuery<R>(query);
    } catch (thrown) {
      error = thrown;
      if (this.open !== undefined) this.open.error ??= thrown;
      this.#observer.failed(thrown);
      throw thrown;
    } finally {
      const inTransaction = this.open !== undefined;
      this.#observer.statement({
        kind: kindOf(query.sql),
        query,
        begunAtMs,
        endedAtMs: performance.now(),
        error,
        inTransaction,
      });
    }
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }
}

function kindOf(sql: string): StatementKind {
  const word = /^\s*([a-z]+)/i.exec(sql)?.[1]?.toLowerCase() ?? "";
  return statementKinds.find((kind) => kind === word) ?? "other";
}

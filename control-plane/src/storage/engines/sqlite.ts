// Node's own SQLite as a dialect of Kysely, so that the embedded default needs no native package. Node's SQLite blocks the
// thread, so nothing ever waits inside it. Reads have their own connections and never wait for changes. Changes take turns;
// while another process writes, they try again between other requests, for a limited time.

import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SelectQueryNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from "kysely";
import { DatabaseBusy, DatabaseUnwritable } from "./database-errors.ts";
import { Checkpoints } from "./sqlite-checkpoints.ts";
import { isBusy, isDiskFull, writeFaultOf } from "./sqlite-errors.ts";
import { type OpenedFile, openAlone, openTogether, requireSqliteFile } from "./sqlite-file.ts";
import { type FileLock, lockSqliteFile } from "./sqlite-lock.ts";
import { run } from "./sqlite-statements.ts";
import { StorageHealth } from "./storage-health.ts";
import { Turns } from "./turns.ts";

/** The longest time that a statement waits for another process that writes to the same file, and for earlier changes. */
const patienceMs = 5_000;
const shortestRestMs = 2;
const longestRestMs = 50;
/**
 * With a single connection, opened for lack of room, this is how often the driver tries to open shared connections again.
 */
const reopenAfterMs = 5_000;

/** @param health is notified whether changes can be stored */
export function sqliteDialect(path: string, health = new StorageHealth()): Dialect {
  return {
    createDriver: () => new SqliteFileDriver(path, health),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createAdapter: () => new TransactionalSqliteAdapter(),
    createIntrospector: (database) => new SqliteIntrospector(database),
  };
}

/**
 * Runs migrations in a transaction, so that one which fails half-way, for example on a full disk, leaves nothing behind.
 * Kysely's own adapter does not.
 */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

class SqliteFileDriver implements Driver {
  readonly #path: string;
  readonly #health: StorageHealth;
  readonly #writing = new Turns();
  readonly #readingSnapshots = new Turns();
  readonly #checkpoints = new Checkpoints();
  #lock: FileLock | undefined;
  #file: OpenedFile | undefined;
  /** Set when the single connection has stored a change: there may be room again for the file that connections share. */
  #mayShare = false;
  #triedToShareAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(path: string, health: StorageHealth) {
    this.#path = path;
    this.#health = health;
  }

  async init(): Promise<void> {
    requireSqliteFile(this.#path);
    this.#lock = lockUnlessFull(this.#path);
    try {
      this.#file = await untilNotBusy(giveUpAt(), () => this.#open());
    } catch (error) {
      this.#lock?.release();
      throw error;
    }
    if (isDiskFull(dirname(this.#path))) this.#health.failed("full", new Error("the disk of the database has no room"));
  }

  async acquireConnection(): Promise<SqliteConnection> {
    return new SqliteConnection(this);
  }

  async beginTransaction(connection: SqliteConnection, { accessMode }: TransactionSettings): Promise<void> {
    await connection.begin(accessMode === "read only");
  }

  async commitTransaction(connection: SqliteConnection): Promise<void> {
    connection.end("commit");
  }

  async rollbackTransaction(connection: SqliteConnection): Promise<void> {
    connection.end("rollback");
  }

  async releaseConnection(connection: SqliteConnection): Promise<void> {
    connection.release();
  }

  async destroy(): Promise<void> {
    this.#isClosed = true;
    this.#checkpoints.stop();
    this.#file?.close();
    this.#file = undefined;
    this.#lock?.release();
  }

  /** Returns the connection for a change, for exclusive use. @throws DatabaseBusy */
  async turnToWrite(giveUpAtMs: number): Promise<[DatabaseSync, release: () => void]> {
    const release = await this.#turn(this.#writing, giveUpAtMs);
    try {
      if (this.#mayShare || this.#file === undefined) await untilNotBusy(giveUpAtMs, () => this.#openAnew());
      return [this.#opened.writer, release];
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Returns the connection for a transaction that only reads, for exclusive use. @throws DatabaseBusy */
  async turnToReadSnapshot(giveUpAtMs: number): Promise<[DatabaseSync, release: () => void]> {
    if (this.#isAlone) return this.turnToWrite(giveUpAtMs);
    const release = await this.#turn(this.#readingSnapshots, giveUpAtMs);
    return [this.#opened.snapshotReader, release];
  }

  /** Runs a single statement that changes nothing. @throws DatabaseBusy */
  async read<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const giveUpAtMs = giveUpAt();
    if (!this.#isAlone) return untilNotBusy(giveUpAtMs, () => run<R>(this.#opened.reader, query));
    // With a single connection, a read must wait for its turn, so that it does not see uncommitted changes.
    const [database, release] = await this.turnToWrite(giveUpAtMs);
    try {
      return run<R>(database, query);
    } finally {
      release();
    }
  }

  /** @throws DatabaseUnwritable if the disk is the cause; otherwise what `attempt` throws */
  change<T>(attempt: () => T): T {
    try {
      return attempt();
    } catch (error) {
      const fault = writeFaultOf(error, dirname(this.#path));
      if (fault === undefined) throw error;
      this.#health.failed(fault, error);
      throw new DatabaseUnwritable(fault, error);
    }
  }

  /** Called after a change that used room on the disk. */
  hasStored(): void {
    this.#mayShare = this.#isAlone && performance.now() > this.#triedToShareAtMs + reopenAfterMs;
    this.#checkpoints.afterChange(this.#opened.writer);
    // A small change may still find room where the next one does not, so the free space is checked too.
    if (this.#health.state !== "ok" && !isDiskFull(dirname(this.#path))) this.#health.worked();
  }

  get #isAlone(): boolean {
    return this.#file?.alone ?? true;
  }

  get #opened(): OpenedFile {
    if (this.#file === undefined) throw new Error("the database is closed");
    return this.#file;
  }

  async #turn(turns: Turns, giveUpAtMs: number): Promise<() => void> {
    const release = await turns.take(giveUpAtMs);
    if (release === undefined) throw new DatabaseBusy(patienceMs);
    return release;
  }

  /** If this fails because another process was quicker, the next caller tries again. */
  #openAnew(): void {
    if (this.#isClosed) throw new Error("the database is closed");
    this.#file?.close();
    this.#file = undefined;
    this.#file = this.#open();
    this.#mayShare = false;
  }

  #open(): OpenedFile {
    try {
      return openTogether(this.#path);
    } catch (error) {
      // The next change finds out whether changes can be stored.
      if (writeFaultOf(error, dirname(this.#path)) === undefined) throw error;
      this.#triedToShareAtMs = performance.now();
    }
    return this.change(() => openAlone(this.#path));
  }
}

interface OpenTransaction {
  readonly database: DatabaseSync;
  readonly release: () => void;
  readonly readsOnly: boolean;
  hasChanged: boolean;
}

class SqliteConnection implements DatabaseConnection {
  readonly #driver: SqliteFileDriver;
  #transaction: OpenTransaction | undefined;

  constructor(driver: SqliteFileDriver) {
    this.#driver = driver;
  }

  async begin(readsOnly: boolean): Promise<void> {
    const giveUpAtMs = giveUpAt();
    const [database, release] = readsOnly
      ? await this.#driver.turnToReadSnapshot(giveUpAtMs)
      : await this.#driver.turnToWrite(giveUpAtMs);
    try {
      // The transaction begins as a writer: one that reads first could not become a writer if another process has written
      // meanwhile.
      const begin = readsOnly ? "begin" : "begin immediate";
      await untilNotBusy(giveUpAtMs, () => this.#driver.change(() => database.exec(begin)));
    } catch (error) {
      release();
      throw error;
    }
    this.#transaction = { database, release, readsOnly, hasChanged: false };
  }

  end(how: "commit" | "rollback"): void {
    const transaction = this.#transaction;
    if (transaction === undefined) return;
    const { database, hasChanged } = transaction;
    // If SQLite could not write (disk full), it has rolled back already. A second rollback would fail and hide the cause.
    if (how === "rollback" && !database.isTransaction) return;
    this.#driver.change(() => database.exec(how));
    if (how === "commit" && hasChanged) this.#driver.hasStored();
  }

  release(): void {
    const transaction = this.#transaction;
    this.#transaction = undefined;
    if (transaction === undefined) return;
    if (transaction.database.isTransaction) transaction.database.exec("rollback");
    transaction.release();
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#transaction !== undefined) {
      const { database, readsOnly } = this.#transaction;
      if (readsOnly) return run<R>(database, query);
      const result = this.#driver.change(() => run<R>(database, query));
      if (hasChangedRows(result)) this.#transaction.hasChanged = true;
      return result;
    }
    if (isRead(query)) return this.#driver.read<R>(query);
    const giveUpAtMs = giveUpAt();
    const [database, release] = await this.#driver.turnToWrite(giveUpAtMs);
    try {
      const result = await untilNotBusy(giveUpAtMs, () => this.#driver.change(() => run<R>(database, query)));
      if (hasChangedRows(result)) this.#driver.hasStored();
      return result;
    } finally {
      release();
    }
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield await this.executeQuery<R>(query);
  }
}

/** @returns undefined if there is no room for the lock file: the control plane can still read then */
function lockUnlessFull(path: string): FileLock | undefined {
  try {
    return lockSqliteFile(path);
  } catch (error) {
    const isFull = (error as NodeJS.ErrnoException).code === "ENOSPC" || writeFaultOf(error, dirname(path)) === "full";
    if (!isFull) throw error;
    process.emitWarning(`no room for ${path}-lock: nothing keeps a second control plane from this database`);
    return undefined;
  }
}

function isRead({ query, sql }: CompiledQuery): boolean {
  return SelectQueryNode.is(query) || /^\s*select\b/i.test(sql);
}

function hasChangedRows({ numAffectedRows = 0n }: QueryResult<unknown>): boolean {
  return numAffectedRows > 0n;
}

function giveUpAt(): number {
  return performance.now() + patienceMs;
}

/** @throws DatabaseBusy, or any error of `attempt` other than a lock of another process */
async function untilNotBusy<T>(giveUpAtMs: number, attempt: () => T): Promise<T> {
  for (let restMs = shortestRestMs; ; restMs = Math.min(restMs * 2, longestRestMs)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (performance.now() >= giveUpAtMs) throw new DatabaseBusy(patienceMs, error);
    }
    await sleep(restMs);
  }
}

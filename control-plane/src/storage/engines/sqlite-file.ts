// Opens the database file: usually with one connection that writes and two that only read, and on a full disk with a single
// connection, which needs no file that connections share.

import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

export interface OpenedFile {
  readonly writer: DatabaseSync;
  /** Reads single statements. */
  readonly reader: DatabaseSync;
  /** Runs transactions that only read. While one is open, it does not see newer changes. */
  readonly snapshotReader: DatabaseSync;
  /** Whether all three are one connection, which keeps other processes out. */
  readonly alone: boolean;
  close(): void;
}

// SQLite itself never waits for a lock, because that would block every other request. Callers try again.
const options = { timeout: 0 };

/**
 * Makes the file if it does not exist, with its mode: SQLite would make it readable for everybody. Files beside it get the
 * same mode.
 */
export function requireSqliteFile(path: string): void {
  try {
    closeSync(openSync(path, "ax", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** @throws errors of SQLite, for example when the disk has no room for the file that connections share */
export function openTogether(path: string): OpenedFile {
  const opened: DatabaseSync[] = [];
  const open = () => {
    const database = new DatabaseSync(path, options);
    opened.push(database);
    return database;
  };
  const close = () => {
    for (const database of opened) database.close();
  };
  try {
    const writer = open();
    prepareForWriting(writer);
    const [reader, snapshotReader] = [open(), open()];
    for (const database of opened) readSomething(database);
    return { writer, reader, snapshotReader, alone: false, close };
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * Opens a single connection without writing anything. It can read, and can write when there is room again.
 * @throws errors of SQLite
 */
export function openAlone(path: string): OpenedFile {
  const database = new DatabaseSync(path, options);
  try {
    // This comes before everything else: SQLite then keeps in memory what connections would share in a file.
    database.exec("pragma locking_mode = exclusive");
    prepareForWriting(database);
    readSomething(database);
  } catch (error) {
    database.close();
    throw error;
  }
  return { writer: database, reader: database, snapshotReader: database, alone: true, close: () => database.close() };
}

function prepareForWriting(database: DatabaseSync): void {
  // Every commit is synced, so an answered PUT survives a power cut, not only a killed process.
  database.exec("pragma journal_mode = wal; pragma synchronous = full");
}

/** Makes SQLite open its files, which it does at the first statement that needs them. */
function readSomething(database: DatabaseSync): void {
  database.prepare("select count(*) from sqlite_master").get();
}

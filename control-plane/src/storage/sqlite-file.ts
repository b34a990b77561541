// Opens the database file: as a rule with a connection that writes and two that read beside it, and on a full disk with
// a single one, which needs no file that the connections share.

import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

export interface OpenedFile {
  readonly writer: DatabaseSync;
  /** For single statements. */
  readonly reader: DatabaseSync;
  /** For transactions that read: while one is open, what it sees is not the newest. */
  readonly snapshotReader: DatabaseSync;
  /** Whether all three are one connection, which keeps other processes out. */
  readonly alone: boolean;
  close(): void;
}

// Nobody waits inside of SQLite, which would hold up every other request: who calls tries again.
const options = { timeout: 0 };

/** Makes it where it is not there. SQLite would let everybody read it; files beside it get the mode of this one. */
export function requireSqliteFile(path: string): void {
  try {
    closeSync(openSync(path, "ax", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** @throws what SQLite says, for one when the disk has no room for the file that connections share */
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

/** Reads and, when there is room again, writes; nothing has to be written for it to open. @throws what SQLite says */
export function openAlone(path: string): OpenedFile {
  const database = new DatabaseSync(path, options);
  try {
    // Before anything else is done: what connections share is then kept in memory.
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
  // Every commit is synced: an answered PUT survives a power cut, not only a killed process.
  database.exec("pragma journal_mode = wal; pragma synchronous = full");
}

/** SQLite opens its files at the first statement that needs them. */
function readSomething(database: DatabaseSync): void {
  database.prepare("select count(*) from sqlite_master").get();
}

// Allows only one control plane per SQLite file: two would each push snapshots that lack the other's changes. The lock is a
// lock of the operating system on an empty file beside the database. It is released when its process ends, for whatever
// reason, and needs no room on the disk.

import { closeSync, existsSync, openSync, readFileSync, realpathSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { isBusy } from "./sqlite-errors.ts";

export interface FileLock {
  release(): void;
}

/** Another control plane has locked the database file. */
export class DatabaseInUse extends Error {
  readonly path: string;
  /** The pid according to the system. Undefined outside Linux, and for a process of another container or machine. */
  readonly pid: number | undefined;

  constructor(path: string, pid: number | undefined) {
    super(`${path} is in use by ${pid === undefined ? "another control plane" : `the control plane with pid ${pid}`}`);
    this.name = "DatabaseInUse";
    this.path = path;
    this.pid = pid;
  }
}

/**
 * @param path of an existing database
 * @throws DatabaseInUse, or errors of the system when the lock file cannot be made
 */
export function lockSqliteFile(path: string): FileLock {
  const real = realpathSync(path);
  const file = `${real}-lock`;
  // An existing file is not opened here: closing it again would release a lock that this process has on it.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // With the journal in memory nothing is written, so this works on a full disk.
    database.exec("pragma journal_mode = memory; begin immediate");
  } catch (error) {
    database.close();
    throw isBusy(error) ? new DatabaseInUse(real, holderOf(file)) : error;
  }
  return { release: () => database.close() };
}

/**
 * The byte that SQLite locks for a transaction that will write; see https://sqlite.org/fileformat2.html#the_lock_byte_page
 */
const reservedByte = 0x40000001;

function holderOf(file: string): number | undefined {
  let locks: string;
  try {
    locks = readFileSync("/proc/locks", "utf8");
  } catch {
    return undefined;
  }
  const { ino } = statSync(file);
  for (const line of locks.split("\n")) {
    // A line looks like: 12: POSIX  ADVISORY  WRITE 4711 fd:01:3146 1073741825 1073741825
    const [, pid, inode, start] = /WRITE (\d+) \S+:(\d+) (\d+) \d+$/.exec(line) ?? [];
    if (Number(inode) === ino && Number(start) === reservedByte) return Number(pid);
  }
  return undefined;
}

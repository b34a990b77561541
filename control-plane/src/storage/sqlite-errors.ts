// What SQLite's error codes mean to those who asked: another process is writing, or nothing can be written any more.

import { statfsSync } from "node:fs";

/** Why the database takes no change. `full`: its disk is; `unwritable`: for any other reason. */
export type WriteFault = "full" | "unwritable";

/** A change that could not be stored. Nothing of it was. */
export class DatabaseUnwritable extends Error {
  readonly fault: WriteFault;

  constructor(fault: WriteFault, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = "DatabaseUnwritable";
    this.fault = fault;
  }
}

/** Another process held the database for longer than we wait. Nothing was done. */
export class DatabaseBusy extends Error {
  constructor(waitedMs: number, cause?: unknown) {
    super(`another process has locked the database, or earlier changes wait for it, for ${waitedMs} ms`, { cause });
    this.name = "DatabaseBusy";
  }
}

/** https://sqlite.org/rescode.html: the lowest byte says what kind of error it is. */
const kinds = { busy: 5, readOnly: 8, inputOutput: 10, full: 13, cannotOpen: 14 };

export function isBusy(error: unknown): boolean {
  return kindOf(error) === kinds.busy;
}

/** A disk with less than this is taken for full: SQLite cannot make the file that its connections share. */
const leastFreeBytes = 256 * 1024;

/**
 * @param directory of the database
 * @returns undefined for an error that has nothing to do with the disk
 */
export function writeFaultOf(error: unknown, directory: string): WriteFault | undefined {
  switch (kindOf(error)) {
    case kinds.full:
      return "full";
    // Of a write that finds no room SQLite says so; of a file that cannot grow, only that something went wrong.
    case kinds.inputOutput:
    case kinds.cannotOpen:
      return isDiskFull(directory) ? "full" : "unwritable";
    case kinds.readOnly:
      return "unwritable";
    default:
      return undefined;
  }
}

function kindOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return undefined;
  return error.errcode & 0xff;
}

/** @param directory on it */
export function isDiskFull(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize < leastFreeBytes;
  } catch {
    return false;
  }
}

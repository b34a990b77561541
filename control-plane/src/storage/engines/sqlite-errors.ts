// Interprets SQLite's error codes: another process is writing, or the database cannot be written to.

import { statfsSync } from "node:fs";
import type { DatabaseUnwritable } from "./database-errors.ts";

type WriteFault = DatabaseUnwritable["fault"];

/** From https://sqlite.org/rescode.html: the lowest byte of a code is the kind of error. */
const kinds = { busy: 5, readOnly: 8, inputOutput: 10, full: 13, cannotOpen: 14 };

export function isBusy(error: unknown): boolean {
  return kindOf(error) === kinds.busy;
}

/** A disk with less free space counts as full: SQLite cannot make the file that its connections share. */
const leastFreeBytes = 256 * 1024;

/** @param directory that contains the database @returns undefined if the error has nothing to do with the disk */
export function writeFaultOf(error: unknown, directory: string): WriteFault | undefined {
  switch (kindOf(error)) {
    case kinds.full:
      return "full";
    // SQLite reports a full disk only when a write finds no room. When a file cannot grow, it only reports an I/O or open
    // error.
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

/** @param directory a directory on the disk */
export function isDiskFull(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize < leastFreeBytes;
  } catch {
    return false;
  }
}

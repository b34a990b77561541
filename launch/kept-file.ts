// Writes files at a start: only if their content changes, and completely or not at all. So a full disk does not prevent a
// start with existing files, and never empties a file that is needed.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { SetupError } from "./step.mjs";

/** @throws SetupError that says which file could not be written, and why */
export function keepFile(file: string, text: string, mode = 0o644): void {
  if (textOf(file) === text) return;
  const draft = `${file}.${process.pid}`;
  try {
    // A draft that a killed start has left, or anything else, is not written to.
    rmSync(draft, { force: true });
    writeFileSync(draft, text, { mode, flag: "wx" });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new SetupError(`cannot write ${file}: ${whyNot(error)}`);
  }
}

/** @throws SetupError if it cannot be made; one that is there already is no error */
export function makeDirectory(directory: string, mode = 0o777): void {
  try {
    mkdirSync(directory, { recursive: true, mode });
  } catch (error) {
    throw new SetupError(`cannot make the directory ${directory}: ${whyNot(error)}`);
  }
}

/** Describes a file error in words that an operator knows. */
export function whyNot(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code) {
    case "ENOSPC":
      return "the disk is full";
    case "EDQUOT":
      return "the disk quota is used up";
    case "EROFS":
      return "the file system is read-only";
    case "EACCES":
    case "EPERM":
      return "this user may not";
    case "ELOOP":
      return "it is a symbolic link";
    case "ENOTDIR":
      return "it is not a directory, or is reached by a link";
    default:
      return code ?? message;
  }
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

// File functions as LuaJIT has them: the published types describe later versions of Lua.

import { createPrivateFile } from "./system-calls.ts";

interface File {
  read(format: "*a" | number): string | undefined;
  write(text: string): LuaMultiReturn<[written: unknown, failure: string | undefined]>;
  close(): LuaMultiReturn<[closed: unknown, failure: string | undefined]>;
}

const open = io.open as unknown as (
  this: void,
  path: string,
  mode: "rb" | "wb",
) => LuaMultiReturn<[file: File | undefined, failure: string | undefined]>;

/** Returns the whole text; if the file cannot be read, undefined and the reason. */
export function readFile(path: string): LuaMultiReturn<[text: string | undefined, failure: string | undefined]> {
  const [file, failure] = open(path, "rb");
  if (file === undefined) return $multi(undefined, failure ?? "it cannot be opened");
  // A directory, for example, can be opened but not read.
  const text = file.read("*a");
  file.close();
  return $multi(text, text === undefined ? "it cannot be read" : undefined);
}

/** Returns bytes that cannot be guessed; undefined if the system provides none. */
export function randomBytes(count: number): string | undefined {
  const [file] = open("/dev/urandom", "rb");
  if (file === undefined) return undefined;
  const bytes = file.read(count);
  file.close();
  return bytes;
}

/**
 * Replaces a file atomically: readers see the old text or the new one. Only the owner can read it: the temporary file has no
 * rights for others before anything is written to it.
 *
 * @param nextPiece returns the text piece by piece; undefined after the last. It may yield; another worker may write the same file meanwhile
 * @param isWhole asked at the end: false leaves the file as it was
 * @param keepAs the path to move the existing file to, if it is to be kept
 * @returns the error message
 */
export function replaceFile(
  path: string,
  nextPiece: (this: void) => string | undefined,
  isWhole: (this: void) => boolean,
  keepAs?: string,
): string | undefined {
  const temporary = `${path}.new.${ngx.worker.id()}`;
  // Removes the file of a worker that was killed while it wrote.
  os.remove(temporary);
  const createFailure = createPrivateFile(temporary);
  if (createFailure !== undefined) return `${temporary}: ${createFailure}`;
  const [file, openFailure] = open(temporary, "wb");
  if (file === undefined) return openFailure;
  let failure: string | undefined;
  while (failure === undefined) {
    const piece = nextPiece();
    if (piece === undefined) break;
    const [written, writeFailure] = file.write(piece);
    if (!written) failure = writeFailure ?? "write failed";
  }
  const [closed, closeFailure] = file.close();
  if (failure !== undefined || !closed || !isWhole()) {
    os.remove(temporary);
    return closed ? failure : (failure ?? closeFailure ?? "write failed");
  }
  // If the machine stops between the two renames, the former file is still there.
  if (keepAs !== undefined) os.rename(path, keepAs);
  const [renamed, renameFailure] = os.rename(temporary, path);
  return renamed ? undefined : (renameFailure ?? "rename failed");
}

/** @returns the error message */
export function moveFile(from: string, to: string): string | undefined {
  const [moved, failure] = os.rename(from, to);
  return moved ? undefined : (failure ?? "rename failed");
}

export function removeFile(path: string): void {
  os.remove(path);
}

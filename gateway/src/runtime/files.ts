// Files, as LuaJIT has them: the published types speak of later Luas.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
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

/** The whole text, or undefined where it cannot be read, and why. */
export function readFile(path: string): LuaMultiReturn<[text: string | undefined, failure: string | undefined]> {
  const [file, failure] = open(path, "rb");
  if (file === undefined) return $multi(undefined, failure ?? "it cannot be opened");
  // A directory, for one, opens but cannot be read.
  const text = file.read("*a");
  file.close();
  return $multi(text, text === undefined ? "it cannot be read" : undefined);
}

/** Bytes that nobody can guess; undefined where the system has none for us. */
export function randomBytes(count: number): string | undefined {
  const [file] = open("/dev/urandom", "rb");
  if (file === undefined) return undefined;
  const bytes = file.read(count);
  file.close();
  return bytes;
}

/**
 * Replaces a file in one step: whoever reads it sees the old text or the new one. None but the owner can: the temporary file
 * is closed to others before there is anything in it.
 *
 * @param pause called between two pieces; another worker may be writing the same file then
 * @param keepAs where the file that is there goes to, if anywhere
 * @returns what failed
 */
export function replaceFile(
  path: string,
  pieces: readonly string[],
  pause: Pause,
  keepAs?: string,
): string | undefined {
  const temporary = `${path}.new.${ngx.worker.id()}`;
  // A worker that was killed while it wrote has left one.
  os.remove(temporary);
  const createFailure = createPrivateFile(temporary);
  if (createFailure !== undefined) return `${temporary}: ${createFailure}`;
  const [file, openFailure] = open(temporary, "wb");
  if (file === undefined) return openFailure;
  let failure: string | undefined;
  for (const piece of pieces) {
    const [written, writeFailure] = file.write(piece);
    if (!written) failure = writeFailure ?? "write failed";
    if (failure !== undefined) break;
    pause();
  }
  const [closed, closeFailure] = file.close();
  if (failure !== undefined || !closed) return failure ?? closeFailure ?? "write failed";
  // Should the machine stop between the two, there is the former one.
  if (keepAs !== undefined) os.rename(path, keepAs);
  const [renamed, renameFailure] = os.rename(temporary, path);
  return renamed ? undefined : (renameFailure ?? "rename failed");
}

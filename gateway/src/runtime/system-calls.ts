// What Lua's own library lacks of the system: the mode that a file is made with, what is on disk for good, reading what may be no
// file, who may write where, and who we are.

import { ffi as packed } from "./packed-memory.ts";

/** 64 bits or a pointer: nothing that Lua can count with. */
type CValue = object;

const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  cast(this: void, type: "int", value: number): CValue;
  cast(this: void, type: "const char **", value: CValue): LuaTable<number, CValue>;
  errno(this: void): number;
  string(this: void, text: CValue): string;
  readonly os: string;
  readonly arch: string;
  readonly C: {
    sluice_open(this: void, path: string, flags: number, mode: CValue): number;
    sluice_close(this: void, file: number): number;
    sluice_read(this: void, file: number, to: LuaTable<number, number>, bytes: number): CValue;
    sluice_lseek(this: void, file: number, offset: number, from: number): CValue;
    sluice_fsync(this: void, file: number): number;
    sluice_sync_file_range(this: void, file: number, from: number, bytes: number, flags: number): number;
    sluice_chmod(this: void, path: string, mode: number): number;
    sluice_access(this: void, path: string, what: number): number;
    sluice_geteuid(this: void): number;
    /** A null pointer, which is equal to nil, where nobody has the id. */
    sluice_getpwuid(this: void, uid: number): CValue | undefined;
    sluice_strerror(this: void, code: number): CValue;
  };
};

// Names of ours for the system's functions: other Lua in this nginx may have declared these in its own words.
ffi.cdef(`
  int sluice_open(const char *path, int flags, ...) asm("open");
  int sluice_close(int file) asm("close");
  intptr_t sluice_read(int file, void *to, size_t bytes) asm("read");
  intptr_t sluice_lseek(int file, intptr_t offset, int from) asm("lseek");
  int sluice_fsync(int file) asm("fsync");
  int sluice_sync_file_range(int file, int64_t from, int64_t bytes, unsigned int flags) asm("sync_file_range");
  int sluice_chmod(const char *path, unsigned int mode) asm("chmod");
  int sluice_access(const char *path, int what) asm("access");
  unsigned int sluice_geteuid(void) asm("geteuid");
  void *sluice_getpwuid(unsigned int uid) asm("getpwuid");
  const char *sluice_strerror(int code) asm("strerror");
`);

/** O_WRONLY, O_CREAT and O_EXCL, whose numbers are not the same everywhere. */
const createAnew = ffi.os === "Linux" ? 0x1 + 0x40 + 0x80 : 0x1 + 0x200 + 0x800;
/** O_RDONLY, O_NONBLOCK and O_NOFOLLOW: a pipe is not waited for, and no name is followed elsewhere. */
const noFollow = ffi.os !== "Linux" ? 0x100 : ffi.arch === "arm" || ffi.arch === "arm64" ? 0x8000 : 0x20000;
const readAtOnce = noFollow + (ffi.os === "Linux" ? 0x800 : 0x4);
const readOnly = 0;
/** SEEK_END. */
const fromEnd = 2;
const readBytes = 65536;
/** Read and written by its owner alone: 0600. */
const ownersAlone = 0x180;
/** W_OK and X_OK. */
const writeAndPass = 0x2 + 0x1;
const noSuchFile = 2;

/**
 * Makes an empty file that none but its owner ever can open, whatever the umask: nginx in the background has none.
 *
 * @returns what failed; also where the path exists already
 */
export function createPrivateFile(path: string): string | undefined {
  const file = ffi.C.sluice_open(path, createAnew, ffi.cast("int", ownersAlone));
  if (file < 0) return lastFailure();
  ffi.C.sluice_close(file);
  return undefined;
}

/**
 * The text of a file of our own, which may have been replaced by anything: waits for nobody, and reads no more than `mostBytes`.
 *
 * @returns what failed, and nothing where there is nothing at the path
 */
export function readOwnFile(
  path: string,
  mostBytes: number,
): LuaMultiReturn<[text: string | undefined, failure: string | undefined]> {
  const file = ffi.C.sluice_open(path, readAtOnce, ffi.cast("int", 0));
  if (file < 0) {
    const isMissing = ffi.errno() === noSuchFile;
    return $multi(undefined, isMissing ? undefined : lastFailure());
  }
  const [text, failure] = readOpen(file, mostBytes);
  ffi.C.sluice_close(file);
  return $multi(text, failure);
}

function readOpen(
  file: number,
  mostBytes: number,
): LuaMultiReturn<[text: string | undefined, failure: string | undefined]> {
  // Of a pipe or a terminal there is no end to go to.
  if ((tonumber(ffi.C.sluice_lseek(file, 0, fromEnd)) ?? -1) < 0) return $multi(undefined, "it is no file");
  ffi.C.sluice_lseek(file, 0, 0);
  const room = packed.new("uint8_t[?]", readBytes);
  const parts: string[] = [];
  let bytes = 0;
  for (;;) {
    const got = tonumber(ffi.C.sluice_read(file, room, readBytes)) ?? -1;
    if (got < 0) return $multi(undefined, lastFailure());
    if (got === 0) return $multi(parts.join(""), undefined);
    bytes += got;
    if (bytes > mostBytes) return $multi(undefined, `it has more than ${mostBytes} bytes`);
    parts.push(packed.string(room, got));
  }
}

/** SYNC_FILE_RANGE_WRITE. */
const beginWriting = 2;

/** Has the system begin to write a file that it would hold back for half a minute: `flushToDisk` is quicker then. Where it can. */
export function beginFlush(path: string): void {
  const file = ffi.C.sluice_open(path, readOnly, ffi.cast("int", 0));
  if (file < 0) return;
  // Linux alone has it, by this name not on every processor.
  pcall(() => ffi.C.sluice_sync_file_range(file, 0, 0, beginWriting));
  ffi.C.sluice_close(file);
}

/**
 * Has the system write what it holds back of a file or directory. Nothing else runs in this process until it has.
 *
 * @returns what failed
 */
export function flushToDisk(path: string): string | undefined {
  const file = ffi.C.sluice_open(path, readOnly, ffi.cast("int", 0));
  if (file < 0) return lastFailure();
  const failure = ffi.C.sluice_fsync(file) === 0 ? undefined : lastFailure();
  ffi.C.sluice_close(file);
  return failure;
}

/** Takes the rights to a file from all but its owner. @returns what failed; a file that is not there is closed */
export function closeToOthers(path: string): string | undefined {
  if (ffi.C.sluice_chmod(path, ownersAlone) === 0 || ffi.errno() === noSuchFile) return undefined;
  return lastFailure();
}

/** @returns why this process can make no files in the directory; undefined: it can */
export function whyNotWritable(directory: string): string | undefined {
  return ffi.C.sluice_access(directory, writeAndPass) === 0 ? undefined : lastFailure();
}

/** Who this process runs as: a name, or where nobody has the id, the id. */
export function ownAccount(): string {
  const uid = ffi.C.sluice_geteuid();
  const account = ffi.C.sluice_getpwuid(uid);
  // A null pointer is equal to nil, but true. A struct passwd begins with the name.
  return account === undefined ? string.format("%d", uid) : ffi.string(ffi.cast("const char **", account).get(0));
}

function lastFailure(): string {
  return ffi.string(ffi.C.sluice_strerror(ffi.errno()));
}

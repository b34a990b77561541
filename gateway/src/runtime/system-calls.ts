// System calls that Lua's own library lacks: creating a file with a mode, flushing to disk, reading a path that may not be a
// regular file, checking who may write where, looking up the account of this process, and listing its environment.

import { ffi as packed } from "./packed-memory.ts";

/** A 64-bit value or a pointer: Lua cannot do arithmetic with it. */
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
    sluice_write(this: void, file: number, text: string, bytes: number): CValue;
    sluice_fsync(this: void, file: number): number;
    sluice_ftruncate(this: void, file: number, bytes: number): number;
    sluice_sync_file_range(this: void, file: number, from: number, bytes: number, flags: number): number;
    sluice_fchmod(this: void, file: number, mode: number): number;
    sluice_access(this: void, path: string, what: number): number;
    sluice_geteuid(this: void): number;
    /** Returns a null pointer, which is equal to nil, if no account has the id. */
    sluice_getpwuid(this: void, uid: number): CValue | undefined;
    sluice_strerror(this: void, code: number): CValue;
    /** Counted from 0. A null pointer, which is equal to nil, ends it. */
    readonly sluice_environ: LuaTable<number, CValue | undefined>;
  };
};

// The system's functions get names of their own here: other Lua code in this nginx may have declared them with another signature.
ffi.cdef(`
  int sluice_open(const char *path, int flags, ...) asm("open");
  int sluice_close(int file) asm("close");
  intptr_t sluice_read(int file, void *to, size_t bytes) asm("read");
  intptr_t sluice_lseek(int file, intptr_t offset, int from) asm("lseek");
  intptr_t sluice_write(int file, const char *text, size_t bytes) asm("write");
  int sluice_fsync(int file) asm("fsync");
  int sluice_ftruncate(int file, intptr_t bytes) asm("ftruncate");
  int sluice_sync_file_range(int file, int64_t from, int64_t bytes, unsigned int flags) asm("sync_file_range");
  int sluice_fchmod(int file, unsigned int mode) asm("fchmod");
  int sluice_access(const char *path, int what) asm("access");
  unsigned int sluice_geteuid(void) asm("geteuid");
  void *sluice_getpwuid(unsigned int uid) asm("getpwuid");
  const char *sluice_strerror(int code) asm("strerror");
  extern char **sluice_environ asm("environ");
`);

/** O_WRONLY, O_CREAT and O_EXCL. Their values differ between systems. */
const createAnew = ffi.os === "Linux" ? 0x1 + 0x40 + 0x80 : 0x1 + 0x200 + 0x800;
/** O_RDONLY, O_NONBLOCK and O_NOFOLLOW: the open does not wait for a pipe, and does not follow a symbolic link. */
const noFollow = ffi.os !== "Linux" ? 0x100 : ffi.arch === "arm" || ffi.arch === "arm64" ? 0x8000 : 0x20000;
const readAtOnce = noFollow + (ffi.os === "Linux" ? 0x800 : 0x4);
/** The same with O_WRONLY. */
const writeAtOnce = readAtOnce + 0x1;
/** SEEK_END. */
const fromEnd = 2;
const readBytes = 65536;
/** Only the owner may read and write: 0600. */
const ownersAlone = 0x180;
/** W_OK and X_OK. */
const writeAndPass = 0x2 + 0x1;
const noSuchFile = 2;

/**
 * Creates an empty file that only its owner can ever open, whatever the umask: an nginx that runs in the background has none.
 *
 * @returns the error message; a path that exists already is an error too
 */
export function createPrivateFile(path: string): string | undefined {
  const file = ffi.C.sluice_open(path, createAnew, ffi.cast("int", ownersAlone));
  if (file < 0) return lastFailure();
  ffi.C.sluice_close(file);
  return undefined;
}

/**
 * Reads a file of Sluice's own, which may have been replaced by anything. Does not block, and reads no more than `mostBytes`.
 *
 * @returns the text or the error message; neither if nothing exists at the path
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
  // A pipe or a terminal has no end to seek to.
  if ((tonumber(ffi.C.sluice_lseek(file, 0, fromEnd)) ?? -1) < 0) return $multi(undefined, "it is not a regular file");
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

/** A file of Sluice's own, of which only a part is in memory at a time. */
export interface OpenFile {
  /** Returns so many bytes, or fewer at the end. */
  read(this: void, bytes: number): string;
  close(this: void): void;
}

/** Opens a file of Sluice's own to read it part by part. Does not block. @returns as `readOwnFile` does */
export function openOwnFile(path: string): LuaMultiReturn<[file: OpenFile | undefined, failure: string | undefined]> {
  const file = ffi.C.sluice_open(path, readAtOnce, ffi.cast("int", 0));
  if (file < 0) {
    const isMissing = ffi.errno() === noSuchFile;
    return $multi(undefined, isMissing ? undefined : lastFailure());
  }
  if ((tonumber(ffi.C.sluice_lseek(file, 0, fromEnd)) ?? -1) < 0) {
    ffi.C.sluice_close(file);
    return $multi(undefined, "it is not a regular file");
  }
  ffi.C.sluice_lseek(file, 0, 0);
  const room = packed.new("uint8_t[?]", readBytes);
  const read = (bytes: number) => {
    const parts: string[] = [];
    let left = bytes;
    while (left > 0) {
      const got = tonumber(ffi.C.sluice_read(file, room, math.min(left, readBytes))) ?? -1;
      if (got <= 0) break;
      parts.push(packed.string(room, got));
      left -= got;
    }
    return parts.join("");
  };
  return $multi({ read, close: () => void ffi.C.sluice_close(file) }, undefined);
}

/**
 * Writes a text at the end of a file of Sluice's own, completely or not at all. A file that is gone is not made again.
 *
 * @param bytes how long the file must be before
 * @returns the error message
 */
export function appendToFile(path: string, text: string, bytes: number): string | undefined {
  return withOwnFile(path, writeAtOnce, (file) => {
    const length = tonumber(ffi.C.sluice_lseek(file, 0, fromEnd)) ?? -1;
    if (length !== bytes) {
      return `${path} has ${string.format("%d", length)} bytes, and not ${string.format("%d", bytes)} as it was left`;
    }
    let rest = text;
    while (rest !== "") {
      const written = tonumber(ffi.C.sluice_write(file, rest, rest.length)) ?? -1;
      if (written <= 0) {
        const failure = lastFailure();
        ffi.C.sluice_ftruncate(file, bytes);
        return failure;
      }
      rest = string.sub(rest, written + 1);
    }
    return undefined;
  });
}

/** Cuts off the end of a file of Sluice's own. @returns the error message; a file that is shorter is an error too */
export function truncateFile(path: string, bytes: number): string | undefined {
  return withOwnFile(path, writeAtOnce, (file) => {
    if ((tonumber(ffi.C.sluice_lseek(file, 0, fromEnd)) ?? -1) < bytes) return `it has less than ${bytes} bytes`;
    return ffi.C.sluice_ftruncate(file, bytes) === 0 ? undefined : lastFailure();
  });
}

/** Opens a file of Sluice's own, which may have been replaced by anything, and closes it afterwards. @returns the error message */
function withOwnFile(
  path: string,
  flags: number,
  use: (this: void, file: number) => string | undefined,
): string | undefined {
  const file = ffi.C.sluice_open(path, flags, ffi.cast("int", 0));
  if (file < 0) return lastFailure();
  const failure = use(file);
  ffi.C.sluice_close(file);
  return failure;
}

/** SYNC_FILE_RANGE_WRITE. */
const beginWriting = 2;

/**
 * Makes the system start to write a file that it would hold back for half a minute, so that `flushToDisk` is quicker. Does
 * nothing if the system cannot do this.
 */
export function beginFlush(path: string): void {
  withOwnFile(path, readAtOnce, (file) => {
    // Only Linux has this call, and not under this name on every processor.
    pcall(() => ffi.C.sluice_sync_file_range(file, 0, 0, beginWriting));
    return undefined;
  });
}

/**
 * Makes the system write what it holds back of a file or directory. Blocks this process until that is done.
 *
 * @returns the error message
 */
export function flushToDisk(path: string): string | undefined {
  return withOwnFile(path, readAtOnce, (file) => (ffi.C.sluice_fsync(file) === 0 ? undefined : lastFailure()));
}

/** Removes the rights to a file from everybody but its owner. @returns the error message; a missing file is no error */
export function closeToOthers(path: string): string | undefined {
  const failure = withOwnFile(path, readAtOnce, (file) =>
    ffi.C.sluice_fchmod(file, ownersAlone) === 0 ? undefined : lastFailure(),
  );
  return ffi.errno() === noSuchFile ? undefined : failure;
}

/** @returns why this process cannot create files in the directory; undefined: it can */
export function whyNotWritable(directory: string): string | undefined {
  return ffi.C.sluice_access(directory, writeAndPass) === 0 ? undefined : lastFailure();
}

/** The account that this process runs as: its name, or the id if the id has no name. */
export function ownAccount(): string {
  const uid = ffi.C.sluice_geteuid();
  const account = ffi.C.sluice_getpwuid(uid);
  // A null pointer is equal to nil, but true as a condition. A struct passwd begins with the name.
  return account === undefined ? string.format("%d", uid) : ffi.string(ffi.cast("const char **", account).get(0));
}

/**
 * Returns the names of the variables that this process has and that are not empty, but for names with other characters than letters, digits and `_`. nginx's master has all that it was started with. Its
 * workers, and the master beside nginx's module for Perl, have those alone that nginx.conf names.
 */
export function environmentNames(): string[] {
  const names: string[] = [];
  const { sluice_environ: environment } = ffi.C;
  for (let i = 0; ; i++) {
    const variable = environment.get(i);
    if (variable === undefined) return names;
    const [name] = string.match(ffi.string(variable), "^([%w_]+)=.");
    if (name !== undefined) names.push(name);
  }
}

function lastFailure(): string {
  return ffi.string(ffi.C.sluice_strerror(ffi.errno()));
}

// What Lua's own library lacks of the system: the mode that a file is made with, who may write where, and who we are.

/** 64 bits or a pointer: nothing that Lua can count with. */
type CValue = object;

interface Account {
  readonly name: CValue;
}

const ffi = require("ffi") as {
  cdef(this: void, declarations: string): void;
  cast(this: void, type: "int", value: number): CValue;
  errno(this: void): number;
  string(this: void, text: CValue): string;
  readonly os: string;
  readonly C: {
    sluice_open(this: void, path: string, flags: number, mode: CValue): number;
    sluice_close(this: void, file: number): number;
    sluice_chmod(this: void, path: string, mode: number): number;
    sluice_access(this: void, path: string, what: number): number;
    sluice_geteuid(this: void): number;
    /** A null pointer, which is equal to nil, where nobody has the id. */
    sluice_getpwuid(this: void, uid: number): Account | undefined;
    sluice_strerror(this: void, code: number): CValue;
  };
};

// Names of ours for the system's functions: other Lua in this nginx may have declared these in its own words.
ffi.cdef(`
  struct sluice_account { const char *name; };
  int sluice_open(const char *path, int flags, ...) asm("open");
  int sluice_close(int file) asm("close");
  int sluice_chmod(const char *path, unsigned int mode) asm("chmod");
  int sluice_access(const char *path, int what) asm("access");
  unsigned int sluice_geteuid(void) asm("geteuid");
  struct sluice_account *sluice_getpwuid(unsigned int uid) asm("getpwuid");
  const char *sluice_strerror(int code) asm("strerror");
`);

/** O_WRONLY, O_CREAT and O_EXCL, whose numbers are not the same everywhere. */
const createAnew = ffi.os === "Linux" ? 0x1 + 0x40 + 0x80 : 0x1 + 0x200 + 0x800;
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
  // A null pointer is equal to nil, but true.
  return account === undefined ? string.format("%d", uid) : ffi.string(account.name);
}

function lastFailure(): string {
  return ffi.string(ffi.C.sluice_strerror(ffi.errno()));
}

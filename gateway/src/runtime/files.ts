// Files, as LuaJIT has them: the published types speak of later Luas.

interface File {
  read(format: "*a"): string | undefined;
  write(text: string): LuaMultiReturn<[written: unknown, failure: string | undefined]>;
  close(): LuaMultiReturn<[closed: unknown, failure: string | undefined]>;
}

const open = io.open as unknown as (
  this: void,
  path: string,
  mode: "rb" | "wb",
) => LuaMultiReturn<[file: File | undefined, failure: string | undefined]>;

/** The whole text, or undefined where it cannot be read. */
export function readFile(path: string): string | undefined {
  const [file] = open(path, "rb");
  if (file === undefined) return undefined;
  const text = file.read("*a");
  file.close();
  return text;
}

/** Replaces a file in one step: whoever reads it sees the old text or the new one. @returns what failed */
export function replaceFile(path: string, text: string): string | undefined {
  const temporary = `${path}.new`;
  const [file, openFailure] = open(temporary, "wb");
  if (file === undefined) return openFailure;
  const [written, writeFailure] = file.write(text);
  const [closed, closeFailure] = file.close();
  if (!written || !closed) return writeFailure ?? closeFailure ?? "write failed";
  const [renamed, renameFailure] = os.rename(temporary, path);
  return renamed ? undefined : (renameFailure ?? "rename failed");
}

// The last good snapshot on disk: a gateway starts with it and limits while the control plane is down.

const fileName = "snapshot.json";

/** As LuaJIT has it: the published types speak of later Luas. */
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

/** The stored text, or undefined where there is none. It may be damaged: whoever reads it validates it. */
export function readStored(directory: string): string | undefined {
  const [file] = open(directory + fileName, "rb");
  if (file === undefined) return undefined;
  const text = file.read("*a");
  file.close();
  return text;
}

/** Replaces the stored text in one step: a crash leaves the old one or the new one. @returns what failed */
export function store(directory: string, text: string): string | undefined {
  const temporary = `${directory}${fileName}.new`;
  const [file, openFailure] = open(temporary, "wb");
  if (file === undefined) return openFailure;
  const [written, writeFailure] = file.write(text);
  const [closed, closeFailure] = file.close();
  if (!written || !closed) return writeFailure ?? closeFailure ?? "write failed";
  const [renamed, renameFailure] = os.rename(temporary, directory + fileName);
  return renamed ? undefined : (renameFailure ?? "rename failed");
}

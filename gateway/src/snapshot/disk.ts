// The last good snapshot on disk: a gateway starts with it and limits while the control plane is down.

import { readFile, replaceFile } from "../runtime/files.ts";

const fileName = "snapshot.json";

/** The stored text, or undefined where there is none. It may be damaged: whoever reads it validates it. */
export function readStored(directory: string): string | undefined {
  return readFile(directory + fileName);
}

/** @returns what failed */
export function store(directory: string, text: string): string | undefined {
  return replaceFile(directory + fileName, text);
}

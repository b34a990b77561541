// The last good snapshot on disk: a gateway starts with it and limits while the control plane is down.

import type { Pause } from "../../../limiter/src/policy/pause.ts";
import { readFile, replaceFile } from "../runtime/files.ts";
import { addPart, endText, noText } from "./text.ts";

export const snapshotFile = "snapshot.json";

/** The stored text in pieces, or undefined where there is none. It may be damaged: whoever reads it validates it. */
export function readStored(directory: string): readonly string[] | undefined {
  const [whole] = readFile(directory + snapshotFile);
  if (whole === undefined) return undefined;
  const text = noText();
  addPart(text, whole);
  return endText(text);
}

/** @returns what failed */
export function store(directory: string, pieces: readonly string[], pause: Pause): string | undefined {
  return replaceFile(directory + snapshotFile, pieces, pause);
}

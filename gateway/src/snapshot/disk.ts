// Keeps the last valid snapshot on disk, so that a gateway can start with it and limit while the control plane is down. The
// snapshot before is kept beside it, in case the disk loses the newer one or a part of it. The log says which one serves, and
// why.
//
// A line with a checksum follows a snapshot's text. A file without one is from an earlier version, and counts as whole if it can
// be read.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/load-snapshot.ts";
import { runUntilDone } from "../runtime/background.ts";
import { replaceFile } from "../runtime/files.ts";
import { sha256HexOf } from "../runtime/sha256.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { beginFlush, flushToDisk, readOwnFile } from "../runtime/system-calls.ts";
import { currentSnapshot } from "./current.ts";
import { addPart, endText, noText, readPieces } from "./text.ts";

export const snapshotFile = "snapshot.json";
export const formerSnapshotFile = "snapshot-former.json";

/** More than the push socket accepts. */
const mostBytes = 70_000_000;
const checksumBeginning = "\nsha256:";
const checksumPattern = "^\nsha256:(%x+)\n$";
/** Length of the checksum line, including the line end before it. */
const checksumBytes = checksumBeginning.length + 64 + 1;
/**
 * By then the system has written the data, and of several changes in a row only the last is flushed. The remaining flush blocks
 * the worker and the requests that it serves, but nobody else, for about 8 ms. In one case of ten it took 14 ms, and 64 ms at
 * most, while other processes wrote too.
 */
const flushAfterSeconds = 1;

/** A snapshot read from disk. */
interface Stored {
  readonly pieces: readonly string[];
  readonly snapshot: CompiledSnapshot;
}

/** The newest snapshot is certainly on disk and whole. Only then may it replace the former one. */
let isSafe = false;
/** How many snapshots this worker has stored. */
let stores = 0;
let flushing = false;

/** Called at the start. @returns undefined if no snapshot is on disk or none is whole */
export function readNewestWhole(directory: string): Stored | undefined {
  const [newest, whyNot] = read(directory + snapshotFile);
  if (newest !== undefined) {
    isSafe = true;
    const { revision } = newest.snapshot;
    ngx.log(
      ngx.NOTICE,
      "sluice: starts with revision ",
      string.format("%d", revision),
      " from ",
      directory,
      snapshotFile,
    );
    return newest;
  }
  const [former, whyNotFormer] = read(directory + formerSnapshotFile);
  if (whyNot === undefined && former === undefined && whyNotFormer === undefined) return undefined;
  const newestReported = `${directory}${snapshotFile} cannot be used: ${whyNot ?? "it does not exist"}`;
  if (former === undefined) {
    const formerReported = `${formerSnapshotFile}: ${whyNotFormer ?? "it does not exist"}`;
    ngx.log(
      ngx.ERR,
      "sluice: ",
      newestReported,
      "; ",
      formerReported,
      ". There are no policies until the control plane sends them",
    );
    return undefined;
  }
  const { revision } = former.snapshot;
  const serves = `${formerSnapshotFile}, the previous snapshot, serves with revision ${string.format("%d", revision)}`;
  ngx.log(ngx.ERR, "sluice: ", newestReported, ". ", serves, " until the control plane sends a later one");
  return former;
}

/** @returns the snapshot; or undefined and why it cannot be used; neither if there is no such file */
function read(path: string): LuaMultiReturn<[stored: Stored | undefined, whyNot: string | undefined]> {
  const [whole, failure] = readOwnFile(path, mostBytes);
  if (whole === undefined) return $multi(undefined, failure);
  const [checksum] = string.match(string.sub(whole, -checksumBytes), checksumPattern);
  const incoming = noText();
  addPart(incoming, checksum === undefined ? whole : string.sub(whole, 1, -checksumBytes - 1));
  const pieces = endText(incoming);
  if (checksum !== undefined && sha256HexOf(pieces, noPause) !== checksum) {
    return $multi(undefined, "it is damaged: its checksum does not match");
  }
  const { snapshot, problems } = readPieces((place) => pieces[place], currentSnapshot(), noPause);
  if (snapshot !== undefined) return $multi({ pieces, snapshot }, undefined);
  const problem = problems[0];
  return $multi(undefined, `it is damaged: ${problem?.path}: expected ${problem?.expected}, got ${problem?.got}`);
}

/** @returns the error message */
export function store(directory: string, pieces: readonly string[], pause: Pause): string | undefined {
  const checksum = `${checksumBeginning}${sha256HexOf(pieces, pause)}\n`;
  const path = directory + snapshotFile;
  const keepAs = isSafe ? directory + formerSnapshotFile : undefined;
  isSafe = false;
  stores += 1;
  const failure = replaceFile(path, [...pieces, checksum], pause, keepAs);
  if (failure === undefined) flushSoon(directory);
  return failure;
}

/** The flush runs later, and not while a change waits to be acknowledged: the disk may take longer than everything else. */
function flushSoon(directory: string): void {
  if (flushing) return;
  const notBegun = runUntilDone(() => {
    const before = stores;
    beginFlush(directory + snapshotFile);
    ngx.sleep(flushAfterSeconds);
    // Another snapshot was stored meanwhile: the wait starts again.
    if (stores !== before && !ngx.worker.exiting()) return true;
    flushing = false;
    const failure = flushToDisk(directory + snapshotFile) ?? flushToDisk(directory);
    if (failure === undefined) isSafe = true;
    else warnSparingly("the snapshot was not flushed to disk and may be lost if the machine stops", failure);
    return false;
  });
  flushing = notBegun === undefined;
}

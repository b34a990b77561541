// The last good snapshot on disk: a gateway starts with it and limits while the control plane is down. The one before is kept
// beside it, for a disk that lost the newer one or a part of it. Which one serves, and why, is in the log.
//
// Behind a snapshot's text stands a line with its checksum. A file without one is an earlier version's, and is whole if it can be
// read.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import type { CompiledSnapshot } from "../../../limiter/src/protocol/read-snapshot.ts";
import { runUntilDone } from "../runtime/background.ts";
import { replaceFile } from "../runtime/files.ts";
import { sha256HexOf } from "../runtime/sha256.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { beginFlush, flushToDisk, readOwnFile } from "../runtime/system-calls.ts";
import { currentSnapshot } from "./current.ts";
import { addPart, endText, noText, readPieces } from "./text.ts";

export const snapshotFile = "snapshot.json";
export const formerSnapshotFile = "snapshot-former.json";

/** More than the push socket takes. */
const mostBytes = 70_000_000;
const checksumBeginning = "\nsha256:";
const checksumPattern = "^\nsha256:(%x+)\n$";
/** Of the line, with the line's end before it. */
const checksumBytes = checksumBeginning.length + 64 + 1;
/**
 * The data have been written by then, and of changes that come one after the other the last is waited for. What is left keeps the worker,
 * and nobody but those whom it serves, for about 8 ms: seen were 14 ms in one case of ten, and 64 ms at most, where others wrote too.
 */
const flushAfterSeconds = 1;

/** A snapshot of the disk's. */
interface Stored {
  readonly pieces: readonly string[];
  readonly snapshot: CompiledSnapshot;
}

/** Whether the newest is certainly on disk, and whole: only then it may take the former one's place. */
let isSafe = false;
/** What has been stored by this worker. */
let stores = 0;
let flushing = false;

/** For the start. @returns undefined: there is none, or none is whole */
export function readNewestWhole(directory: string): Stored | undefined {
  const [newest, whyNot] = read(directory + snapshotFile);
  if (newest !== undefined) {
    isSafe = true;
    const { revision } = newest.snapshot;
    ngx.log(
      ngx.NOTICE,
      "sluice: begins with revision ",
      string.format("%d", revision),
      " of ",
      directory,
      snapshotFile,
    );
    return newest;
  }
  const [former, whyNotFormer] = read(directory + formerSnapshotFile);
  if (whyNot === undefined && former === undefined && whyNotFormer === undefined) return undefined;
  const newestReported = `${directory}${snapshotFile} cannot be used: ${whyNot ?? "it is not there"}`;
  if (former === undefined) {
    const formerReported = `${formerSnapshotFile}: ${whyNotFormer ?? "it is not there"}`;
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
  const serves = `${formerSnapshotFile}, the one before it, serves with revision ${string.format("%d", revision)}`;
  ngx.log(ngx.ERR, "sluice: ", newestReported, ". ", serves, " until the control plane sends a later one");
  return former;
}

/** @returns it; or undefined and why it cannot be used, and nothing where there is no such file */
function read(path: string): LuaMultiReturn<[stored: Stored | undefined, whyNot: string | undefined]> {
  const [whole, failure] = readOwnFile(path, mostBytes);
  if (whole === undefined) return $multi(undefined, failure);
  const [checksum] = string.match(string.sub(whole, -checksumBytes), checksumPattern);
  const incoming = noText();
  addPart(incoming, checksum === undefined ? whole : string.sub(whole, 1, -checksumBytes - 1));
  const pieces = endText(incoming);
  if (checksum !== undefined && sha256HexOf(pieces, noPause) !== checksum) {
    return $multi(undefined, "it is damaged: its checksum is another one");
  }
  const { snapshot, problems } = readPieces((place) => pieces[place], currentSnapshot(), noPause);
  if (snapshot !== undefined) return $multi({ pieces, snapshot }, undefined);
  const problem = problems[0];
  return $multi(undefined, `it is damaged: ${problem?.path}: expected ${problem?.expected}, got ${problem?.got}`);
}

/** @returns what failed */
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

/** Not while a change is awaited: the disk may take longer than all the rest. */
function flushSoon(directory: string): void {
  if (flushing) return;
  const notBegun = runUntilDone(() => {
    const before = stores;
    beginFlush(directory + snapshotFile);
    ngx.sleep(flushAfterSeconds);
    // Another one came: it is looked at after as long again.
    if (stores !== before && !ngx.worker.exiting()) return true;
    flushing = false;
    const failure = flushToDisk(directory + snapshotFile) ?? flushToDisk(directory);
    if (failure === undefined) isSafe = true;
    else warnSparingly("the snapshot may be lost if the machine stops", failure);
    return false;
  });
  flushing = notBegun === undefined;
}

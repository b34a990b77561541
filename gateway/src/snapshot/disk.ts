// Keeps the policies on disk, so that a gateway can start with them and limit while the control plane is down. A change is appended to
// a log (policy-log.ts). When the log has grown long, it is written anew while nothing else is to be done. The log before is kept
// beside it, in case the disk loses the newer one or a part of it. nginx's log says which one serves, and why.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { noFindings } from "../../../limiter/src/document/problems.ts";
import { type EntryText, entriesChange, readFrame } from "../../../limiter/src/protocol/read-frame.ts";
import { type PreparedChange, prepareChange } from "../../../limiter/src/state/change.ts";
import { isSamePosition, nowhere, type Position } from "../../../limiter/src/state/policy-state.ts";
import { runUntilDone } from "../runtime/background.ts";
import { removeFile, replaceFile } from "../runtime/files.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { sha256HexOf } from "../runtime/sha256.ts";
import { addSafely, stateDict } from "../runtime/shared-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import { appendToFile, beginFlush, flushToDisk, readOwnFile } from "../runtime/system-calls.ts";
import { currentState } from "./current.ts";
import { blockPieces, readLog } from "./policy-log.ts";
import { addPart, endText, json, noText } from "./text.ts";

export const logFile = "policies.log";
export const formerLogFile = "policies-former.log";
/** Where versions until 1 of the push protocol kept the snapshot. */
export const filesOfEarlierVersions = ["snapshot.json", "snapshot-former.json"];

/** Much more than the control plane sends by default, with all that may be appended. */
const mostBytes = 400_000_000;
/** A log is not written anew before it has grown by as much as its first block has, and by this. */
const leastGrowth = 1_048_576;
/** By so much more, the log is written anew even if changes wait. */
const mostGrowth = 4;
/** After a failure, as on a full disk, the log is not written anew at every change. */
const retrySeconds = 10;
/**
 * By then the system has written the data, and of several changes in a row only the last is flushed. The remaining flush blocks
 * the worker and the requests that it serves, but nobody else, for about 8 ms. In one case of ten it took 14 ms, and 64 ms at
 * most, while other processes wrote too.
 */
const flushAfterSeconds = 1;

// In shared memory, for the worker that takes over.
/** The position of the last block that is on disk. Absent: unknown, so the log must be written anew. */
const loggedPositionKey = "log-position";
/** How many bytes the first block has, and how many all blocks have. */
const firstBytesKey = "log-first-bytes";
const bytesKey = "log-bytes";

/** The newest log is certainly on disk and whole. Only then may it become the former one. */
let isSafe = false;
/** How many times this worker has written. */
let writes = 0;
let flushing = false;
let retryAtSeconds = 0;

/** What was found on disk, ready to be published. */
export interface StoredState {
  readonly prepared: PreparedChange;
  readonly entries: readonly EntryText[];
}

/** Called at the start. @returns undefined if nothing is on disk, or nothing that can be used */
export function readNewestWhole(directory: string): StoredState | undefined {
  const newest = readStoredLog(directory + logFile);
  if (newest.stored !== undefined) {
    isSafe = newest.cut === undefined;
    const revision = string.format("%d", newest.stored.prepared.change.position.revision);
    if (newest.cut === undefined) {
      stateDict.safe_set(loggedPositionKey, cjson.encode(newest.stored.prepared.change.position));
      stateDict.safe_set(firstBytesKey, newest.firstBytes);
      stateDict.safe_set(bytesKey, newest.bytes);
      ngx.log(ngx.NOTICE, "sluice: starts with revision ", revision, " from ", directory, logFile);
    } else {
      const what = `${directory}${logFile} is damaged: its last ${string.format("%d", newest.cut)} bytes cannot be used`;
      ngx.log(ngx.ERR, "sluice: ", what, ". Revision ", revision, " serves until the control plane sends a later one");
    }
    return newest.stored;
  }
  const former = readStoredLog(directory + formerLogFile);
  const earlier = former.stored === undefined ? readEarlier(directory) : undefined;
  const found = former.stored ?? earlier?.stored;
  if (
    found === undefined &&
    newest.whyNot === undefined &&
    former.whyNot === undefined &&
    earlier?.whyNot === undefined
  ) {
    return undefined;
  }
  if (earlier?.stored !== undefined && newest.whyNot === undefined && former.whyNot === undefined) {
    const revision = string.format("%d", earlier.stored.prepared.change.position.revision);
    ngx.log(ngx.NOTICE, "sluice: starts with revision ", revision, " from ", directory, earlier.name);
    return earlier.stored;
  }
  const newestReported = `${directory}${logFile} cannot be used: ${newest.whyNot ?? "it does not exist"}`;
  if (found === undefined) {
    const whyNotFormer = `${formerLogFile}: ${former.whyNot ?? "it does not exist"}`;
    const formerReported = former.whyNot === undefined ? (earlier?.whyNot ?? whyNotFormer) : whyNotFormer;
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
  const revision = string.format("%d", found.prepared.change.position.revision);
  const name = former.stored === undefined ? earlier?.name : formerLogFile;
  const serves = `${name}, the one before, serves with revision ${revision}`;
  ngx.log(ngx.ERR, "sluice: ", newestReported, ". ", serves, " until the control plane sends a later one");
  return found;
}

interface StoredLog {
  readonly stored: StoredState | undefined;
  /** How many bytes at the end cannot be used; undefined: none. */
  readonly cut: number | undefined;
  readonly bytes: number;
  readonly firstBytes: number;
  /** Undefined if there is no such file, or it can be used. */
  readonly whyNot: string | undefined;
}

function readStoredLog(path: string): StoredLog {
  const none = { stored: undefined, cut: undefined, bytes: 0, firstBytes: 0 };
  const [text, failure] = readOwnFile(path, mostBytes);
  if (text === undefined) return { ...none, whyNot: failure };
  const log = readLog(text, noPause);
  if (log === undefined) return { ...none, whyNot: "it is damaged: the checksum of its beginning does not match" };
  const findings = noFindings();
  // Another version of the gateway may have written it.
  const written = { position: log.position, set: log.entries, gone: [], isValid: false };
  const change = entriesChange(written, json, findings, noPause);
  const prepared = prepareChange(currentState(), change, findings, noPause);
  const [problem] = findings.problems;
  if (problem !== undefined)
    return { ...none, whyNot: `${problem.path}: expected ${problem.expected}, got ${problem.got}` };
  const { bytes, firstBytes, entries } = log;
  const cut = text.length > bytes ? text.length - bytes : undefined;
  return { stored: { prepared, entries }, cut, bytes, firstBytes, whyNot: undefined };
}

const checksumBeginning = "\nsha256:";
const checksumPattern = "^\nsha256:(%x+)\n$";
const checksumBytes = checksumBeginning.length + 64 + 1;

interface EarlierState {
  readonly stored: StoredState | undefined;
  readonly name: string;
  readonly whyNot: string | undefined;
}

/** Reads what an earlier version of the gateway has left: a snapshot as it came, with a line with its checksum. */
function readEarlier(directory: string): EarlierState | undefined {
  let whyNot: string | undefined;
  for (const name of filesOfEarlierVersions) {
    const [whole, failure] = readOwnFile(directory + name, mostBytes);
    if (failure !== undefined) whyNot ??= `${name}: ${failure}`;
    if (whole === undefined) continue;
    const [checksum] = string.match(string.sub(whole, -checksumBytes), checksumPattern);
    const incoming = noText();
    addPart(incoming, checksum === undefined ? whole : string.sub(whole, 1, -checksumBytes - 1));
    const pieces = endText(incoming);
    if (checksum !== undefined && sha256HexOf(pieces, noPause) !== checksum) {
      whyNot ??= `${name}: it is damaged: its checksum does not match`;
      continue;
    }
    const nothing = { position: nowhere, textOf: () => undefined, eachName: () => {} };
    const { frame, problems } = readFrame((place) => pieces[place], json, nothing, noPause);
    const findings = noFindings();
    const prepared = frame === undefined ? undefined : prepareChange(currentState(), frame.change, findings, noPause);
    const problem = problems[0] ?? findings.problems[0];
    if (frame === undefined || prepared === undefined || problem !== undefined) {
      whyNot ??= `${name}: it is damaged: ${problem?.path}: expected ${problem?.expected}, got ${problem?.got}`;
      continue;
    }
    return { stored: { prepared, entries: frame.set }, name, whyNot: undefined };
  }
  return whyNot === undefined ? undefined : { stored: undefined, name: "", whyNot };
}

/**
 * Appends a change to the log.
 *
 * @param before where the state was from before the change
 * @param pause called between parts of a long change
 * @returns false: the log does not end there, so that it must be written anew
 */
export function appendToLog(
  directory: string,
  before: Position,
  set: readonly EntryText[],
  gone: readonly string[],
  position: Position,
  pause: Pause,
): boolean {
  if (!isLogged(before)) return false;
  let entry = 0;
  const pieces = blockPieces(() => set[entry++], position, gone, before);
  const bytesBefore = stateDict.get<number>(bytesKey)[0] ?? 0;
  let bytes = bytesBefore;
  // Until the block is whole, nothing can be appended after it: whoever takes over meanwhile writes the log anew.
  stateDict.delete(loggedPositionKey);
  for (;;) {
    const piece = pieces();
    if (piece === undefined) break;
    // A short change has one piece, so it is written without a pause.
    if (bytes > bytesBefore) pause();
    const failure = appendToFile(directory + logFile, piece, bytes);
    if (failure !== undefined) {
      reportFailure(directory, failure);
      return false;
    }
    bytes += piece.length;
  }
  stateDict.safe_set(loggedPositionKey, cjson.encode(position));
  addSafely(stateDict, bytesKey, bytes - bytesBefore, 0);
  writes += 1;
  flushSoon(directory);
  return true;
}

/** Returns whether the last block on disk is of this position. */
export function isLogged(position: Position): boolean {
  const [text] = stateDict.get<string>(loggedPositionKey);
  const logged = text === undefined ? undefined : cjson.decode<Position>(text)[0];
  return logged !== undefined && isSamePosition(logged, position);
}

/**
 * - no: the log is short, or writing it has just failed.
 * - idle: when nothing else is to be done.
 * - now: it does not have the present position, or has grown very long.
 *
 * @param position that the log is to have
 */
export function needsRewriting(position: Position): "no" | "idle" | "now" {
  if (stopwatchSeconds() < retryAtSeconds) return "no";
  if (!isLogged(position)) return "now";
  const firstBytes = stateDict.get<number>(firstBytesKey)[0] ?? 0;
  const grown = (stateDict.get<number>(bytesKey)[0] ?? 0) - firstBytes;
  const most = Math.max(firstBytes, leastGrowth);
  return grown > most * mostGrowth ? "now" : grown > most ? "idle" : "no";
}

/**
 * Writes the log anew, with all entries in one block.
 *
 * @param next returns one entry after the other; undefined after the last
 * @param goesOn returns false if this is to be left for later
 */
export function rewriteLog(
  directory: string,
  next: (this: void) => EntryText | undefined,
  position: Position,
  goesOn: (this: void) => boolean,
  pause: Pause,
): void {
  if (stopwatchSeconds() < retryAtSeconds) return;
  const pieces = blockPieces(next, position);
  let bytes = 0;
  let isLeft = false;
  const keepAs = isSafe ? directory + formerLogFile : undefined;
  const failure = replaceFile(
    directory + logFile,
    () => {
      pause();
      if (!goesOn()) {
        isLeft = true;
        return undefined;
      }
      const piece = pieces();
      if (piece !== undefined) bytes += piece.length;
      return piece;
    },
    () => !isLeft,
    keepAs,
  );
  if (isLeft) return;
  if (failure !== undefined) {
    retryAtSeconds = stopwatchSeconds() + retrySeconds;
    reportFailure(directory, failure);
    return;
  }
  isSafe = false;
  stateDict.safe_set(loggedPositionKey, cjson.encode(position));
  stateDict.safe_set(firstBytesKey, bytes);
  stateDict.safe_set(bytesKey, bytes);
  for (const name of filesOfEarlierVersions) removeFile(directory + name);
  writes += 1;
  flushSoon(directory);
}

function reportFailure(directory: string, failure: string): void {
  ngx.log(ngx.ERR, "sluice: cannot write the policies to ", directory, ": ", failure);
}

/** The flush runs later, and not while a change waits to be acknowledged: the disk may take longer than everything else. */
function flushSoon(directory: string): void {
  if (flushing) return;
  const notBegun = runUntilDone(() => {
    const before = writes;
    beginFlush(directory + logFile);
    ngx.sleep(flushAfterSeconds);
    // The log was written again meanwhile: the wait starts again.
    if (writes !== before && !ngx.worker.exiting()) return true;
    flushing = false;
    const failure = flushToDisk(directory + logFile) ?? flushToDisk(directory);
    if (failure === undefined) isSafe = true;
    else warnSparingly("the policies were not flushed to disk and may be lost if the machine stops", failure);
    return false;
  });
  flushing = notBegun === undefined;
}

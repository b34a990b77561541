// Keeps the consumers on disk, so that a gateway that starts knows them while the control plane is down. A change is appended to a log as
// it came: a header of a fixed length, with a checksum, and lines as in consumer-lines.ts. A log that has grown long is written anew from
// itself: of each consumer, one line stays that says what is in force. So neither reading nor writing needs all consumers in Lua's memory.
// A consumer that found no room is not in force, so its line goes too, and the log says how many it lacks: a gateway that starts with
// such a log asks the control plane for everything.
// A gateway that begins anew writes another log beside the one before, which it replaces when it is whole.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import { separator } from "../../../limiter/src/protocol/consumer-lines.ts";
import type { ConsumersHead } from "../../../limiter/src/protocol/push-messages.ts";
import { moveFile, removeFile, replaceFile } from "../runtime/files.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { sha256Hex } from "../runtime/sha256.ts";
import { stateDict } from "../runtime/shared-memory.ts";
import { warnSparingly } from "../runtime/sparing-log.ts";
import { stopwatchSeconds } from "../runtime/stopwatch.ts";
import {
  appendToFile,
  beginFlush,
  createPrivateFile,
  flushToDisk,
  type OpenFile,
  openOwnFile,
  truncateFile,
} from "../runtime/system-calls.ts";
import { consumersState, isPosition, isToKeep, mostEpochBytes, nextNumber } from "./held.ts";
import { unstoredCount } from "./shares.ts";

export const consumersFile = "consumers.log";
export const nextConsumersFile = "consumers-next.log";

const headerBytes = 384;
/** A log is not written anew before it has grown by as much as it had when it was written last, and by this. */
const leastGrowth = 8_388_608;
/** By so much more, the log is written anew even if changes wait. */
const mostGrowth = 4;
/** More than a push message may have. A file that says more is not one that Sluice wrote. */
const mostBlockBytes = 67_108_864;
/** After a failure, as on a full disk. */
const retrySeconds = 10;
const flushAfterSeconds = 1;

/** What is on disk, in shared memory for the worker that takes over. */
const loggedKey = "consumers-log";

interface Logged {
  readonly epoch: string;
  readonly position: number;
  readonly bytes: number;
  /** How long it was when it was written anew. */
  readonly firstBytes: number;
  readonly isNext: boolean;
  /** After its blocks the file has something that cannot be used. */
  readonly hasRest?: boolean;
}

interface Header {
  readonly epoch: string;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  readonly sha256: string;
  /** How many consumers the log lacks, because they found no room. Absent: none. */
  readonly lacks?: number | undefined;
}

/** The position that a log has. */
export interface LoggedPosition {
  readonly epoch: string;
  readonly position: number;
}

/** What was read from a log. */
export interface ReadLog extends LoggedPosition {
  /** How many consumers it lacks. */
  readonly lacks: number;
}

function logged(): Logged | undefined {
  const [text] = stateDict.get<string>(loggedKey);
  return text === undefined ? undefined : cjson.decode<Logged>(text)[0];
}

function noteLogged(now: Logged | undefined): void {
  if (now === undefined) stateDict.delete(loggedKey);
  else stateDict.safe_set(loggedKey, cjson.encode(now));
}

/** Where the log is. Undefined: there is none, or it is not known. */
export function loggedPosition(): LoggedPosition | undefined {
  return logged();
}

function pathOf(directory: string, isNext: boolean): string {
  return directory + (isNext ? nextConsumersFile : consumersFile);
}

/**
 * Reads the log at the start, as root in most installations, and changes nothing: the directory belongs to the workers' account.
 *
 * @param take gets the lines of each block that is whole
 * @returns the position after them; undefined: there is no log, or nothing in it that can be used
 */
export function readConsumerLog(directory: string, take: (this: void, lines: string) => void): ReadLog | undefined {
  const path = pathOf(directory, false);
  const [file, failure] = openOwnFile(path);
  if (file === undefined) {
    if (failure !== undefined) ngx.log(ngx.ERR, "sluice: ", path, " cannot be used: ", failure);
    return undefined;
  }
  let position: LoggedPosition | undefined;
  let bytes = 0;
  let lacks = 0;
  let hasRest = true;
  for (;;) {
    const [block, wrong] = nextBlock(file);
    if (block === undefined) {
      if (wrong !== undefined) {
        const at = string.format("%.0f", bytes);
        ngx.log(ngx.ERR, "sluice: ", path, " is damaged after ", at, " bytes: ", wrong, ". What comes before serves");
      } else {
        hasRest = false;
      }
      break;
    }
    const { epoch, from, to } = block.header;
    const before = position?.position ?? 0;
    if (from !== before) break;
    take(block.lines);
    position = { epoch, position: to };
    bytes += headerBytes + block.lines.length;
    lacks += block.header.lacks ?? 0;
  }
  file.close();
  if (position === undefined) return undefined;
  noteLogged({ ...position, bytes, firstBytes: bytes / 2, isNext: false, hasRest });
  return { ...position, lacks };
}

interface Block {
  readonly header: Header;
  readonly lines: string;
}

/** @returns neither at the end of the file */
function nextBlock(file: OpenFile): LuaMultiReturn<[block: Block | undefined, wrong: string | undefined]> {
  const head = file.read(headerBytes);
  if (head === "") return $multi(undefined, undefined);
  const [header] = cjson.decode<unknown>(head);
  if (head.length < headerBytes || !isHeader(header)) return $multi(undefined, "it has no header there");
  if (header.bytes > mostBlockBytes) return $multi(undefined, "its header says more bytes than a block may have");
  const lines = file.read(header.bytes);
  if (sha256Hex(checked(header, lines)) !== header.sha256) return $multi(undefined, "its checksum does not match");
  return $multi({ header, lines }, undefined);
}

/** The workers' account can write anything there, and what is read at the start must not keep nginx from starting. */
function isHeader(header: unknown): header is Header {
  if (typeof header !== "object") return false;
  const { epoch, from, to, bytes, sha256, lacks = 0 } = header as Header;
  const areTexts = typeof epoch === "string" && epoch.length <= mostEpochBytes && typeof sha256 === "string";
  return areTexts && isPosition(from) && isPosition(to) && isPosition(bytes) && isPosition(lacks);
}

function checked({ epoch, from, to, lacks }: Omit<Header, "sha256" | "bytes">, lines: string): string {
  const lacking = lacks === undefined ? "" : string.format(" lacks %.0f", lacks);
  return `${string.format("%s %.0f %.0f", epoch, from, to)}${lacking}\n${lines}`;
}

/** @returns undefined: the epoch is longer than any control plane's */
function blockOf(epoch: string, from: number, to: number, lines: string, lacks?: number): string | undefined {
  const sha256 = sha256Hex(checked({ epoch, from, to, lacks }, lines));
  const text = cjson.encode({ epoch, from, to, bytes: lines.length, sha256, lacks });
  if (text.length >= headerBytes) return undefined;
  return `${text}${string.rep(" ", headerBytes - text.length - 1)}\n${lines}`;
}

/** Blocks that came while the log is written anew. Undefined: it is not, or another log has taken its place meanwhile. */
let pending: string[] | undefined;
let wroteAtSeconds = 0;
let isFlushed = true;
let retryAtSeconds = 0;

/** Appends what came from the control plane, before it comes into force. What cannot be written is asked for again later. */
export function appendConsumers(
  directory: string,
  { epoch, from, to, fresh, more }: ConsumersHead,
  lines: string,
): void {
  let now = logged();
  if (fresh === true) {
    const path = pathOf(directory, true);
    pending = undefined;
    removeFile(path);
    const failure = createPrivateFile(path);
    if (failure !== undefined) {
      failed(directory, failure);
      noteLogged(undefined);
      return;
    }
    now = { epoch, position: 0, bytes: 0, firstBytes: 0, isNext: true };
    // Nothing goes to the log before any more, even if this one cannot be written now: that one may be of another history.
    noteLogged(now);
  }
  if (now === undefined || now.position !== from) return;
  const block = blockOf(epoch, from, to, lines);
  if (block === undefined) return;
  const path = pathOf(directory, now.isNext);
  const failure =
    (now.hasRest === true ? truncateFile(path, now.bytes) : undefined) ?? appendToFile(path, block, now.bytes);
  if (failure !== undefined) {
    if (truncateFile(path, now.bytes) !== undefined) noteLogged(undefined);
    failed(directory, failure);
    return;
  }
  pending?.push(block);
  const bytes = now.bytes + block.length;
  const isWhole = now.isNext && !more;
  if (isWhole) {
    pending = undefined;
    const moved = moveFile(path, pathOf(directory, false));
    if (moved !== undefined) {
      failed(directory, moved);
      noteLogged(undefined);
      return;
    }
  }
  noteLogged({
    epoch,
    position: to,
    bytes,
    firstBytes: isWhole ? bytes : now.firstBytes,
    isNext: now.isNext && !isWhole,
  });
  wroteAtSeconds = stopwatchSeconds();
  isFlushed = false;
}

function failed(directory: string, failure: string): void {
  retryAtSeconds = stopwatchSeconds() + retrySeconds;
  warnSparingly(
    `cannot write consumers to ${directory}: after a start without the control plane they are as before`,
    failure,
  );
}

/** Whether what was not written is to be asked for again now. */
export function isRetryDue(): boolean {
  if (retryAtSeconds === 0 || stopwatchSeconds() < retryAtSeconds) return false;
  retryAtSeconds = 0;
  return true;
}

/** Makes the system write what it holds back, some time after the last change. */
export function flushConsumers(directory: string): void {
  if (isFlushed) return;
  const path = pathOf(directory, logged()?.isNext === true);
  if (stopwatchSeconds() - wroteAtSeconds < flushAfterSeconds) {
    beginFlush(path);
    return;
  }
  isFlushed = true;
  const failure = flushToDisk(path) ?? flushToDisk(directory);
  if (failure !== undefined)
    warnSparingly("consumers were not flushed to disk and may be lost if the machine stops", failure);
}

/**
 * Returns whether the log has grown so long that it must be written anew.
 *
 * - no: the log is short, or writing it has just failed.
 * - idle: when nothing else is to be done.
 * - now: it has grown very long.
 */
export function needsRewriting(): "no" | "idle" | "now" {
  const now = logged();
  if (now === undefined || !isApplied(now) || stopwatchSeconds() < retryAtSeconds) return "no";
  const grown = now.bytes - now.firstBytes;
  const most = Math.max(now.firstBytes, leastGrowth);
  return grown > most * mostGrowth ? "now" : grown > most ? "idle" : "no";
}

/** Whether everything in the log was set in memory: only then a line that is not in force is of no use. */
function isApplied({ epoch, position }: LoggedPosition): boolean {
  const state = consumersState();
  return state.epoch === epoch && state.position >= position;
}

/**
 * Writes the log anew. Changes may come meanwhile.
 *
 * @param goesOn returns false if it is to be left for later
 */
export function rewriteConsumerLog(directory: string, goesOn: (this: void) => boolean, pause: Pause): void {
  const began = logged();
  if (began === undefined || !isApplied(began) || pending !== undefined) return;
  const path = pathOf(directory, began.isNext);
  const [file] = openOwnFile(path);
  if (file === undefined) return;
  const since: string[] = [];
  pending = since;
  const number = nextNumber();
  let read = 0;
  let isAtEnd = false;
  let bytes = 0;
  let bytesBefore = began.bytes;
  let isLeft = false;
  const nextPiece = () => {
    while (read < began.bytes && !isAtEnd) {
      pause();
      if (!goesOn() || pending !== since) {
        isLeft = true;
        return undefined;
      }
      const [block] = nextBlock(file);
      if (block === undefined) {
        isLeft = true;
        return undefined;
      }
      read += headerBytes + block.lines.length;
      const kept = keptOf(block.lines, number, pause);
      if (kept !== "") return blockOf(began.epoch, 0, 0, kept);
    }
    if (!isAtEnd) {
      isAtEnd = true;
      const lacks = unstoredCount();
      return blockOf(began.epoch, 0, began.position, "", lacks > 0 ? lacks : undefined);
    }
    const block = since.shift();
    if (block !== undefined) bytesBefore += block.length;
    return block;
  };
  // Otherwise another log has taken its place, or another worker has written to it.
  const isStill = () => pending === since && logged()?.bytes === bytesBefore;
  const failure = replaceFile(
    path,
    () => {
      const piece = nextPiece();
      if (piece !== undefined) bytes += piece.length;
      return piece;
    },
    () => !isLeft && isStill(),
  );
  file.close();
  const isReplaced = !isLeft && isStill();
  if (pending === since) pending = undefined;
  if (failure !== undefined) {
    failed(directory, failure);
    return;
  }
  if (!isReplaced) return;
  const now = logged();
  if (now !== undefined) noteLogged({ ...now, bytes, firstBytes: bytes, hasRest: false });
  wroteAtSeconds = stopwatchSeconds();
  isFlushed = false;
}

/** Returns the lines that say what is in force, of those consumers of which no line was kept before. */
function keptOf(lines: string, number: number, pause: Pause): string {
  const kept: string[] = [];
  for (let at = 1; ; ) {
    const [end] = string.find(lines, "\n", at, true);
    if (end === undefined) return kept.join("");
    let tab: number | undefined;
    if (string.byte(lines, at) === plus) [tab] = string.find(lines, separator, at, true);
    if (tab !== undefined && tab < end) {
      if (isToKeep(string.sub(lines, at + 1, tab - 1), string.sub(lines, tab + 1, end - 1), number)) {
        kept.push(string.sub(lines, at, end));
      }
    }
    at = end + 1;
    pause();
  }
}

/** "+". */
const plus = 43;

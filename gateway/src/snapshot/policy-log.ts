// The format of the file that keeps the state on disk: a log of blocks. The first block has all entries, each later one what a change
// set and removed. Each line is an entry, and the last line of a block has where its state is from and a checksum of the whole block. A
// block that was written only in part is recognized, and so are the blocks after a damaged one: what comes before them is whole.
//
//   +p:shop:books {"app":"shop","document":{…}}
//   -b:0197a3
//   ={"epoch":"…","revision":7,"edition":"…","proof":"…","after":{"epoch":"…","revision":6,…}} 64 hex digits
//
// A block that changes a state says which, so that none is taken for a change of another state.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { emptyTable } from "../../../limiter/src/basics/table.ts";
import type { EntryText } from "../../../limiter/src/protocol/read-frame.ts";
import { isSamePosition, type Position } from "../../../limiter/src/state/policy-state.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { newSha256, sha256HexOf } from "../runtime/sha256.ts";
import { pieceBytes } from "./text.ts";

/** What ends a block. The first one comes after none; neither did those that earlier versions of the gateway wrote. */
interface Commit extends Position {
  /** Where the state is from that the block changes. */
  readonly after?: Position;
}

/**
 * Writes a block piece by piece.
 *
 * @param next returns one entry after the other; undefined after the last
 * @param gone names of entries that it removes @param after where the state is from that it changes; absent: it is the first block
 * @returns a function that returns the next piece; undefined after the last
 */
export function blockPieces(
  next: (this: void) => EntryText | undefined,
  position: Position,
  gone: readonly string[] = [],
  after?: Position,
): (this: void) => string | undefined {
  const hash = newSha256();
  let goneWritten = 0;
  let ended = false;
  return () => {
    if (ended) return undefined;
    const lines: string[] = [];
    for (let bytes = 0; bytes < pieceBytes; ) {
      if (goneWritten < gone.length) {
        const line = `-${gone[goneWritten]}\n`;
        goneWritten += 1;
        bytes += line.length;
        lines.push(line);
        continue;
      }
      const entry = next();
      if (entry === undefined) {
        ended = true;
        break;
      }
      const line = `+${entry.name} ${entry.text}\n`;
      bytes += line.length;
      lines.push(line);
    }
    if (ended) {
      const commit: Commit = after === undefined ? position : { ...position, after };
      lines.push(`=${cjson.encode(commit)}`);
    }
    const piece = lines.join("");
    hash.update(piece);
    return ended ? `${piece} ${hash.hex()}\n` : piece;
  };
}

export interface LoggedState {
  readonly position: Position;
  readonly entries: readonly EntryText[];
  /** How many bytes of the text are whole blocks, and how many of them are the first. */
  readonly bytes: number;
  readonly firstBytes: number;
}

/** @returns undefined: not even the first block is whole */
export function readLog(text: string, pause: Pause): LoggedState | undefined {
  const entries = noEntries();
  let position: Position | undefined;
  let bytes = 0;
  let firstBytes = 0;
  for (;;) {
    const [commitAt] = text.startsWith("=", bytes) ? [bytes] : string.find(text, "\n=", bytes + 1, true);
    if (commitAt === undefined) break;
    const [lineEnd] = string.find(text, "\n", commitAt + 2, true);
    if (lineEnd === undefined) break;
    const block = string.sub(text, bytes + 1, lineEnd - 66);
    const checksum = string.sub(text, lineEnd - 65, lineEnd - 1);
    if (` ${sha256HexOf([block], noPause)}` !== checksum) break;
    const [from] = string.match(block, "=([^\n]*)$");
    const [committed] = cjson.decode<Commit>(from ?? "");
    if (typeof committed !== "object") break;
    const { after, ...own } = committed;
    // A block of another gateway that writes to the same directory.
    if (after !== undefined && (position === undefined || !isSamePosition(after, position))) break;
    position = own;
    readLines(entries, block, pause);
    bytes = lineEnd;
    if (firstBytes === 0) firstBytes = bytes;
  }
  if (position === undefined) return undefined;
  return { position, entries: listOf(entries), bytes, firstBytes };
}

/** Entries in the order in which they were set first. Policies that come in order of evaluation need no sorting. */
interface Entries {
  readonly list: EntryText[];
  readonly placeOf: Record<string, number | undefined>;
  gone: number;
}

/** Stands where an entry was. */
const noEntry: EntryText = { name: "", text: "" };

function noEntries(): Entries {
  return { list: [], placeOf: emptyTable(), gone: 0 };
}

/** A search for a plain text takes a tenth of the time that a pattern takes. */
function readLines(entries: Entries, block: string, pause: Pause): void {
  const { list, placeOf } = entries;
  for (let from = 1; ; ) {
    const [end] = string.find(block, "\n", from, true);
    if (end === undefined) return;
    const isSet = string.byte(block, from) === plus;
    const [space] = isSet ? string.find(block, " ", from, true) : [end];
    if (space === undefined) return;
    const name = string.sub(block, from + 1, space - 1);
    const place = placeOf[name];
    if (isSet) {
      const entry = { name, text: string.sub(block, space + 1, end - 1) };
      if (place === undefined) {
        placeOf[name] = list.length;
        list.push(entry);
      } else {
        list[place] = entry;
      }
    } else if (place !== undefined) {
      list[place] = noEntry;
      entries.gone += 1;
      delete placeOf[name];
    }
    from = end + 1;
    pause();
  }
}

/** "+". */
const plus = 43;

function listOf({ list, gone }: Entries): readonly EntryText[] {
  if (gone === 0) return list;
  const rest: EntryText[] = [];
  for (const entry of list) if (entry !== noEntry) rest.push(entry);
  return rest;
}

// The text of a snapshot, in pieces that are short enough to be copied, hashed and decoded between two requests. Pieces end at
// line ends as long as lines are shorter than a piece, so that each policy is whole within one piece.

import type { Pause } from "../../../limiter/src/basics/pause.ts";
import {
  type CompiledSnapshot,
  loadSnapshot,
  loadSnapshotLines,
  type SnapshotLoad,
} from "../../../limiter/src/protocol/load-snapshot.ts";
import { cjson } from "../runtime/lua-modules.ts";

export const pieceBytes = 65_536;

/** A text that is still arriving. */
export interface IncomingText {
  readonly pieces: string[];
  /** The unfinished last line. */
  rest: string[];
  bytes: number;
}

export function noText(): IncomingText {
  return { pieces: [], rest: [], bytes: 0 };
}

/** @param part of any length, cut anywhere */
export function addPart(text: IncomingText, part: string): void {
  text.bytes += part.length;
  for (let from = 1; from <= part.length; from += pieceBytes) {
    const cut = part.length <= pieceBytes ? part : string.sub(part, from, from + pieceBytes - 1);
    const [lines, begun] = string.match(cut, "^(.*\n)(.*)$");
    if (lines === undefined) {
      text.rest.push(cut);
      continue;
    }
    text.rest.push(lines);
    text.pieces.push(text.rest.join(""));
    text.rest = begun === "" ? [] : [begun as string];
  }
}

/** @returns the whole text in pieces */
export function endText({ pieces, rest }: IncomingText): readonly string[] {
  if (rest.length > 0) pieces.push(rest.join(""));
  return pieces;
}

/**
 * Reads a snapshot, or finds everything that is wrong with it.
 *
 * @param pieceAt counts from 0; returns undefined after the last piece. Called more than once for each piece
 * @param previous the parts that this snapshot shares with it are reused
 */
export function readPieces(
  pieceAt: (this: void, place: number) => string | undefined,
  previous: CompiledSnapshot,
  pause: Pause,
): SnapshotLoad {
  const load = loadSnapshotLines(pieceAt, decode, previous, pause);
  if (load !== undefined) return load;
  // A text that is not laid out in lines comes from an older control plane. It has to be decoded in one go.
  const pieces: string[] = [];
  for (let place = 0; ; place++) {
    const piece = pieceAt(place);
    if (piece === undefined) break;
    pieces.push(piece);
  }
  const [message, failure] = cjson.decode<unknown>(pieces.join(""));
  if (message === undefined) {
    return { problems: [{ path: "", expected: "JSON", got: failure ?? "something else" }] };
  }
  return loadSnapshot(message, pause);
}

function decode(this: void, text: string): unknown {
  const [value] = cjson.decode<unknown>(text);
  return value;
}

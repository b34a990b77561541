// The text of a snapshot, in pieces that are short enough to be copied, hashed and decoded between two requests. Pieces end at
// line ends as long as lines are shorter than a piece, so that each policy is whole within one piece.

import type { JsonCodec } from "../../../limiter/src/protocol/read-frame.ts";
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

export function bytesOf(pieces: readonly string[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}

export const json: JsonCodec = {
  decode(text) {
    return cjson.decode<unknown>(text)[0];
  },
  encode: cjson.encode,
};

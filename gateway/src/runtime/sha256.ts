// SHA-256. It identifies callers by their tokens, and detects damaged files on disk.

import { noPause, type Pause } from "../../../limiter/src/basics/pause.ts";
import { sha256Library } from "./lua-modules.ts";

/** 64 hex digits in lower case. */
export function sha256Hex(text: string): string {
  return sha256HexOf([text], noPause);
}

/** The SHA-256 of a text in pieces. @param pause called between two pieces */
export function sha256HexOf(pieces: readonly string[], pause: Pause): string {
  const hash = newSha256();
  for (const piece of pieces) {
    hash.update(piece);
    pause();
  }
  return hash.hex();
}

export interface Sha256 {
  update(this: void, piece: string): void;
  hex(this: void): string;
}

/** For a text that is not there all at once. */
export function newSha256(): Sha256 {
  const hash = sha256Library.new();
  return {
    update(piece) {
      hash.update(piece);
    },
    hex() {
      const [hex] = string.gsub(hash.final(), ".", (byte) => string.format("%02x", string.byte(byte)));
      return hex;
    },
  };
}

// Texts from requests and from other programs may not be UTF-8, or be cut within a character.

import { isUtf8 } from "../../../limiter/src/basics/utf8.ts";

const notAscii = `[${string.char(128)}-${string.char(255)}]`;

/**
 * Returns the text if it is UTF-8, and otherwise with a ? for each byte that is not ASCII. RFC 6455 §8.1: a peer closes the
 * connection on text that is not UTF-8.
 */
export function wellFormed(text: string): string {
  return isUtf8(text) ? text : string.gsub(text, notAscii, "?")[0];
}

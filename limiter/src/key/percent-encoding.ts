// Decodes percent-encoding, as it is in arguments, fields of forms and cookies.

import { hexDigit } from "../basics/hex-digit.ts";
import { isUtf8 } from "../basics/utf8.ts";

const percent = 37;
const plus = 43;
const space = 32;

/**
 * @param text one character below 256 for each byte, as in Lua
 * @param blank what stands for a blank, which "+" and "%20" both are: servers that decode a cookie as a form take one for the other
 * @returns undefined if a part of the text is no encoding, or if the result is no UTF-8: servers leave, drop, replace or refuse that
 */
export function percentDecoded(text: string, blank: string): string | undefined {
  // The parts are joined at the end: a text that grew by each character would be copied each time.
  const parts: string[] = [];
  let from = 0;
  let i = 0;
  while (i < text.length) {
    let code = text.charCodeAt(i);
    const isEncoded = code === percent;
    if (!isEncoded && code !== plus) {
      i += 1;
      continue;
    }
    if (i > from) parts.push(text.slice(from, i));
    if (isEncoded) {
      const high = hexDigit(text.charCodeAt(i + 1));
      const low = hexDigit(text.charCodeAt(i + 2));
      if (high < 0 || low < 0) return undefined;
      code = 16 * high + low;
      i += 2;
    } else {
      code = space;
    }
    parts.push(code === space ? blank : String.fromCharCode(code));
    i += 1;
    from = i;
  }
  parts.push(text.slice(from));
  const plain = parts.join("");
  return isUtf8(plain) ? plain : undefined;
}

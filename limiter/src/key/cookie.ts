// Reads the value of a cookie from a request's `Cookie` lines, so that one value is one text however it is spelled: spellings
// that the common parsers of servers read as alike are alike here. Where these parsers read different values, there is no value
// for a counter to use.

import { hexDigit } from "../basics/hex-digit.ts";
import { isUtf8 } from "../basics/utf8.ts";
import type { Reading } from "./key-part.ts";

const tab = 9;
const space = 32;
const quote = 34;
const percent = 37;
const semicolon = 59;
const equals = 61;
const backslash = 92;

/**
 * Returns the value without the blanks and quotes around it, and percent-decoded: some servers leave these in a value and others
 * remove them. The table of docs/policies.md has the spellings and how servers read them.
 *
 * @param cookies the lines, joined by ";"
 * @returns undefined: no such cookie. false: servers differ on its value
 */
export function cookieValue(cookies: string, name: string): Reading {
  let value: string | undefined;
  let at = cookies.indexOf(name);
  while (at >= 0) {
    const found = valueAt(cookies, name, at);
    if (found === false) return false;
    // Some servers take the first cookie of a name, others the last.
    if (found !== undefined && value !== undefined && found !== value) return false;
    if (found !== undefined) value = found;
    at = cookies.indexOf(name, at + 1);
  }
  return value;
}

/** @returns undefined if the text at this place is not the name of a cookie */
function valueAt(cookies: string, name: string, at: number): Reading {
  let afterName = at + name.length;
  let isOdd = false;
  while (isBlank(cookies.charCodeAt(afterName))) {
    if (!isSpaceOrTab(cookies.charCodeAt(afterName))) isOdd = true;
    afterName += 1;
  }
  if (cookies.charCodeAt(afterName) !== equals) return undefined;
  let before = at - 1;
  while (before >= 0 && isBlank(cookies.charCodeAt(before))) {
    if (!isSpaceOrTab(cookies.charCodeAt(before))) isOdd = true;
    before -= 1;
  }
  const beginsPair = before < 0 || cookies.charCodeAt(before) === semicolon;
  // This is the end of another name, or within a value. After a blank, Python's own parser begins a cookie.
  if (!beginsPair) return before === at - 1 ? undefined : false;
  if (isOdd) return false;
  const end = cookies.indexOf(";", afterName);
  return canonical(cookies.slice(afterName + 1, end < 0 ? cookies.length : end));
}

function canonical(written: string): string | false {
  const bare = withoutEnds(written);
  let hasPercent = false;
  for (let i = 0; i < bare.length; i++) {
    const code = bare.charCodeAt(i);
    if (code <= space || code > 126 || code === quote || code === backslash) return false;
    if (code === percent) hasPercent = true;
  }
  return hasPercent ? decoded(bare) : bare;
}

/**
 * Decodes percent-encoding. If a part of the text is no encoding, some decoders leave the whole text as it is; others decode the
 * rest.
 */
function decoded(text: string): string | false {
  // The parts are joined at the end: a text that grew by each character would be copied each time.
  const parts: string[] = [];
  let from = 0;
  let escapes = 0;
  let others = 0;
  let i = 0;
  while (i < text.length) {
    if (text.charCodeAt(i) !== percent) {
      i += 1;
      continue;
    }
    const high = hexDigit(text.charCodeAt(i + 1));
    const low = hexDigit(text.charCodeAt(i + 2));
    if (high < 0 || low < 0) {
      others += 1;
      i += 1;
    } else {
      if (i > from) parts.push(text.slice(from, i));
      parts.push(String.fromCharCode(16 * high + low));
      escapes += 1;
      i += 3;
      from = i;
    }
  }
  if (escapes === 0) return text;
  if (others > 0) return false;
  parts.push(text.slice(from));
  const plain = parts.join("");
  return isUtf8(plain) ? withoutEnds(plain) : false;
}

function withoutEnds(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isEnd(text.charCodeAt(start))) start += 1;
  while (end > start && isEnd(text.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

function isEnd(code: number): boolean {
  return code === quote || isSpaceOrTab(code);
}

function isSpaceOrTab(code: number): boolean {
  return code === space || code === tab;
}

/** Returns whether some server takes this for a blank: control characters, and Unicode's spaces. False for NaN, past the end. */
function isBlank(code: number): boolean {
  return code <= space || code > 126;
}

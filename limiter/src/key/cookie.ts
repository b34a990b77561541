// Reads the value of a cookie from a request's `Cookie` lines, so that one value is one text however it is spelled: spellings
// that the common parsers of servers read as alike are alike here. Where these parsers read different values, there is no value
// for a counter to use.

import { isDigit } from "../basics/digit.ts";
import { hexDigit } from "../basics/hex-digit.ts";
import { beginsOtherwise, compareName, otherName, sameName } from "./argument-name.ts";
import { beginsLikeJwt, countDots } from "./base64.ts";
import type { Reading } from "./key-part.ts";
import { percentDecoded } from "./percent-encoding.ts";

const tab = 9;
const space = 32;
const quote = 34;
const percent = 37;
const plus = 43;
const dot = 46;
const semicolon = 59;
const equals = 61;
const backslash = 92;

type ReadText = (this: void, written: string) => string | false;

/** Browsers send fewer than 200 to a host. In more than these, a name is not looked for, nor at more places in them. */
const mostCookies = 1000;

/**
 * Returns the value without the blanks and quotes around it, and percent-decoded: some servers leave these in a value and others
 * remove them. A percent-encoded blank becomes "+", because Rack reads both as a blank. The table of docs/policies.md has the
 * spellings and how servers read them.
 *
 * @param cookies the lines, joined by ";", one character below 256 for each byte, as in Lua
 * @param read reads the text of a value instead
 * @returns undefined: no such cookie. false: servers differ on its value
 */
export function cookieValue(cookies: string, name: string, read: ReadText = canonical): Reading {
  let value: string | undefined;
  let at = cookies.indexOf(name);
  for (let places = 0; at >= 0; places++) {
    if (places === mostCookies) return false;
    const found = valueAt(cookies, name, at, read);
    if (found === false) return false;
    // Some servers take the first cookie of a name, others the last.
    if (found !== undefined && value !== undefined && found !== value) return false;
    if (found !== undefined) value = found;
    at = cookies.indexOf(name, at + 1);
  }
  if (hasSimilarName(cookies, name) || isSplitAtCommas(cookies)) return false;
  if (value === undefined) return undefined;
  if (value.startsWith(chunked)) return joinedChunks(cookies, name, value);
  return isContinued(cookies, name, value) ? false : value;
}

/** What ASP.NET Core stores in a cookie that was too long, before the number of the cookies NAMEC1, NAMEC2, … that have its parts. */
const chunked = "chunks-";
/** Browsers send fewer than 200 cookies to a host. */
const mostChunks = 200;

/** Returns what ASP.NET Core joins: one of a session's texts, whether it comes in chunks or not. It reads the number with zeros before it, too. */
function joinedChunks(cookies: string, name: string, value: string): Reading {
  const digits = value.slice(chunked.length);
  const count = Number(digits);
  if (!(count >= 1 && count <= mostChunks) || `${count}` !== digits)
    return isDigit(digits.charCodeAt(0)) ? false : value;
  let joined = "";
  for (let i = 1; i <= count; i++) {
    const chunk = cookieValue(cookies, `${name}C${i}`);
    if (chunk === false) return false;
    // ASP.NET Core takes the value as it is.
    if (chunk === undefined || chunk === "") return value;
    joined += chunk;
  }
  return joined;
}

/** An encrypted token has so many (RFC 7516); one that is only signed has two. */
const dotsOfJwe = 4;
/** Its shortest header, a nonce and a tag, in base64url. */
const leastJweBytes = 60;

/**
 * Auth.js puts an encrypted token that is too long for one cookie in others, whose names have a number behind ".", and joins all cookies whose names
 * begin with the session's, in an order that the names tell. Returns whether others continue this one.
 */
function isContinued(cookies: string, name: string, value: string): boolean {
  let dots = countDots(value);
  let bytes = value.length;
  let isOther = false;
  let areTokens = isSigned(value);
  for (let at = cookies.indexOf(name); at >= 0; at = cookies.indexOf(name, at + 1)) {
    let before = at - 1;
    while (before >= 0 && isBlank(cookies.charCodeAt(before))) before -= 1;
    if (before >= 0 && cookies.charCodeAt(before) !== semicolon) continue;
    const semicolonAt = cookies.indexOf(";", at);
    const end = semicolonAt < 0 ? cookies.length : semicolonAt;
    const equalsAt = cookies.indexOf("=", at + name.length);
    if (equalsAt < 0 || equalsAt >= end) continue;
    let endOfName = equalsAt;
    while (isBlank(cookies.charCodeAt(endOfName - 1))) endOfName -= 1;
    if (endOfName === at + name.length) continue;
    if (isNumbered(cookies, at + name.length, endOfName)) return true;
    const written = cookies.slice(equalsAt + 1, end);
    const other = decoded(written) || written;
    isOther = true;
    dots += countDots(other);
    bytes += other.length;
    if (!isSigned(other)) areTokens = false;
  }
  return isOther && dots === dotsOfJwe && bytes >= leastJweBytes && !areTokens;
}

function isNumbered(cookies: string, start: number, end: number): boolean {
  if (cookies.charCodeAt(start) !== dot || end === start + 1) return false;
  for (let at = start + 1; at < end; at++) if (!isDigit(cookies.charCodeAt(at))) return false;
  return true;
}

/** Returns whether it is a whole token that is signed: nobody joins two of these. */
function isSigned(text: string): boolean {
  return beginsLikeJwt(text) && countDots(text) === 2;
}

/** Tomcat reads a line that says so by RFC 2109, where "," separates cookies. */
function isSplitAtCommas(cookies: string): boolean {
  return cookies.includes("$Version") && cookies.includes(",");
}

/** Returns whether some server takes the name of another cookie for this one, or there are too many cookies. */
function hasSimilarName(cookies: string, name: string): boolean {
  let start = 0;
  let end = 0;
  for (let count = 0; end >= 0; count++) {
    if (count === mostCookies) return true;
    while (isBlank(cookies.charCodeAt(start))) start += 1;
    end = cookies.indexOf(";", start);
    if (!beginsOtherwise(cookies, start, name) && isSimilarAt(cookies, start, end < 0 ? cookies.length : end, name)) {
      return true;
    }
    start = end + 1;
  }
  return false;
}

function isSimilarAt(cookies: string, start: number, end: number, name: string): boolean {
  let endOfName = start;
  while (endOfName < end && cookies.charCodeAt(endOfName) !== equals) endOfName += 1;
  if (endOfName === end) return false;
  while (endOfName > start && isBlank(cookies.charCodeAt(endOfName - 1))) endOfName -= 1;
  const likeness = compareName(cookies, start, endOfName, name);
  // Names of cookies are not encoded; some servers have decoded them all the same.
  return likeness !== otherName && (likeness !== sameName || endOfName - start !== name.length);
}

/** @returns undefined if the text at this place is not the name of a cookie */
function valueAt(cookies: string, name: string, at: number, read: ReadText): Reading {
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
  return read(cookies.slice(afterName + 1, end < 0 ? cookies.length : end));
}

function canonical(written: string): string | false {
  const bare = withoutEnds(written, isEnd);
  let hasPercent = false;
  for (let i = 0; i < bare.length; i++) {
    const code = bare.charCodeAt(i);
    if (code <= space || code > 126 || code === quote || code === backslash) return false;
    if (code === percent) hasPercent = true;
  }
  const plain = hasPercent ? decoded(bare) : bare;
  return plain === false ? false : withoutEnds(plain, isDecodedEnd);
}

/** If a part of the text is no encoding, some decoders leave the whole text as it is; others decode the rest. */
function decoded(text: string): string | false {
  const plain = percentDecoded(text, "+");
  if (plain !== undefined) return plain;
  return hasEncoding(text) ? false : text;
}

function hasEncoding(text: string): boolean {
  for (let i = 0; i < text.length - 2; i++) {
    const isEncoding = hexDigit(text.charCodeAt(i + 1)) >= 0 && hexDigit(text.charCodeAt(i + 2)) >= 0;
    if (text.charCodeAt(i) === percent && isEncoding) return true;
  }
  return false;
}

function withoutEnds(text: string, isDropped: (this: void, code: number) => boolean): string {
  let start = 0;
  let end = text.length;
  while (start < end && isDropped(text.charCodeAt(start))) start += 1;
  while (end > start && isDropped(text.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

function isEnd(code: number): boolean {
  return code === quote || isSpaceOrTab(code);
}

/** "+" stands for a space. */
function isDecodedEnd(code: number): boolean {
  return code === quote || code === plus || code === tab;
}

function isSpaceOrTab(code: number): boolean {
  return code === space || code === tab;
}

/** Returns whether some server takes this for a blank: control characters, and Unicode's spaces. False for NaN, past the end. */
function isBlank(code: number): boolean {
  return code <= space || code > 126;
}

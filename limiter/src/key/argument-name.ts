// Compares the name of an argument, a field or a cookie with the name that a policy counts by. Frameworks take more than the name itself
// for that name: PHP drops blanks before it, cuts it at a byte 0 and reads "." as "_"; PHP, Rack and Express read lists and objects in
// brackets; ASP.NET ignores case, and looks for a field of an object with the object's name before it and without; Netty, Ktor and Spring
// leave out blanks. `npm run spellings` compares with these servers.

import { hexDigit } from "../basics/hex-digit.ts";

const space = 32;
const exclamationMark = 33;
const percent = 37;
const plus = 43;
const dot = 46;
const questionMark = 63;
const letterU = 117;
const open = 91;
const close = 93;
const underscore = 95;
const del = 127;

/** Stand for what is no character: the end, and a "%" that begins no encoding, which nginx's decoder drops. */
const ended = -1;
const broken = -2;
/** What %uXXXX stands for is a character to ASP.NET alone, so it is equal to none that is written otherwise. */
const ofUnicode = 0x10000;

/** Nobody writes more of what servers drop. */
const mostDropped = 16;

export const otherName = 0;
export const sameName = 1;
/** Some servers read it as the name, and others do not. */
export const similarName = 2;
/** It ends with the name, as a field of an object: "model.name" or "model[name]". */
export const nameWithin = 3;

/**
 * Compares in place: a client may send hundreds of names, and LuaJIT interns each string made of one; it searches strings with equal hashes
 * one by one.
 *
 * @param text percent-encoded, one character below 256 for each byte, as in Lua
 * @returns sameName if the decoded text from start to end is the name, or similarName, or otherName
 */
export function compareName(text: string, start: number, end: number, name: string): number {
  if (beginsOtherwise(text, start, name)) return otherName;
  let at = start;
  let i = 0;
  while (at < end && i < name.length) {
    const code = text.charCodeAt(at);
    if (code !== name.charCodeAt(i) || code === percent || code === plus) break;
    at += 1;
    i += 1;
  }
  if (at >= end && i === name.length) return sameName;
  const likeness = compareFrom(text, start, end, name);
  return likeness === otherName && isDropped(text, start) ? compareLater(text, start, end, name) : likeness;
}

/** Compares as `compareName` does, and also with what binds arguments to objects, which are never bound to cookies. @returns also nameWithin */
export function compareArgumentName(text: string, start: number, end: number, name: string): number {
  const likeness = compareName(text, start, end, name);
  return likeness !== otherName || endsOtherwise(text, start, end, name)
    ? likeness
    : comparePath(text, start, end, name);
}

/** Returns whether the last character alone shows that it is another name, as it does of most. */
function endsOtherwise(text: string, start: number, end: number, name: string): boolean {
  if (start >= end) return true;
  const code = text.charCodeAt(end - 1);
  const last = name.charCodeAt(name.length - 1);
  if (!isLetter(code) || last === close || isSameInAnyCase(code, last)) return false;
  // The last character may be encoded in two digits, in four behind "u", or be a digit that nginx drops.
  return (
    text.charCodeAt(end - 3) !== percent && text.charCodeAt(end - 6) !== percent && text.charCodeAt(end - 2) !== percent
  );
}

/**
 * Compares the fields on the way to a value: "a.b", "a[b]" and "A.B[]" are the same one, with any blanks in it. It goes from the end to the
 * start, because most names differ there at once.
 */
function comparePath(text: string, start: number, end: number, name: string): number {
  let at = end;
  let i = name.length;
  let behind = ended;
  while (at > start) {
    while (i > 0 && isOptional(name.charCodeAt(i - 1), name.charCodeAt(i))) i -= 1;
    const width = widthBefore(text, start, at);
    const code = width === 1 ? text.charCodeAt(at - 1) : characterAt(text, at - width, at) % ofUnicode;
    const isNeedless = isNeedlessBracket(code, behind);
    const wanted = i > 0 ? name.charCodeAt(i - 1) : ended;
    if (!isNeedless && isDot(code)) {
      if (i === 0) return nameWithin;
      if (!isDot(wanted)) return otherName;
      i -= 1;
    } else if (isSameInAnyCase(code, wanted)) i -= 1;
    else if (!isNeedless && !isLeftOut(code)) return otherName;
    behind = code;
    at -= width;
  }
  while (i > 0 && isOptional(name.charCodeAt(i - 1), name.charCodeAt(i))) i -= 1;
  // ASP.NET finds "Input.Email" under "Email" if no name begins with "Input". Those who write brackets do not.
  return i === 0 || (isDot(name.charCodeAt(i - 1)) && name.includes(".")) ? similarName : otherName;
}

function isDot(code: number): boolean {
  return code === dot || code === open;
}

/** @param behind the character behind it */
function isNeedlessBracket(code: number, behind: number): boolean {
  return code === close || (code === open && behind === close);
}

/** Returns whether a character of the counted name may be absent: a bracket, or a blank, which servers leave out in what they compare. */
function isOptional(code: number, behind: number): boolean {
  return code <= space || isNeedlessBracket(code, behind);
}

/** Returns whether some server leaves out what may be a blank or a control character in some charset, or a "%" that begins no encoding. */
function isLeftOut(code: number): boolean {
  return code <= space || code >= del || code === percent || code === plus;
}

/** @returns how many characters before this place are one in the decoded text */
function widthBefore(text: string, start: number, at: number): number {
  if (at - 6 >= start && text.charCodeAt(at - 6) === percent && characterAt(text, at - 6, at) >= ofUnicode) return 6;
  return at - 3 >= start && text.charCodeAt(at - 3) === percent && byteAt(text, at - 2, at) >= 0 ? 3 : 1;
}

/** Returns whether the first character alone shows that it is another name, as it does of most. */
export function beginsOtherwise(text: string, start: number, name: string): boolean {
  const code = text.charCodeAt(start);
  return isLetter(code) && !isTakenFor(code, name.charCodeAt(0));
}

/** Returns where a name goes on that begins with another one, in any case, percent-encoded or not; -1: it begins otherwise. */
export function afterBeginning(text: string, start: number, end: number, beginning: string): number {
  let at = start;
  for (let i = 0; i < beginning.length; i++) {
    const code = characterAt(text, at, end);
    const wanted = beginning.charCodeAt(i);
    if (!isSameInAnyCase(code, wanted)) return -1;
    at += widthAt(text, at, end);
  }
  return at;
}

/** Compares behind what some servers drop before a name. */
function compareLater(text: string, start: number, end: number, name: string): number {
  let at = start;
  for (let dropped = 0; at < end && isDropped(text, at); dropped++) {
    if (dropped === mostDropped) return similarName;
    at += hasByteOrderMark(text, at) ? 3 : widthAt(text, at, end);
    if (at < end && compareFrom(text, at, end, name) !== otherName) return similarName;
  }
  return otherName;
}

/** PHP drops blanks, Rack and Express drop brackets, and Spring takes "!name" for a default. At the very beginning, Express drops a byte order mark, and URLSearchParams "?". */
function isDropped(text: string, at: number): boolean {
  const code = characterAt(text, at, text.length);
  if (code === space || code === open || code === close || code === exclamationMark) return true;
  if (at > 3) return false;
  return (
    hasByteOrderMark(text, at) || (text.charCodeAt(at) === questionMark && (at === 0 || hasByteOrderMark(text, 0)))
  );
}

function hasByteOrderMark(text: string, at: number): boolean {
  return at === 0 && text.charCodeAt(0) === 0xef && text.charCodeAt(1) === 0xbb && text.charCodeAt(2) === 0xbf;
}

function compareFrom(text: string, start: number, end: number, name: string): number {
  let at = start;
  let isSame = true;
  /** Whether "[" is read as "_", as PHP does if no "]" follows. */
  let isUnclosed = false;
  let dropped = 0;
  let before = 0;
  for (let i = 0; i < name.length; i++) {
    const wanted = name.charCodeAt(i);
    let code = characterAt(text, at, end);
    if (code !== wanted) {
      isSame = false;
      // Rack and Express take any brackets in a row for one.
      if (wanted === close) continue;
      while (code === broken || isBracketMore(code, wanted, before)) {
        if (dropped === mostDropped) return similarName;
        dropped += 1;
        at += widthAt(text, at, end);
        code = characterAt(text, at, end);
      }
      // "ids" is "ids[]" to a server that reads lists.
      if (code === ended) return wanted === open && i === name.length - 2 ? similarName : otherName;
      if (!isTakenFor(code, wanted)) return otherName;
      if (code === open && wanted !== open) isUnclosed = true;
    }
    before = code;
    at += widthAt(text, at, end);
  }
  if (at >= end && isSame) return sameName;
  if (isUnclosed && isClosed(text, start, end)) return otherName;
  // Within or behind brackets, there may be anything.
  if (before === open || before === close) return similarName;
  const next = characterAt(text, at, end);
  // PHP cuts a name at a byte 0.
  const isEnd = next === ended || next === 0 || next === broken || next === open || next === close;
  return isEnd ? similarName : otherName;
}

function isBracketMore(code: number, wanted: number, before: number): boolean {
  if (code === close) return wanted !== open;
  return code === open && (before === open || before === close);
}

/** Returns whether a server reads one character as the other: ASP.NET ignores case, and PHP reads some characters as "_". */
function isTakenFor(code: number, wanted: number): boolean {
  if (code === wanted) return true;
  if (code >= ofUnicode) return isTakenFor(code - ofUnicode, wanted);
  if (code >= 128) return wanted >= 128;
  if (wanted === open) return code === close;
  if (isReadAsUnderscore(wanted)) return isReadAsUnderscore(code) || code === open;
  return isSameInAnyCase(code, wanted);
}

function isSameInAnyCase(code: number, wanted: number): boolean {
  return code === wanted || (isLetter(code) && isLetter(wanted) && code % 32 === wanted % 32);
}

function isReadAsUnderscore(code: number): boolean {
  return code === underscore || code === dot || code === space;
}

function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

/** Returns whether there is a "]", before a byte 0. */
function isClosed(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at += widthAt(text, at, end)) {
    const code = characterAt(text, at, end);
    if (code === close || code === 0) return code === close;
  }
  return false;
}

/** @returns the decoded character, or `ended`, or `broken`, or what %uXXXX stands for and `ofUnicode` */
function characterAt(text: string, at: number, end: number): number {
  if (at >= end) return ended;
  const code = text.charCodeAt(at);
  if (code === percent) return escapedAt(text, at, end);
  return code === plus ? space : code;
}

function escapedAt(text: string, at: number, end: number): number {
  if (text.charCodeAt(at + 1) === letterU) {
    const first = byteAt(text, at + 2, end);
    const second = byteAt(text, at + 4, end);
    return first < 0 || second < 0 ? broken : ofUnicode + 256 * first + second;
  }
  const code = byteAt(text, at + 1, end);
  return code < 0 ? broken : code;
}

/** @returns the byte that is written in two digits, or a negative number */
function byteAt(text: string, at: number, end: number): number {
  const high = hexDigit(text.charCodeAt(at));
  const low = hexDigit(text.charCodeAt(at + 1));
  return at + 2 > end || high < 0 || low < 0 ? -1 : 16 * high + low;
}

/** @returns how many characters are one in the decoded text. nginx drops a digit after "%" if no second one follows */
function widthAt(text: string, at: number, end: number): number {
  if (text.charCodeAt(at) !== percent) return 1;
  const code = escapedAt(text, at, end);
  if (code === broken) return hexDigit(text.charCodeAt(at + 1)) < 0 ? 1 : 2;
  return code >= ofUnicode ? 6 : 3;
}

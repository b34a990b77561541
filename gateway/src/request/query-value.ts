// Reads the value of a name in the arguments of a query. Names are case-sensitive: nginx's own $arg_… takes `API_KEY=x` for
// `api_key`, so a client that puts one in front could choose another counter with each request.
//
// The fields of a form are written in the same way (form-value.ts).
//
// If a name occurs twice, some servers take the first and others the last; some also split at ";"; and an invalid
// percent-encoding is dropped, kept or refused. No counter can be chosen by such a value.

import { hexDigit } from "../../../limiter/src/basics/hex-digit.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";

const space = 32;
const percent = 37;
const plus = 43;
const semicolonCode = 59;
const equalsCode = 61;

/** PHP, Express and others read no more of them, and ignore the rest. */
const mostArguments = 1000;

/**
 * @param query without the "?". Name and value are compared and returned decoded, as an upstream reads them.
 * @returns undefined: no such argument. false: servers differ on its value
 */
export function queryValue(query: string, name: string): Reading {
  // The first argument is handled separately: a loop that mostly runs once ends LuaJIT's trace of everything that leads there.
  const end = endOf(query, "&", 0);
  const first = argumentValue(query, 0, end, name);
  return first === false || end >= query.length ? first : laterValue(query, end + 1, name, first);
}

/** @param before the value of an argument before these */
function laterValue(query: string, from: number, name: string, before: string | undefined): Reading {
  let value = before;
  let start = from;
  let count = 1;
  // Each is looked for again only when it has been passed: a form may have many arguments, and long ones.
  let equals = -1;
  let semicolon = -1;
  while (start < query.length) {
    count += 1;
    if (count > mostArguments) return false;
    const end = endOf(query, "&", start);
    if (equals < start) equals = endOf(query, "=", start);
    if (semicolon < start) semicolon = endOf(query, ";", start);
    const other = valueBetween(query, start, equals, semicolon, end, name);
    if (other === false) return false;
    if (other !== undefined && value !== undefined && other !== value) return false;
    if (other !== undefined) value = other;
    start = end + 1;
  }
  return value;
}

/** @returns undefined if the argument has another name */
function argumentValue(query: string, start: number, end: number, name: string): Reading {
  return valueBetween(query, start, endOf(query, "=", start), endOf(query, ";", start), end, name);
}

/** @param equals where the next "=" is, perhaps behind the argument @param semicolon where the next ";" is */
function valueBetween(
  query: string,
  start: number,
  equals: number,
  semicolon: number,
  end: number,
  name: string,
): Reading {
  if (start === end) return undefined;
  if (semicolon < end) return isNamedAmong(query, start, end, name) ? false : undefined;
  const endOfName = Math.min(equals, end);
  if (!isNamed(query, start, endOfName, name)) return undefined;
  const written = query.slice(endOfName + 1, end);
  return isWellEncoded(written) ? decoded(written) : false;
}

/** Returns whether the name is found by a server that splits at ";", or by one that does not. */
function isNamedAmong(query: string, start: number, end: number, name: string): boolean {
  let from = start;
  let endOfName = -1;
  let firstEndOfName = end;
  // Byte by byte: a search might go on far behind the argument, again and again.
  for (let at = start; at <= end; at++) {
    const code = at === end ? semicolonCode : query.charCodeAt(at);
    if (code === equalsCode && endOfName < 0) {
      endOfName = at;
      if (firstEndOfName === end) firstEndOfName = at;
    } else if (code === semicolonCode) {
      if (isNamed(query, from, endOfName < 0 ? at : endOfName, name)) return true;
      from = at + 1;
      endOfName = -1;
    }
  }
  return isNamed(query, start, firstEndOfName, name);
}

/**
 * Returns whether the decoded text at this place is the name. It is compared in place: a client may send hundreds of names, and
 * LuaJIT interns each string made of one; it searches strings with equal hashes one by one.
 */
function isNamed(query: string, start: number, end: number, name: string): boolean {
  // A character is written as one or three bytes.
  if (end - start < name.length || end - start > 3 * name.length) return false;
  let at = start;
  for (let i = 0; i < name.length; i++) {
    if (at >= end) return false;
    let code = query.charCodeAt(at);
    if (code === percent) {
      const high = hexDigit(query.charCodeAt(at + 1));
      const low = hexDigit(query.charCodeAt(at + 2));
      // This is not a valid encoding, so nginx's decoder decides.
      if (high < 0 || low < 0 || at + 2 >= end) return decoded(query.slice(start, end)) === name;
      code = 16 * high + low;
      at += 2;
    } else if (code === plus) {
      code = space;
    }
    if (code !== name.charCodeAt(i)) return false;
    at += 1;
  }
  return at === end;
}

function endOf(text: string, separator: string, start: number): number {
  const at = text.indexOf(separator, start);
  return at < 0 ? text.length : at;
}

function isWellEncoded(text: string): boolean {
  if (!text.includes("%")) return true;
  const end = text.length;
  if (text.charCodeAt(end - 1) === percent || text.charCodeAt(end - 2) === percent) return false;
  return string.find(text, "%%%x?[^%x]")[0] === undefined;
}

function decoded(text: string): string {
  return text.includes("%") || text.includes("+") ? ngx.unescape_uri(text) : text;
}

// The value of a name in the arguments of a query. Names are told apart by case: nginx's own $arg_… takes `API_KEY=x` for
// `api_key`, so that whoever puts one in front would pick his counter anew with each request.
//
// Of a name that comes twice some servers take the first and others the last, some cut at ";" too, and what is no
// percent-encoding is dropped, kept or refused: such a value is none that a counter could go by.

import { hexDigit } from "../../../limiter/src/basics/hex-digit.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";

const space = 32;
const percent = 37;
const plus = 43;

/**
 * @param query without the "?". Both name and value are compared and returned decoded, as an upstream reads them.
 * @returns undefined: no such argument. false: servers differ on its value
 */
export function queryValue(query: string, name: string): Reading {
  // The first by itself: a loop that mostly turns once ends LuaJIT's trace of all that leads there.
  const end = endOf(query, "&", 0);
  const first = argumentValue(query, 0, end, name);
  return first === false || end >= query.length ? first : laterValue(query, end + 1, name, first);
}

/** @param before the value of one that came before these */
function laterValue(query: string, from: number, name: string, before: string | undefined): Reading {
  let value = before;
  let start = from;
  while (start < query.length) {
    const end = endOf(query, "&", start);
    const other = argumentValue(query, start, end, name);
    if (other === false) return false;
    if (other !== undefined && value !== undefined && other !== value) return false;
    if (other !== undefined) value = other;
    start = end + 1;
  }
  return value;
}

/** @returns undefined where another name stands there */
function argumentValue(query: string, start: number, end: number, name: string): Reading {
  if (start === end) return undefined;
  const semicolon = endOf(query, ";", start);
  if (semicolon < end) return isNamedAmong(query, start, end, name) ? false : undefined;
  const equals = Math.min(endOf(query, "=", start), end);
  if (!isNamed(query, start, equals, name)) return undefined;
  const written = query.slice(equals + 1, end);
  return isWellEncoded(written) ? decoded(written) : false;
}

/** Whether a server that cuts at ";" finds the name there, or one that does not. */
function isNamedAmong(query: string, start: number, end: number, name: string): boolean {
  let from = start;
  while (from <= end) {
    const upTo = Math.min(endOf(query, ";", from), end);
    if (isNamed(query, from, Math.min(endOf(query, "=", from), upTo), name)) return true;
    from = upTo + 1;
  }
  return isNamed(query, start, Math.min(endOf(query, "=", start), end), name);
}

/**
 * Whether what stands there is the name, decoded. Compared in place: a client sends names by the hundred, and LuaJIT keeps each
 * text that is made of one; those that its hash does not tell apart it finds one by one.
 */
function isNamed(query: string, start: number, end: number, name: string): boolean {
  // A character is written with one or three.
  if (end - start < name.length || end - start > 3 * name.length) return false;
  let at = start;
  for (let i = 0; i < name.length; i++) {
    if (at >= end) return false;
    let code = query.charCodeAt(at);
    if (code === percent) {
      const high = hexDigit(query.charCodeAt(at + 1));
      const low = hexDigit(query.charCodeAt(at + 2));
      // No encoding: nginx says itself what it makes of it.
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
  const [inside] = string.find(text, "%%%x?[^%x]");
  const [atEnd] = string.find(text, "%%%x?$");
  return inside === undefined && atEnd === undefined;
}

function decoded(text: string): string {
  return text.includes("%") || text.includes("+") ? ngx.unescape_uri(text) : text;
}

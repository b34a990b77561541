// The value of a name in the arguments of a query. Names are told apart by case: nginx's own $arg_… takes `API_KEY=x` for
// `api_key`, so that whoever puts one in front would pick his counter anew with each request.
//
// Of a name that comes twice some servers take the first and others the last, some cut at ";" too, and what is no
// percent-encoding is dropped, kept or refused: such a value is none that a counter could go by.

import type { Reading } from "../../../limiter/src/key/key-part.ts";

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
  if (semicolon < end) return isNamedAmong(query.slice(start, end), name) ? false : undefined;
  const equals = Math.min(endOf(query, "=", start), end);
  if (decoded(query.slice(start, equals)) !== name) return undefined;
  const written = query.slice(equals + 1, end);
  return isWellEncoded(written) ? decoded(written) : false;
}

/** Whether a server that cuts at ";" finds the name there, or one that does not. */
function isNamedAmong(argument: string, name: string): boolean {
  let start = 0;
  while (start <= argument.length) {
    const end = endOf(argument, ";", start);
    const equals = Math.min(endOf(argument, "=", start), end);
    if (decoded(argument.slice(start, equals)) === name) return true;
    start = end + 1;
  }
  return decoded(argument.slice(0, endOf(argument, "=", 0))) === name;
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

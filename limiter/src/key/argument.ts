// Reads the value of a name in the arguments of a query, or in the fields of a form, which are written in the same way. Names are
// case-sensitive: nginx's own $arg_… takes `API_KEY=x` for `api_key`, so a client that puts one in front could choose another counter with
// each request.
//
// If a name occurs twice, some servers take the first and others the last; some take other names for it (argument-name.ts); some also split
// at ";"; and an invalid percent-encoding is dropped, kept or refused. No counter can be chosen by such a value.

import { hexDigit } from "../basics/hex-digit.ts";
import { compareArgumentName, nameWithin, otherName, sameName } from "./argument-name.ts";
import { withoutBlanks } from "./blanks.ts";
import type { Reading } from "./key-part.ts";
import { percentDecoded } from "./percent-encoding.ts";

const percent = 37;
const plus = 43;
const digit0 = 48;
const digit1 = 49;
const semicolonCode = 59;
const equalsCode = 61;

/**
 * Decodes a value that is ASCII, and encoded in the usual way; undefined if that is not known. nginx finds that out without a loop in Lua, which
 * would end LuaJIT's trace of everything that leads there: a request would cost half as much again.
 */
export type ReadUsual = (this: void, written: string) => string | undefined;

/** PHP, Express and others read no more of them, and ignore the rest. What ";" separates counts, too: to some servers it is an argument. */
const mostArguments = 1000;
/** Work space: how many more there may be in the text that is read. */
let argumentsLeft = 0;

/**
 * @param query without the "?", one character below 256 for each byte, as in Lua. Name and value are compared and returned decoded, as an
 * upstream reads them, and the value without the blanks around it.
 * @returns undefined: no such argument. false: servers differ on its value
 */
export function argumentValue(query: string, name: string, readUsual: ReadUsual): Reading {
  const value = wholeArgument(query, name, readUsual, true);
  return value === undefined || value === false ? value : withoutBlanks(value);
}

/**
 * @param mayHaveEquals whether "=" may be in the value as it is. Play ends a value there, and browsers encode it in a form
 * @returns what `argumentValue` returns, with the blanks around it, whatever `isOtherWithin` finds
 */
export function wholeArgument(query: string, name: string, readUsual: ReadUsual, mayHaveEquals: boolean): Reading {
  // The first argument is handled separately: a loop that mostly runs once ends LuaJIT's trace of everything that leads there.
  const end = endOf(query, "&", 0);
  argumentsLeft = mostArguments - 1;
  const first = valueBetween(query, 0, endOf(query, "=", 0), endOf(query, ";", 0), end, name, readUsual, mayHaveEquals);
  return first === false || end >= query.length
    ? first
    : laterValue(query, end + 1, name, readUsual, mayHaveEquals, first);
}

/**
 * Returns whether an argument with another value ends with the name, as "model.name" and "model[name]" do. Frameworks that bind arguments to an
 * object, such as ASP.NET, take it for the name if the object's name is the one before it.
 *
 * @param query of which `wholeArgument` has read the name, so that it has no more arguments than that allows
 */
export function isOtherWithin(query: string, name: string, value: string, readUsual: ReadUsual): boolean {
  if (!query.includes(".") && !query.includes("[") && !query.includes("%")) return false;
  let start = 0;
  let equals = -1;
  while (start < query.length) {
    const end = endOf(query, "&", start);
    if (equals < start) equals = endOf(query, "=", start);
    const endOfName = Math.min(equals, end);
    if (compareArgumentName(query, start, endOfName, name) === nameWithin) {
      const written = query.slice(endOfName + 1, end);
      if ((readUsual(written) ?? argumentText(written)) !== value) return true;
    }
    start = end + 1;
  }
  return false;
}

/** @param before the value of an argument before these */
function laterValue(
  query: string,
  from: number,
  name: string,
  readUsual: ReadUsual,
  mayHaveEquals: boolean,
  before: string | undefined,
): Reading {
  let value = before;
  let start = from;
  // Each is looked for again only when it has been passed: a form may have many arguments, and long ones.
  let equals = -1;
  let semicolon = -1;
  while (start < query.length) {
    argumentsLeft -= 1;
    if (argumentsLeft < 0) return false;
    const end = endOf(query, "&", start);
    if (equals < start) equals = endOf(query, "=", start);
    if (semicolon < start) semicolon = endOf(query, ";", start);
    const other = valueBetween(query, start, equals, semicolon, end, name, readUsual, mayHaveEquals);
    if (other === false) return false;
    if (other !== undefined && value !== undefined && other !== value) return false;
    if (other !== undefined) value = other;
    start = end + 1;
  }
  return value;
}

/**
 * @param equals where the next "=" is, perhaps behind the argument @param semicolon where the next ";" is
 * @returns undefined if the argument has another name
 */
function valueBetween(
  query: string,
  start: number,
  equals: number,
  semicolon: number,
  end: number,
  name: string,
  readUsual: ReadUsual,
  mayHaveEquals: boolean,
): Reading {
  if (start === end) return undefined;
  if (semicolon < end) return isNamedAmong(query, start, end, name) ? false : undefined;
  const endOfName = Math.min(equals, end);
  const likeness = compareArgumentName(query, start, endOfName, name);
  if (likeness === otherName || likeness === nameWithin) return undefined;
  if (likeness !== sameName) return false;
  const written = query.slice(endOfName + 1, end);
  if (!mayHaveEquals && written.includes("=")) return false;
  return readUsual(written) ?? argumentText(written);
}

/** Returns whether the name is found by a server that splits at ";", or by one that does not; or whether there are too many arguments. */
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
      if (at < end) argumentsLeft -= 1;
      if (argumentsLeft < 0) return true;
      const to = endOfName < 0 ? at : endOfName;
      if (isTakenForName(query, from, to, name)) return true;
      from = at + 1;
      endOfName = -1;
    }
  }
  return isTakenForName(query, start, firstEndOfName, name);
}

function isTakenForName(query: string, start: number, end: number, name: string): boolean {
  const likeness = start < end ? compareArgumentName(query, start, end, name) : otherName;
  return likeness !== otherName && likeness !== nameWithin;
}

/** @returns false if servers read what is written differently */
export function argumentText(written: string): string | false {
  let isEncoded = false;
  for (let i = 0; i < written.length; i++) {
    const code = written.charCodeAt(i);
    // Node reads bytes of a query beyond ASCII as Latin-1, and Tomcat refuses them.
    if (code >= 128 || isControl(code) || (code === percent && isControlAt(written, i + 1))) return false;
    if (code === percent || code === plus) isEncoded = true;
  }
  return isEncoded ? (percentDecoded(written, " ") ?? false) : written;
}

/** Tornado takes such a character for a blank, and Rack drops a byte 0 at the end of a form. Tabs and ends of lines are none of these. */
function isControl(code: number): boolean {
  return code < 32 && (code < 9 || code > 13);
}

/** @param at of the two digits of a percent-encoding */
function isControlAt(written: string, at: number): boolean {
  const high = written.charCodeAt(at);
  return high === digit1 || (high === digit0 && isControl(hexDigit(written.charCodeAt(at + 1))));
}

function endOf(text: string, separator: string, start: number): number {
  const at = text.indexOf(separator, start);
  return at < 0 ? text.length : at;
}

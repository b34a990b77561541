// Reads the request's headers line by line. If a header occurs twice, nginx before 1.23 has only the first line in its variable,
// and later versions have all lines joined; the service behind nginx may take the first, the last or all.
//
// In nginx since 1.23, a variable without ", " in it is a single line, and then the lines are not searched.

import { shared, sharing } from "../../../limiter/src/basics/sharing.ts";
import type { Reading } from "../../../limiter/src/key/key-part.ts";
import { requestPointer } from "../runtime/lua-modules.ts";

interface Text {
  readonly len: number;
  readonly data: object;
}

interface Line {
  /** In lower case. */
  readonly key: Text;
  readonly value: Text;
}

// resty.core has declared these types and functions to the ffi.
const ffi = require("ffi") as {
  "new"(this: void, type: string, count: number): LuaTable<number, Line>;
  string(this: void, data: object, bytes: number): string;
  readonly C: {
    /** @param max 0: no limit */
    ngx_http_lua_ffi_req_get_headers_count(this: void, request: unknown, max: number, truncated: unknown): number;
    ngx_http_lua_ffi_req_get_headers(
      this: void,
      request: unknown,
      lines: LuaTable<number, Line>,
      count: number,
      raw: 0,
    ): number;
  };
};

const linesType = "ngx_http_lua_ffi_table_elt_t[?]";
const truncated = ffi.new("int[?]", 1);
/** nginx's variables by header name. */
const variables = sharing<string>();
const joinsLines = ngx.config.nginx_version >= 1_023_000;

/** Work space, which is read before anything yields. */
let room = 64;
let lines = ffi.new(linesType, room);

/**
 * Returns the value without surrounding blanks: nginx leaves tabs, and servers strip whatever they consider a blank.
 *
 * @param name in lower case
 * @returns false if the header occurred more than once
 */
export function readHeader(this: void, name: string): Reading {
  const value = ngx.var[variables.known[name] ?? shared(variables, name, () => variableOf(name))];
  if (value === undefined) return undefined;
  if (joinsLines && string.find(value, ", ", 1, true)[0] === undefined) return withoutBlanks(value);
  const count = countLines();
  let found: Line | undefined;
  for (let i = 0; i < count; i++) {
    const line = lines.get(i);
    if (!isNamed(line, name)) continue;
    if (found !== undefined) return false;
    found = line;
  }
  return found === undefined ? undefined : lineValue(found);
}

/**
 * Returns whether any line of the header has one of these values: a policy that matches a value also matches if the request sends
 * other values beside it.
 */
export function hasHeader(this: void, name: string, values: Readonly<Record<string, boolean>>): boolean {
  const value = readHeader(name);
  if (value !== false) return value !== undefined && values[value] === true;
  return hasAny(headerLines(name), values);
}

export function hasAny(lines: readonly string[], values: Readonly<Record<string, boolean>>): boolean {
  for (const line of lines) if (values[line] === true) return true;
  return false;
}

/** Returns the values of all lines of the header. */
export function headerLines(this: void, name: string): readonly string[] {
  const value = readHeader(name);
  if (value !== false) return value === undefined ? [] : [value];
  const values: string[] = [];
  const count = countLines();
  for (let i = 0; i < count; i++) {
    const line = lines.get(i);
    if (isNamed(line, name)) values.push(lineValue(line));
  }
  return values;
}

/** Fills `lines`. @returns the number of lines */
function countLines(): number {
  const request = requestPointer();
  const count = ffi.C.ngx_http_lua_ffi_req_get_headers_count(request, 0, truncated);
  if (count > room) {
    room = count;
    lines = ffi.new(linesType, room);
  }
  const filled = ffi.C.ngx_http_lua_ffi_req_get_headers(request, lines, count, 0);
  // Otherwise the function returned a code of its own, for something that is not a request.
  return filled === 0 ? count : 0;
}

/** nginx treats "_" like "-", if it accepts such names at all, and so do services that follow the rules of CGI. */
function isNamed({ key }: Line, name: string): boolean {
  if (key.len !== name.length) return false;
  const written = ffi.string(key.data, key.len);
  return written === name || withDashes(written) === withDashes(name);
}

function withDashes(name: string): string {
  return string.find(name, "_", 1, true)[0] === undefined ? name : string.gsub(name, "_", "-")[0];
}

function lineValue({ value }: Line): string {
  return withoutBlanks(ffi.string(value.data, value.len));
}

function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  // No pattern is used here: one that searches for blanks at the end scans each run of blanks again from each of its characters.
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code <= 32 || code === 0x85 || code === 0xa0;
}

function variableOf(name: string): string {
  return `http_${string.gsub(name, "%-", "_")[0]}`;
}

// Reads the request's headers line by line. If a header occurs twice, nginx before 1.23 has only the first line in its variable,
// and later versions have all lines joined; the service behind nginx may take the first, the last or all.
//
// In nginx since 1.23, a variable without ", " in it is a single line, and then the lines are not searched.

import { shared, sharing } from "../../../limiter/src/basics/sharing.ts";
import { withoutBlanks } from "../../../limiter/src/key/blanks.ts";
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
  const value = ngx.var[nginxVariable(name)];
  if (value === undefined) return undefined;
  if (joinsLines && string.find(value, ", ", 1, true)[0] === undefined) return withoutBlanks(value);
  const count = countLines();
  const dashed = withDashes(name);
  let found: Line | undefined;
  for (let i = 0; i < count; i++) {
    const line = lines.get(i);
    if (!isNamed(line, dashed)) continue;
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
  const dashed = withDashes(name);
  for (let i = 0; i < count; i++) {
    const line = lines.get(i);
    if (isNamed(line, dashed)) values.push(lineValue(line));
  }
  return values;
}

/** The values of all lines as they came, by header name, with "-" for "_". */
export type AllHeaders = LuaTable<string, string[] | undefined>;

/** For a request of which many headers are read: to look for one costs as much as there are lines. */
export function readAllHeaders(this: void): AllHeaders {
  const all: AllHeaders = new LuaTable();
  const count = countLines();
  for (let i = 0; i < count; i++) {
    const { key, value } = lines.get(i);
    const name = withDashes(ffi.string(key.data, key.len));
    const text = ffi.string(value.data, value.len);
    const values = all.get(name);
    if (values === undefined) all.set(name, [text]);
    else values.push(text);
  }
  return all;
}

const noLines: readonly string[] = [];

/** Returns what headerLines returns. */
export function linesAmong(this: void, all: AllHeaders, name: string): readonly string[] {
  const lines = all.get(withDashes(name));
  if (lines === undefined) return noLines;
  const values: string[] = [];
  for (const line of lines) values.push(withoutBlanks(line));
  return values;
}

/** Returns the name of each header as it came, in lower case. */
export function sentNames(this: void): readonly string[] {
  const names: string[] = [];
  const count = countLines();
  for (let i = 0; i < count; i++) {
    const { key } = lines.get(i);
    names.push(ffi.string(key.data, key.len));
  }
  return names;
}

/**
 * Removes the header, also where a client has written "_" for "-", which `ngx.req.clear_header` takes for another name.
 *
 * @param name in lower case, with "-"
 */
export function clearHeader(this: void, name: string): void {
  const variable = nginxVariable(name);
  if (ngx.var[variable] === undefined) return;
  ngx.req.clear_header(name);
  if (ngx.var[variable] === undefined) return;
  for (const sent of sentNames()) if (withDashes(sent) === name) ngx.req.clear_header(sent);
}

/** nginx makes these itself, of a line of the request or of what HTTP/2 has instead of one, and finds them at once. */
const ofNginx: Readonly<Record<string, boolean>> = {
  host: true,
  cookie: true,
  referer: true,
  via: true,
  "user-agent": true,
  "x-forwarded-for": true,
};

export function isOfNginx(this: void, name: string): boolean {
  return ofNginx[name] === true;
}

/** Returns the value of nginx's variable of a header that is not of nginx. */
export function variableAmong(this: void, all: AllHeaders, name: string): string | undefined {
  const lines = all.get(withDashes(name));
  if (lines === undefined) return undefined;
  return joinsLines ? lines.join(", ") : lines[0];
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

/**
 * nginx treats "_" like "-", if it accepts such names at all, and so do services that follow the rules of CGI.
 *
 * @param dashed with "-" for "_"
 */
function isNamed({ key }: Line, dashed: string): boolean {
  return key.len === dashed.length && withDashes(ffi.string(key.data, key.len)) === dashed;
}

export function withDashes(this: void, name: string): string {
  return string.find(name, "_", 1, true)[0] === undefined ? name : string.gsub(name, "_", "-")[0];
}

function lineValue({ value }: Line): string {
  return withoutBlanks(ffi.string(value.data, value.len));
}

function nginxVariable(name: string): string {
  return variables.known[name] ?? shared(variables, name, () => variableOf(name));
}

function variableOf(name: string): string {
  return `http_${string.gsub(name, "%-", "_")[0]}`;
}

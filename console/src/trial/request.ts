// A request that somebody makes up, as a gateway would read it: nginx's normal form of the path, and the parts of a key.

import { argumentValue } from "@sluice/limiter/key/argument.ts";
import { authorizationValue, bearerToken, valueWithToken } from "@sluice/limiter/key/authorization.ts";
import { isOnlySpelling } from "@sluice/limiter/key/base64.ts";
import { cookieValue, isFoundByServlets } from "@sluice/limiter/key/cookie.ts";
import { fieldValue } from "@sluice/limiter/key/field.ts";
import { formReading, mostFormBytes } from "@sluice/limiter/key/form-type.ts";
import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { claimText, payloadOf } from "@sluice/limiter/key/jwt-claim.ts";
import type { KeyPart } from "@sluice/limiter/key/key-part.ts";
import { isAmbiguousHost } from "@sluice/limiter/match/request-host.ts";
import { withoutParameters } from "@sluice/limiter/match/request-path.ts";

const percent = 37;

export interface MadeUpRequest {
  /** In upper case. */
  readonly method: string;
  /** In lower case, without a port. */
  readonly host: string;
  /** As it is written in the request, with its query. */
  readonly target: string;
  readonly headers: readonly Header[];
  /** Absent: none. */
  readonly body?: string;
  /** Where the request comes from. */
  readonly address: string;
}

export interface Header {
  readonly name: string;
  readonly value: string;
}

/**
 * - string: the value.
 * - absent: the request does not have it.
 * - ambiguous: servers read it differently, so a gateway answers 400.
 * - unknown: only nginx knows its variables, and bytes of a path that are no UTF-8.
 */
export type PartValue =
  | { readonly state: "value"; readonly value: string }
  | { readonly state: "absent" | "ambiguous" | "unknown" };

/** @param text a header in each line @returns the headers, or the first line that is none */
export function parseHeaders(text: string): readonly Header[] | { readonly wrong: string } {
  const headers: Header[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t\r]*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return { wrong: line };
    headers.push({ name: name.toLowerCase(), value });
  }
  return headers;
}

/** @returns the path as nginx's $uri has it: decoded, slashes merged, dots resolved; undefined: nginx answers 400 */
export function normalPath(target: string): string | undefined {
  const [written = ""] = target.split(/[?#]/, 1);
  if (!written.startsWith("/")) return undefined;
  if (/%(?![0-9a-fA-F]{2})|%00/.test(written)) return undefined;
  // Bytes that are no UTF-8 are replaced, as expressions see them.
  const bytes = new TextEncoder().encode(written);
  const decoded = new TextDecoder().decode(percentDecoded(bytes));
  const parts: string[] = [];
  const all = decoded.split("/").slice(1);
  for (const [i, part] of all.entries()) {
    const isLast = i === all.length - 1;
    if (part === "..") {
      if (parts.length === 0) return undefined;
      parts.pop();
      if (isLast) parts.push("");
    } else if (part === "." || part === "") {
      if (isLast) parts.push("");
    } else parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** @param bytes with well-formed escapes */
function percentDecoded(bytes: Uint8Array): Uint8Array {
  const decodedBytes: number[] = [];
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] !== percent) decodedBytes.push(bytes[i] as number);
    else {
      decodedBytes.push(Number.parseInt(String.fromCharCode(bytes[i + 1] as number, bytes[i + 2] as number), 16));
      i += 2;
    }
  }
  return Uint8Array.from(decodedBytes);
}

/** @returns false: the header has several lines */
export function headerOf({ headers, host, body = "" }: MadeUpRequest, name: string): string | undefined | false {
  if (name === "host") return host;
  const [first, ...more] = headers.filter((header) => sameName(header.name, name));
  if (more.length > 0) return false;
  return first === undefined && name === "content-length" && body !== "" ? `${bytesOf(body)}` : first?.value;
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** nginx treats "_" like "-". */
export function sameName(one: string, other: string): boolean {
  return one.replaceAll("_", "-") === other.replaceAll("_", "-");
}

export function partValue(part: KeyPart, request: MadeUpRequest): PartValue {
  if (part.source === "var") return { state: "unknown" };
  if (part.source === "path" && normalPath(request.target)?.includes("\ufffd") === true) return { state: "unknown" };
  const value = inOneSpelling(part, readingOf(part, request));
  if (value === false) return { state: "ambiguous" };
  return value === undefined || value === "" ? { state: "absent" } : { state: "value", value };
}

function inOneSpelling(part: KeyPart, value: string | undefined | false): string | undefined | false {
  const { source } = part;
  const isWritten = source === "header" || source === "cookie" || source === "query" || source === "form";
  if (!isWritten || value === undefined || value === false) return value;
  if (source === "header" && part.name === "authorization") return isOnlySpelling(value) && value;
  return valueWithToken(value, part.name);
}

function readingOf(
  part: Exclude<KeyPart, { source: "var" }> | KeyPart,
  request: MadeUpRequest,
): string | undefined | false {
  switch (part.source) {
    case "ip":
      return ipPrefix(request.address, part.v4Bits, part.v6Bits);
    case "path":
      return withoutParameters(normalPath(request.target) ?? "");
    case "host":
      return isAmbiguousHost(request.host, request.host.toLowerCase()) ? false : request.host;
    case "method":
      return request.method;
    case "const":
      return part.name;
    case "header":
      return part.name === "authorization" ? authorization(request) : headerOf(request, part.name);
    case "cookie":
      return cookieOf(request, part.name);
    case "query":
      return argumentOf(request, part.name);
    case "form":
      return fieldOf(request, part.name);
    default:
      return claimOf(request, part.name);
  }
}

function authorization(request: MadeUpRequest): string | undefined | false {
  const value = headerOf(request, "authorization");
  return value === undefined || value === false ? value : authorizationValue(value);
}

/** Tomcat and Jetty take a session from the path if they find no cookie. */
function cookieOf(request: MadeUpRequest, name: string): string | undefined | false {
  const value = readInBytes((bytes) => cookieValue(bytes(cookiesOf(request)), bytes(name)));
  const [path = ""] = request.target.split("?");
  const isInPath = path.toLowerCase().includes(`;${name.toLowerCase()}=`);
  if (!isInPath || value === false) return value;
  return value !== undefined && value !== "" && isFoundByServlets(cookiesOf(request), name, value) ? value : false;
}

function cookiesOf({ headers }: MadeUpRequest): string {
  const lines = headers.filter(({ name }) => name === "cookie");
  return lines.map(({ value }) => value).join(";");
}

/** @returns false if there is a "#": some services read arguments behind it */
function queryOf({ target }: MadeUpRequest): string | false {
  return target.includes("#") ? false : (/\?(.*)/.exec(target)?.[1] ?? "");
}

function argumentOf(request: MadeUpRequest, name: string): string | undefined | false {
  const query = queryOf(request);
  return query !== false && readInBytes((bytes) => argumentValue(bytes(query), bytes(name), readUsual));
}

function fieldOf(request: MadeUpRequest, name: string): string | undefined | false {
  const { body = "" } = request;
  const form = formReading(headerOf(request, "content-type"), headerOf(request, "content-encoding"));
  const query = queryOf(request);
  if (form === false || query === false) return false;
  const isRead = body === "" || (form !== undefined && bytesOf(body) <= mostFormBytes);
  return readInBytes((bytes) =>
    fieldValue(
      isRead ? bytes(body) : undefined,
      bytes(query),
      bytes(cookiesOf(request)),
      bytes(name),
      form ?? "utf-8",
      readUsual,
    ),
  );
}

/** Not known: no request waits for the answer. */
const readUsual = () => undefined;

/** Reads as in Lua, where a character is a byte. */
function readInBytes(
  read: (bytes: (text: string) => string) => string | undefined | false,
): string | undefined | false {
  const value = read((text) =>
    Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""),
  );
  if (value === undefined || value === false) return value;
  return new TextDecoder().decode(Uint8Array.from(value, (character) => character.charCodeAt(0)));
}

function claimOf(request: MadeUpRequest, name: string): string | undefined | false {
  const value = headerOf(request, "authorization");
  if (value === undefined || value === false) return value;
  const token = bearerToken(value);
  if (token === undefined || token === false) return token;
  const payload = payloadOf(token);
  if (payload === undefined || /[^\w-]/.test(payload)) return undefined;
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
    return claimText(JSON.parse(new TextDecoder().decode(bytes)), name);
  } catch {
    return undefined;
  }
}

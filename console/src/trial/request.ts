// A request that somebody makes up, as a gateway would read it: nginx's normal form of the path, and the parts of a key.

import { authorizationValue, bearerToken } from "@sluice/limiter/key/authorization.ts";
import { cookieValue } from "@sluice/limiter/key/cookie.ts";
import { formReading, mostFormBytes } from "@sluice/limiter/key/form-type.ts";
import { ipPrefix } from "@sluice/limiter/key/ip-prefix.ts";
import { claimText, payloadOf } from "@sluice/limiter/key/jwt-claim.ts";
import type { KeyPart } from "@sluice/limiter/key/key-part.ts";

const percent = 37;
/** As in gateway/src/request/query-value.ts. */
const mostArguments = 1000;

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
  const value = readingOf(part, request);
  if (value === false) return { state: "ambiguous" };
  return value === undefined || value === "" ? { state: "absent" } : { state: "value", value };
}

function readingOf(
  part: Exclude<KeyPart, { source: "var" }> | KeyPart,
  request: MadeUpRequest,
): string | undefined | false {
  switch (part.source) {
    case "ip":
      return ipPrefix(request.address, part.v4Bits, part.v6Bits);
    case "path":
      return normalPath(request.target);
    case "host":
      return request.host;
    case "method":
      return request.method;
    case "const":
      return part.name;
    case "header":
      return part.name === "authorization" ? authorization(request) : headerOf(request, part.name);
    case "cookie": {
      const lines = request.headers.filter(({ name }) => name === "cookie").map(({ value }) => value);
      return cookieValue(lines.join(";"), part.name);
    }
    case "query":
      return argumentOf(queryOf(request), part.name);
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

function queryOf({ target }: MadeUpRequest): string {
  return /\?([^#]*)/.exec(target)?.[1] ?? "";
}

/** A field of the form in the body; an argument of its name must not have another value. */
function fieldOf(request: MadeUpRequest, name: string): string | undefined | false {
  const { body = "" } = request;
  const form = formReading(headerOf(request, "content-type"), headerOf(request, "content-encoding"));
  if (form !== true) return form;
  if (body === "" || bytesOf(body) > mostFormBytes) return undefined;
  const value = argumentOf(body, name);
  if (value === undefined || value === false) return value;
  const argument = argumentOf(queryOf(request), name);
  return argument === undefined || argument === value ? value : false;
}

/** Different values of one name, ";" in an argument of that name, and broken encodings are read differently by servers. */
function argumentOf(query: string, name: string): string | undefined | false {
  let value: string | undefined;
  const all = query.split("&", mostArguments + 1);
  if (all.length > mostArguments) return false;
  for (const argument of all) {
    const parts = argument.split(";").map((part) => part.split("=", 1)[0] ?? "");
    if (argument.includes(";")) {
      if (parts.some((part) => decoded(part) === name) || decoded(argument.split("=", 1)[0] ?? "") === name)
        return false;
      continue;
    }
    const equals = argument.indexOf("=");
    const written = equals < 0 ? "" : argument.slice(equals + 1);
    if (argument === "" || decoded(equals < 0 ? argument : argument.slice(0, equals)) !== name) continue;
    const one = decoded(written);
    if (one === undefined || (value !== undefined && value !== one)) return false;
    value = one;
  }
  return value;
}

function decoded(written: string): string | undefined {
  try {
    return decodeURIComponent(written.replaceAll("+", " "));
  } catch {
    return undefined;
  }
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

// Reads the value of each part of a policy's key from the request.

import type { Terms } from "../../../limiter/src/compiled/compile.ts";
import { encodeKeyValue, encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import { argumentValue } from "../../../limiter/src/key/argument.ts";
import { authorizationValue, bearerToken, valueWithToken } from "../../../limiter/src/key/authorization.ts";
import { hasOddParts } from "../../../limiter/src/key/base64.ts";
import { cookieValue, isFoundByServlets } from "../../../limiter/src/key/cookie.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import { claimText, payloadOf } from "../../../limiter/src/key/jwt-claim.ts";
import { type KeyPart, keyPartText, type Reading } from "../../../limiter/src/key/key-part.ts";
import { withoutParameters } from "../../../limiter/src/match/request-path.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { hasAmbiguousHost, hasPathParameter } from "./ambiguous-target.ts";
import { requestArguments } from "./arguments.ts";
import { type Fields, formValue, readFields, readFormBody, valueAmong } from "./form-value.ts";
import {
  type AllHeaders,
  hasAny,
  headerLines,
  isOfNginx,
  linesAmong,
  readAllHeaders,
  readHeader,
  variableAmong,
} from "./request-headers.ts";
import { readUsual } from "./usual-text.ts";

/**
 * The values that `readKeyValues` read last, in the key's order, not encoded. Values beyond the key's length are left over from
 * other keys.
 */
export const rawKeyValues: string[] = [];

/** What has been read of a request that meets many policies. */
export interface Readings {
  /** By key part, without "ip". True: the request has no such value. */
  readonly known: LuaTable<string, string | boolean | undefined>;
  /** By header. */
  readonly lines: LuaTable<string, readonly string[] | undefined>;
  /** How many headers may still be looked for one by one. */
  headersLeft: number;
  all: AllHeaders | undefined;
  bodyIsRead: boolean;
  fields: Fields | false | undefined;
  /** What policies in shadow mode read is no reason to refuse a request to others. */
  readonly forEnforced: Budget;
  readonly forShadow: Budget;
}

interface Budget {
  bytesLeft: number;
}

/** So many policies read the request each by itself: this costs less than to remember what they read. */
const mostByThemselves = 8;
/** So many headers are looked for one by one: most requests are asked for fewer, and this costs less than to read all. */
const mostHeaders = 8;
/** The most that the others search for names, and read of long values: a form of 64 KB for 8 names. */
const mostBytes = 524_288;
/** Values that are longer are hashed. */
const longValue = 200;

/** The claims that were read last: several key parts and policies often read the claims of the same request. */
let lastToken: string | undefined;
let lastClaims: unknown;

/** @returns undefined: the policies are few */
export function readingsFor(policies: number): Readings | undefined {
  return policies > mostByThemselves
    ? {
        known: new LuaTable(),
        lines: new LuaTable(),
        headersLeft: mostHeaders,
        all: undefined,
        bodyIsRead: false,
        fields: undefined,
        forEnforced: { bytesLeft: mostBytes },
        forShadow: { bytesLeft: mostBytes },
      }
    : undefined;
}

/**
 * @returns the encoded key values; undefined if one is absent or empty and the policy does not share a counter in that case;
 * false if servers read one differently, or if there is too much to read
 * @param isShadow whether the policy turns nobody away, whatever the key is
 */
export function readKeyValues(policy: Terms, readings?: Readings, isShadow = false): Reading {
  const { key } = policy;
  const first = key[0];
  // Indexes instead of the length: LuaJIT has to search for the length of a table.
  if (first !== undefined && key[1] === undefined) {
    const value = readings === undefined ? readPart(first) : readOnce(first, readings, isShadow);
    if (value === false) return false;
    rawKeyValues[0] = value ?? "";
    if (value !== undefined && value !== "") return encodeKeyValue(value, sha1Hex);
    return policy.onMissingKey === "shared" ? encodeKeyValue("", sha1Hex) : undefined;
  }
  const count = key.length;
  for (let i = 0; i < count; i++) {
    const part = key[i] as KeyPart;
    const value = readings === undefined ? readPart(part) : readOnce(part, readings, isShadow);
    if (value === false) return false;
    if ((value === undefined || value === "") && policy.onMissingKey !== "shared") return undefined;
    rawKeyValues[i] = value ?? "";
  }
  return encodeKeyValues(rawKeyValues, count, sha1Hex);
}

/**
 * Returns the values of the current request for a key, not encoded; "" for an absent one.
 *
 * @param readings what has been read of the request already, which is not read again
 */
export function valuesFor({ key }: Terms, readings: Readings | undefined): readonly string[] {
  return key.map((part) => {
    const value = readings?.known.get(keyPartText(part)) ?? readPart(part);
    return typeof value === "string" ? value : "";
  });
}

/** Returns which plan the request names; undefined: none, or servers read different ones. */
export function readPlan(by: KeyPart, readings: Readings | undefined, isShadow: boolean): string | undefined {
  const value = readings === undefined ? readPart(by) : readOnce(by, readings, isShadow);
  return value === false || value === "" ? undefined : value;
}

/** Returns what hasHeader returns, and reads each header once. */
export function hasHeaderOnce(
  this: void,
  readings: Readings,
  name: string,
  values: Readonly<Record<string, boolean>>,
): boolean {
  return hasAny(linesOnce(readings, name), values);
}

/** Returns what readHeader returns, and reads each header once. */
export function readHeaderOnce(readings: Readings, name: string): Reading {
  const lines = linesOnce(readings, name);
  return lines[1] === undefined ? lines[0] : false;
}

/** Does what readFormBody does, once. Yields. */
export function readFormBodyOnce(readings: Readings): void {
  if (readings.bodyIsRead) return;
  readFormBody();
  readings.bodyIsRead = true;
}

function linesOnce(readings: Readings, name: string): readonly string[] {
  const known = readings.lines.get(name);
  if (known !== undefined) return known;
  const lines = isReadAlone(readings, name) ? headerLines(name) : linesAmong(allOnce(readings), name);
  readings.lines.set(name, lines);
  return lines;
}

/** A thousand policies may each look for a header of their own, among a thousand lines. */
function isReadAlone(readings: Readings, name: string): boolean {
  if (isOfNginx(name)) return true;
  readings.headersLeft -= 1;
  return readings.headersLeft >= 0;
}

function allOnce(readings: Readings): AllHeaders {
  readings.all ??= readAllHeaders();
  return readings.all;
}

/** Reads each part once, and no more in all than a bound: a thousand policies may each look for a field of their own in a form. */
function readOnce(part: KeyPart, readings: Readings, isShadow: boolean): Reading {
  if (part.source === "ip") return readPart(part);
  const text = keyPartText(part);
  const budget = isShadow ? readings.forShadow : readings.forEnforced;
  let value = readings.known.get(text);
  if (value === undefined) {
    // It is not known then: there may be bytes left for other policies.
    if (budget.bytesLeft < 0 || !spend(budget, searchedBytes(part, readings))) return false;
    value = readPartOnce(part, readings) ?? true;
    readings.known.set(text, value);
  }
  if (value === true) return undefined;
  return value === false || value.length <= longValue || spend(budget, value.length) ? value : false;
}

/** @returns false: there are not so many bytes left */
function spend(budget: Budget, bytes: number): boolean {
  budget.bytesLeft -= bytes;
  return budget.bytesLeft >= 0;
}

/** Returns in how many bytes a name is searched for. */
function searchedBytes(part: KeyPart, readings: Readings): number {
  const { source } = part;
  if (source === "query") return lengthOf("args");
  if (source === "form") {
    const fields = fieldsOnce(readings);
    return fields === false ? 0 : (fields.body ?? "").length + fields.query.length + fields.cookies.length;
  }
  if (source === "cookie") return lengthOf("http_cookie");
  if (source === "jwt") {
    const authorization = readHeaderOnce(readings, "authorization");
    return authorization === undefined || authorization === false ? 0 : authorization.length;
  }
  if (source !== "var") return 0;
  const name = part.name.toLowerCase();
  if (name.startsWith("arg_")) return lengthOf("args");
  return name.startsWith("cookie_") ? lengthOf("http_cookie") : 0;
}

function lengthOf(variable: string): number {
  return (ngx.var[variable] ?? "").length;
}

/** Returns what readPart returns, and looks for nothing twice. */
function readPartOnce(part: KeyPart, readings: Readings): Reading {
  const { source } = part;
  if (source === "header") {
    const value = readHeaderOnce(readings, part.name);
    return part.name === "authorization" ? credentialOf(value) : single(value, part.name);
  }
  if (source === "jwt") return claimOf(readHeaderOnce(readings, "authorization"), part.name);
  if (source === "form") {
    const fields = fieldsOnce(readings);
    return fields === false ? false : single(valueAmong(fields, part.name), part.name);
  }
  if (source === "var") {
    const name = part.name.toLowerCase();
    const [header] = string.gsub(name.slice(5), "_", "-");
    if (name.startsWith("http_") && !isOfNginx(header)) return variableOnce(readings, part.name, header);
  }
  return readPart(part);
}

function fieldsOnce(readings: Readings): Fields | false {
  readings.fields ??= readFields();
  return readings.fields;
}

function variableOnce(readings: Readings, variable: string, header: string): Reading {
  return isReadAlone(readings, header) ? ngx.var[variable] : variableAmong(allOnce(readings), header);
}

/** Not a switch, which the compiler to Lua turns into a loop that LuaJIT tries to trace on its own. */
function readPart(part: KeyPart): Reading {
  const { source } = part;
  // The peer's address as nginx sees it, after the realip module if the operator configured it. No header is trusted here.
  if (source === "ip") return ipPrefix(ngx.var["remote_addr"] as string, part.v4Bits, part.v6Bits);
  if (source === "header")
    return part.name === "authorization"
      ? credentialOf(readHeader("authorization"))
      : single(readHeader(part.name), part.name);
  if (source === "cookie") return single(readCookie(part.name), part.name);
  if (source === "query") return single(readArgument(part.name), part.name);
  if (source === "jwt") return claimOf(readHeader("authorization"), part.name);
  if (source === "form") return single(formValue(part.name), part.name);
  if (source === "var") return ngx.var[part.name];
  if (source === "const") return part.name;
  if (source === "path") return withoutParameters(ngx.var["uri"] ?? "");
  if (source === "host") return readHost();
  return ngx.req.get_method();
}

/** Tomcat and Jetty take a session from the path if they find no cookie: `/work;jsessionid=ID`. */
function readCookie(name: string): Reading {
  const cookies = ngx.var["http_cookie"] ?? "";
  const value = cookieValue(cookies, name);
  if (value === false) return false;
  if (value !== undefined && value !== "" && isFoundByServlets(cookies, name, value)) return value;
  return hasPathParameter(name) ? false : value;
}

function readHost(): Reading {
  const host = ngx.var["host"] ?? "";
  return hasAmbiguousHost(host) ? false : host;
}

/** @returns false for a token that servers also accept in other spellings */
function single(value: Reading, name: string): Reading {
  return value === undefined || value === false ? value : valueWithToken(value, name);
}

function readArgument(name: string): Reading {
  const query = requestArguments();
  return query === false ? false : argumentValue(query, name, readUsual);
}

function credentialOf(authorization: Reading): Reading {
  return authorization === undefined || authorization === false ? authorization : authorizationValue(authorization);
}

function claimOf(authorization: Reading, name: string): Reading {
  if (authorization === undefined || authorization === false) return authorization;
  const token = bearerToken(authorization);
  if (token === undefined || token === false) return token;
  if (hasOddParts(token)) return false;
  const claims = claimsOf(token);
  return claims === false ? false : claimText(claims, name);
}

/** The claims are not verified. Undefined if it is no token; false if they begin as an object and cannot be read. */
function claimsOf(token: string): unknown {
  if (token !== lastToken) {
    lastToken = token;
    const payload = payloadOf(token);
    lastClaims = payload === undefined ? undefined : decodeClaims(payload);
  }
  return lastClaims;
}

function decodeClaims(base64Url: string): unknown {
  if (string.find(base64Url, "[^%w_-]")[0] !== undefined) return undefined;
  const [plus] = string.gsub(base64Url, "-", "+");
  const [base64] = string.gsub(plus, "_", "/");
  const json = ngx.decode_base64(base64);
  if (json === undefined) return undefined;
  const [claims] = cjson.decode(json);
  // Other servers read some of these: with half of a surrogate pair, or a thousand levels deep.
  return claims === undefined && string.find(json, "^%s*{")[0] !== undefined ? false : claims;
}

export function sha1Hex(text: string): string {
  return hexOf(ngx.sha1_bin(text));
}

export function hexOf(bytes: string): string {
  const [hex] = string.gsub(bytes, ".", (byte) => string.format("%02x", string.byte(byte)));
  return hex;
}

// Reads the value of each part of a policy's key from the request.

import type { Terms } from "../../../limiter/src/compiled/compile.ts";
import { encodeKeyValue, encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import { argumentValue } from "../../../limiter/src/key/argument.ts";
import { authorizationValue, bearerToken } from "../../../limiter/src/key/authorization.ts";
import { cookieValue } from "../../../limiter/src/key/cookie.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import { claimText, payloadOf } from "../../../limiter/src/key/jwt-claim.ts";
import type { KeyPart, Reading } from "../../../limiter/src/key/key-part.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { formValue } from "./form-value.ts";
import { readHeader } from "./request-headers.ts";
import { readUsual } from "./usual-text.ts";

/**
 * The values that `readKeyValues` read last, in the key's order, not encoded. Values beyond the key's length are left over from
 * other keys.
 */
export const rawKeyValues: string[] = [];

/** The claims that were read last: several key parts and policies often read the claims of the same request. */
let lastToken: string | undefined;
let lastClaims: unknown;

/**
 * @returns the encoded key values; undefined if one is absent or empty and the policy does not share a counter in that case;
 * false if servers read one differently
 */
export function readKeyValues(policy: Terms): Reading {
  const { key } = policy;
  const first = key[0];
  // Indexes instead of the length: LuaJIT has to search for the length of a table.
  if (first !== undefined && key[1] === undefined) {
    const value = readPart(first);
    if (value === false) return false;
    rawKeyValues[0] = value ?? "";
    if (value !== undefined && value !== "") return encodeKeyValue(value, sha1Hex);
    return policy.onMissingKey === "shared" ? encodeKeyValue("", sha1Hex) : undefined;
  }
  const count = key.length;
  for (let i = 0; i < count; i++) {
    const value = readPart(key[i] as KeyPart);
    if (value === false) return false;
    if ((value === undefined || value === "") && policy.onMissingKey !== "shared") return undefined;
    rawKeyValues[i] = value ?? "";
  }
  return encodeKeyValues(rawKeyValues, count, sha1Hex);
}

/** Returns which plan the request names; undefined: none, or servers read different ones. */
export function readPlan(by: KeyPart): string | undefined {
  const value = readPart(by);
  return value === false || value === "" ? undefined : value;
}

/** Not a switch, which the compiler to Lua turns into a loop that LuaJIT tries to trace on its own. */
function readPart(part: KeyPart): Reading {
  const { source } = part;
  // The peer's address as nginx sees it, after the realip module if the operator configured it. No header is trusted here.
  if (source === "ip") return ipPrefix(ngx.var["remote_addr"] as string, part.v4Bits, part.v6Bits);
  if (source === "header") return part.name === "authorization" ? readAuthorization() : readHeader(part.name);
  if (source === "cookie") return cookieValue(ngx.var["http_cookie"] ?? "", part.name);
  if (source === "query") return argumentValue(ngx.var["args"] ?? "", part.name, readUsual);
  if (source === "jwt") return claimOf(readHeader("authorization"), part.name);
  if (source === "form") return formValue(part.name);
  if (source === "var") return ngx.var[part.name];
  if (source === "const") return part.name;
  if (source === "path") return ngx.var["uri"];
  if (source === "host") return ngx.var["host"];
  return ngx.req.get_method();
}

function readAuthorization(): Reading {
  const authorization = readHeader("authorization");
  return authorization === undefined || authorization === false ? authorization : authorizationValue(authorization);
}

function claimOf(authorization: Reading, name: string): Reading {
  if (authorization === undefined || authorization === false) return authorization;
  const token = bearerToken(authorization);
  return token === undefined || token === false ? token : claimText(claimsOf(token), name);
}

/** The claims are not verified. Undefined if the token cannot be read. */
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
  return json === undefined ? undefined : cjson.decode(json)[0];
}

export function sha1Hex(text: string): string {
  const [hex] = string.gsub(ngx.sha1_bin(text), ".", (byte) => string.format("%02x", string.byte(byte)));
  return hex;
}

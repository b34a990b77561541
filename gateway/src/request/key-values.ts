// What the request says for each part of a policy's key.

import { encodeKeyValue, encodeKeyValues } from "../../../limiter/src/compiled/counter-key.ts";
import type { Policy } from "../../../limiter/src/document/policy.ts";
import { authorizationValue, bearerToken } from "../../../limiter/src/key/authorization.ts";
import { cookieValue } from "../../../limiter/src/key/cookie.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import { claimText, payloadOf } from "../../../limiter/src/key/jwt-claim.ts";
import type { KeyPart, Reading } from "../../../limiter/src/key/key-part.ts";
import { cjson } from "../runtime/lua-modules.ts";
import { queryValue } from "./query-value.ts";
import { readHeader } from "./request-headers.ts";

/** What `readKeyValues` read last, in the key's order, not encoded; beyond the key's length left over from others. */
export const rawKeyValues: string[] = [];

/** The claims that were read last: several parts and several policies ask for those of one request. */
let lastToken: string | undefined;
let lastClaims: unknown;

/**
 * @returns the encoded key values; undefined when one is absent or empty and the policy does not share a counter then; false
 *   when servers differ on what one is
 */
export function readKeyValues(policy: Policy): Reading {
  const { key } = policy;
  const first = key[0];
  // By its places: LuaJIT searches for the length of a table.
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

/** Not a switch, which the compiler to Lua makes a loop of that LuaJIT tries to trace by itself. */
function readPart(part: KeyPart): Reading {
  const { source } = part;
  // nginx's own view of the peer, after the realip module where the operator set it up. No header is trusted here.
  if (source === "ip") return ipPrefix(ngx.var["remote_addr"] as string, part.v4Bits, part.v6Bits);
  if (source === "header") return part.name === "authorization" ? readAuthorization() : readHeader(part.name);
  if (source === "cookie") return cookieValue(ngx.var["http_cookie"] ?? "", part.name);
  if (source === "query") return queryValue(ngx.var["args"] ?? "", part.name);
  if (source === "jwt") return claimOf(readHeader("authorization"), part.name);
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

/** Nobody has verified them. Undefined where the token cannot be read. */
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

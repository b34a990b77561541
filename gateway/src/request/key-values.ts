// What the request says for each part of a policy's key.

import { encodeKeyValues } from "../../../limiter/src/key/counter-key.ts";
import { ipPrefix } from "../../../limiter/src/key/ip-prefix.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import type { Policy } from "../../../limiter/src/policy/policy.ts";

const values: string[] = [];

/** nginx's variables of headers, by header name. */
const headerVariables: Record<string, string> = {};

/** @returns the encoded key values; undefined when one is absent or empty and the policy does not share a counter then */
export function readKeyValues(policy: Policy): string | undefined {
  const count = policy.key.length;
  for (let i = 0; i < count; i++) {
    const value = readPart(policy.key[i] as KeyPart);
    if ((value === undefined || value === "") && policy.onMissingKey !== "shared") return undefined;
    values[i] = value ?? "";
  }
  return encodeKeyValues(values, count, sha1Hex);
}

function readPart(part: KeyPart): string | undefined {
  switch (part.source) {
    case "ip":
      // nginx's own view of the peer, after the realip module where the operator set it up. No header is trusted here.
      return ipPrefix(ngx.var["remote_addr"] as string, part.v4Bits, part.v6Bits);
    case "header":
      return ngx.var[headerVariable(part.name)];
    case "cookie":
      return ngx.var[`cookie_${part.name}`];
    case "query":
      return ngx.var[`arg_${part.name}`];
    case "var":
      return ngx.var[part.name];
    case "const":
      return part.name;
    case "path":
      return ngx.var["uri"];
    case "host":
      return ngx.var["host"];
    case "method":
      return ngx.req.get_method();
  }
}

function headerVariable(name: string): string {
  let variable = headerVariables[name];
  if (variable === undefined) {
    variable = `http_${string.gsub(name, "%-", "_")[0]}`;
    headerVariables[name] = variable;
  }
  return variable;
}

export function sha1Hex(text: string): string {
  const [hex] = string.gsub(ngx.sha1_bin(text), ".", (byte) => string.format("%02x", string.byte(byte)));
  return hex;
}

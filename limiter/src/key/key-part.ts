// The parts that a key may consist of, as written in a policy: "ip", "ip/24/56", "header:x-user-id", "const:free".

import { byteLength } from "../basics/byte-length.ts";

export type KeyPart = (
  | { readonly source: "ip"; readonly v4Bits: number; readonly v6Bits: number }
  | { readonly source: "header" | "cookie" | "query" | "form" | "jwt" | "var" | "const"; readonly name: string }
  | { readonly source: "path" | "host" | "method" }
) & {
  /** Whether the policy says that values are credentials, or are none. Counters do not depend on it. Absent: the name and the value tell (credential.ts). */
  readonly secret?: boolean;
};

/**
 * What a request has for a part of a key. undefined: nothing. false: servers read it differently, so there is no single value for
 * a counter to use.
 */
export type Reading = string | undefined | false;

export const keyPartGrammar =
  'a key part: "ip", "ip/0…32/0…128", "path", "host", "method", "header:NAME", "cookie:NAME", "query:NAME", "form:NAME", "jwt:CLAIM", "var:NAME" or "const:TEXT"';

const maxNameBytes = 256;

/** @returns the part, or undefined if the text is not one */
export function parseKeyPart(text: string): KeyPart | undefined {
  if (text === "ip") return { source: "ip", v4Bits: 32, v6Bits: 64 };
  if (text === "path" || text === "host" || text === "method") return { source: text };
  if (text.startsWith("ip/")) return parsePrefixLengths(text);
  const colon = text.indexOf(":");
  if (colon < 1) return undefined;
  const source = text.slice(0, colon);
  const name = text.slice(colon + 1);
  if (name === "" || byteLength(name) > maxNameBytes) return undefined;
  if (source === "const") return { source, name };
  if (source === "query" || source === "form" || source === "cookie" || source === "jwt") return { source, name };
  if (source === "header") return isToken(name) ? { source, name: name.toLowerCase() } : undefined;
  if (source === "var") return isVariableName(name) ? { source, name } : undefined;
  return undefined;
}

/** Returns whether the request's body has to be there before the key can be read. */
export function readsForm(key: readonly KeyPart[]): boolean {
  for (const { source } of key) if (source === "form") return true;
  return false;
}

export function readsPath(key: readonly KeyPart[]): boolean {
  for (const { source } of key) if (source === "path") return true;
  return false;
}

/** Returns the part as a policy may have it: parts that read alike have the same text. */
export function keyPartText(part: KeyPart): string {
  switch (part.source) {
    case "ip":
      return `ip/${part.v4Bits}/${part.v6Bits}`;
    case "path":
    case "host":
    case "method":
      return part.source;
    default:
      return `${part.source}:${part.name}`;
  }
}

/**
 * Returns the parts with what the policy says of their secrecy.
 * @param secret by part. If a part is written in two ways, one `true` is enough
 */
export function withSecrets(
  key: readonly KeyPart[],
  secret: Readonly<Record<string, boolean>> | undefined,
): readonly KeyPart[] {
  if (secret === undefined) return key;
  return key.map((part) => {
    let isSecret: boolean | undefined;
    for (const text in secret) {
      const named = parseKeyPart(text);
      if (named === undefined || keyPartText(named) !== keyPartText(part)) continue;
      isSecret = isSecret === true || secret[text] === true;
    }
    return isSecret === undefined ? part : { ...part, secret: isSecret };
  });
}

function parsePrefixLengths(text: string): KeyPart | undefined {
  const slash = text.indexOf("/", 3);
  if (slash < 0) return undefined;
  const v4Bits = parseBits(text.slice(3, slash), 32);
  const v6Bits = parseBits(text.slice(slash + 1), 128);
  if (v4Bits === undefined || v6Bits === undefined) return undefined;
  return { source: "ip", v4Bits, v6Bits };
}

function parseBits(text: string, max: number): number | undefined {
  if (text === "" || text.length > 3) return undefined;
  let bits = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return undefined;
    bits = bits * 10 + (code - 48);
  }
  return bits <= max ? bits : undefined;
}

/** Returns whether the characters are those of a header name (RFC 9110 token). It accepts the empty text. */
export function isToken(name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (!isWordCode(code) && code !== 45 && code !== 46 && code !== 33 && code !== 126) return false;
  }
  return true;
}

function isVariableName(name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    if (!isWordCode(name.charCodeAt(i))) return false;
  }
  return true;
}

export function isWordCode(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95;
}

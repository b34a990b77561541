// SHA-256, of which callers' tokens are known by.

import { sha256Library } from "./lua-modules.ts";

/** 64 hex digits in lower case. */
export function sha256Hex(text: string): string {
  const hash = sha256Library.new();
  hash.update(text);
  const [hex] = string.gsub(hash.final(), ".", (byte) => string.format("%02x", string.byte(byte)));
  return hex;
}

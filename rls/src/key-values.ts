// Makes key values fit the check API. Clients of Envoy write most of these values: a value that led to an error would let them pass without
// a limit, because Envoy lets requests pass when its rate limit service fails. So what is too long is counted by its SHA-256.

import { createHash } from "node:crypto";

/** The check API takes no longer values. */
const mostBytes = 8192;
/** In JSON, a character takes six bytes at most for each of its own. Beyond this, a check may not fit in a request. */
const mostCharactersTogether = 8000;
/** Eight of these always fit. */
const mostBytesIfMany = 512;

/** @returns the values, and in place of those that are too long their SHA-256 */
export function fitting(values: readonly string[]): readonly string[] {
  let together = 0;
  for (const { length } of values) together += length;
  if (together * 3 <= mostBytes) return values;
  const most = together > mostCharactersTogether ? mostBytesIfMany : mostBytes;
  return values.map((value) => (Buffer.byteLength(value) > most ? digestOf(value) : value));
}

function digestOf(value: string): string {
  return `sha256:${createHash("sha256").update(value).digest("hex")}`;
}

// The stored key of a counter. It is injective: two counters never share one, whatever their key values hold.
//
//   s3:{app:policy:2:3:abcdef}:burst:token-bucket:1000000
//
// format version, then in a Redis hash tag (so that a policy's limits for one key value share a slot) app, policy, the
// number of key values and the values, each but the last behind its length in bytes; then limit name, algorithm and
// window, with the precision of a sliding-window: blocks of another length cannot go on with these. Names cannot hold ":" or "}", so the last "}" ends the values. Long values are replaced by "h:" and their SHA-1.

import type { Limit } from "../algorithms/limit.ts";
import { byteLength } from "../basics/byte-length.ts";

const formatVersion = "s3";
const longestValues = 200;

/** The part that all counters of a policy share. */
export function counterPrefix(app: string, policy: string): string {
  return `${formatVersion}:{${app}:${policy}:`;
}

/** The part that all counters of a limit share. */
export function counterSuffix(limit: Limit): string {
  const precision = limit.algorithm === "sliding-window" ? `/${limit.precisionUs}` : "";
  return `}:${limit.name}:${limit.algorithm}:${limit.windowUs}${precision}`;
}

/**
 * Joins the first `count` values, in the key's order; an absent one is "".
 *
 * @param sha1Hex 40 hex digits of a text; decides the stored key only of values longer than 200 bytes together
 */
export function encodeKeyValues(values: readonly string[], count: number, sha1Hex: (text: string) => string): string {
  let encoded = `${count}:`;
  for (let i = 0; i < count - 1; i++) {
    const value = values[i] as string;
    encoded += `${byteLength(value)}:${value}`;
  }
  if (count > 0) encoded += values[count - 1] as string;
  return bounded(encoded, sha1Hex);
}

/** The same for a key of one part. */
export function encodeKeyValue(value: string, sha1Hex: (text: string) => string): string {
  return bounded(`1:${value}`, sha1Hex);
}

function bounded(encoded: string, sha1Hex: (text: string) => string): string {
  return byteLength(encoded) > longestValues ? `h:${sha1Hex(encoded)}` : encoded;
}

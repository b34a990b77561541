// The stored key of a counter. It is injective: two counters never share one, whatever their key values are.
//
//   s3:{app:policy:2:3:abcdef}:burst:token-bucket:1000000
//
// The first part is the format version. Then come, in a Redis hash tag (so that a policy's limits for one key value share a
// slot): app, policy, the number of key values, and the values, each but the last preceded by its length in bytes. Then come
// limit name, algorithm and window (in µs, "lifetime", or unit, anchor and time zone of the calendar), for a sliding-window its
// precision, because blocks of another length cannot continue these counters, and for a plan's bucket that cannot share a counter with
// another plan's (see compilePlans) the plan's name. Names cannot contain ":" or "}". Long values, and values with "}", are replaced by "h:"
// and their SHA-1: Redis' hash tag ends at the first "}", so clients could choose the slot, and with it the node, of all their counters.

import { lifetimeWindowUs } from "../algorithms/fixed-window.ts";
import type { Limit } from "../algorithms/limit.ts";
import { byteLength } from "../basics/byte-length.ts";

const formatVersion = "s3";
const longestValues = 200;

/** Returns the part that all counters of a policy share. */
export function counterPrefix(app: string, policy: string): string {
  return `${formatVersion}:{${app}:${policy}:`;
}

/** Returns the part that all counters of a limit share. */
export function counterSuffix(limit: Limit): string {
  const precision = limit.algorithm === "sliding-window" ? `/${limit.precisionUs}` : "";
  return `}:${limit.name}:${limit.algorithm}:${windowText(limit)}${precision}`;
}

function windowText({ windowUs, calendar }: Limit): string {
  if (calendar !== undefined) return `${calendar.unit}/${calendar.anchor}/${calendar.timezone}`;
  return windowUs === lifetimeWindowUs ? "lifetime" : `${windowUs}`;
}

/**
 * Joins the first `count` values, in the key's order; an absent value is "".
 *
 * @param sha1Hex returns 40 hex digits for a text; it determines the stored key only of values that are longer than 200 bytes
 * together, or have a "}"
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

/** Encodes the value of a key that has one part. */
export function encodeKeyValue(value: string, sha1Hex: (text: string) => string): string {
  return bounded(`1:${value}`, sha1Hex);
}

function bounded(encoded: string, sha1Hex: (text: string) => string): string {
  return byteLength(encoded) > longestValues || encoded.includes("}") ? `h:${sha1Hex(encoded)}` : encoded;
}

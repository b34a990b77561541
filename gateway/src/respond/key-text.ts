// A key's values, as logs may have them: cut, escaped, and with a digest in place of what may be a credential.

import type { CompiledPolicy } from "../../../limiter/src/compiled/compile.ts";
import { holdsCredential } from "../../../limiter/src/key/credential.ts";
import type { KeyPart } from "../../../limiter/src/key/key-part.ts";
import { hexOf, type Readings, valuesFor } from "../request/key-values.ts";

/** Limit for each value, before escaping. With eight parts, a line still fits into what nginx writes at once. */
export const mostBytesOfValue = 100;
const digestDigits = 8;
/** A value that is no digest, and that nothing follows from. */
const withoutDigest = "hidden";

/** The gateways' token: all gateways have it, and nobody who reads their logs. Undefined: the operator has set none. */
let digestKey: string | undefined;

/** Called when nginx starts. */
export function makeDigestsWith(gatewayToken: string | undefined): void {
  digestKey = gatewayToken;
}

/**
 * The values of the policy's key in the current request, in the key's order: since the decision, those of another may have been read.
 *
 * @param readings what has been read of the request already
 */
export function keyOfRequest({ policy }: CompiledPolicy, readings?: Readings): readonly string[] {
  return valuesFor(policy, readings);
}

/**
 * Returns digits that tell credentials from each other; undefined if the part holds none. Without the key, nobody can try all PINs or account
 * numbers.
 */
export function digestOf(part: KeyPart, value: string): string | undefined {
  if (!holdsCredential(part, value)) return undefined;
  if (digestKey === undefined) return withoutDigest;
  return `hmac:${string.sub(hexOf(ngx.hmac_sha1(digestKey, value)), 1, digestDigits)}`;
}

/** Returns the values in one word, percent-encoded and joined by commas; "-" for a key without parts. */
export function keyText(key: readonly KeyPart[], values: readonly string[]): string {
  let text = "-";
  for (let i = 0; i < key.length; i++) {
    const value = values[i] ?? "";
    const shown = digestOf(key[i] as KeyPart, value) ?? encoded(value);
    text = i === 0 ? shown : `${text},${shown}`;
  }
  return text;
}

/** Keeps what needs no escapes in a log, in JSON and in a map. */
function encoded(value: string): string {
  const [safe] = string.gsub(string.sub(value, 1, mostBytesOfValue), "[^%w._~:/@=+*!-]", (byte) =>
    string.format("%%%02X", string.byte(byte)),
  );
  return value.length > mostBytesOfValue ? `${safe}...` : safe;
}

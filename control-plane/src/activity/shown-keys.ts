// Keys as people see them. Those who may not change a policy do not learn the credentials of its clients.

import { createHmac } from "node:crypto";
import { holdsCredential } from "@sluice/limiter/key/credential.ts";
import type { KeyPart } from "@sluice/limiter/key/key-part.ts";
import { decodeKeyValues } from "./key-values.ts";
import type { Bounds } from "./merged-keys.ts";

const shownDigits = 12;

export interface ShownKey extends Bounds {
  /** The values in the order of the policy's key; absent if they are so long that only their hash is known. */
  readonly key?: readonly string[];
  /** How the key is stored, if it is absent. */
  readonly hash?: string;
}

/** Who reads keys. */
export interface KeyReader {
  /** Whether the reader may change the policy. */
  readonly mayChange: boolean;
  /** Makes the digests of this app's values; all control planes of a database have the same one. */
  readonly digestKey: Buffer;
}

/** @param proofKey stored in the database; the digests say nothing about the proofs that are made with it */
export function digestKeyOf(proofKey: string, app: string): Buffer {
  return createHmac("sha256", proofKey).update(`shown keys of ${app}`).digest();
}

/** @param key of the policy */
export function showKeys(
  keys: readonly [string, Bounds][],
  key: readonly KeyPart[],
  { mayChange, digestKey }: KeyReader,
): ShownKey[] {
  // A key part that the policy does not have tells nothing, so its value is hidden too.
  const isHidden = (value: string, part: KeyPart | undefined) =>
    !mayChange && (part === undefined || holdsCredential(part, value));
  return keys.map(([encoded, bounds]) => {
    const values = decodeKeyValues(encoded);
    // Somebody who knows the long values could try all short ones.
    if (values === undefined) return { hash: mayChange ? encoded : hidden(encoded, digestKey), ...bounds };
    return { key: values.map((value, i) => (isHidden(value, key[i]) ? hidden(value, digestKey) : value)), ...bounds };
  });
}

/** Different values stay different. Without the key, nobody can try all PINs or account numbers. */
export function hidden(value: string, digestKey: Buffer): string {
  return `hmac:${createHmac("sha256", digestKey).update(value).digest("hex").slice(0, shownDigits)}`;
}

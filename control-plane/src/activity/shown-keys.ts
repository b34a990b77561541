// Keys as people see them. Those who may not change a policy do not learn the credentials of its clients.

import { createHash } from "node:crypto";
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

/** @param key of the policy @param mayChange whether the reader may change the policy */
export function showKeys(keys: readonly [string, Bounds][], key: readonly KeyPart[], mayChange: boolean): ShownKey[] {
  // A key part that the policy does not have tells nothing, so its value is hidden too.
  const isHidden = (value: string, part: KeyPart | undefined) =>
    !mayChange && (part === undefined || holdsCredential(part, value));
  return keys.map(([encoded, bounds]) => {
    const values = decodeKeyValues(encoded);
    if (values === undefined) return { hash: encoded, ...bounds };
    return { key: values.map((value, i) => (isHidden(value, key[i]) ? hidden(value) : value)), ...bounds };
  });
}

/** Different values stay different. */
export function hidden(value: string): string {
  return `sha256:${createHash("sha256").update(value).digest("hex").slice(0, shownDigits)}`;
}

// Keys as people see them. Those who may not change a policy do not learn the credentials of its clients.

import { createHash } from "node:crypto";
import type { KeyPart } from "@sluice/limiter/key/key-part.ts";
import { decodeKeyValues } from "./key-values.ts";
import type { Bounds } from "./merged-keys.ts";

/** A header, an argument, a claim or a variable with such a name usually carries a credential. */
const credential = /auth|key|token|secret|session|pass|pwd|credential|signature|jwt|bearer|cookie|^sid$|^sig$/i;
const shownDigits = 12;

export interface ShownKey extends Bounds {
  /** The values in the order of the policy's key; absent if they are so long that only their hash is known. */
  readonly key?: readonly string[];
  /** How the key is stored, if it is absent. */
  readonly hash?: string;
}

/** @param key of the policy @param mayChange whether the reader may change the policy */
export function showKeys(keys: readonly [string, Bounds][], key: readonly KeyPart[], mayChange: boolean): ShownKey[] {
  const isHidden = key.map((part) => !mayChange && isCredential(part));
  return keys.map(([encoded, bounds]) => {
    const values = decodeKeyValues(encoded);
    if (values === undefined) return { hash: encoded, ...bounds };
    return { key: values.map((value, i) => (isHidden[i] ? hidden(value) : value)), ...bounds };
  });
}

function isCredential(part: KeyPart): boolean {
  switch (part.source) {
    case "cookie":
      return true;
    case "header":
    case "query":
    case "jwt":
    case "var":
      return credential.test(part.name);
    default:
      return false;
  }
}

/** Different values stay different. */
function hidden(value: string): string {
  return `sha256:${createHash("sha256").update(value).digest("hex").slice(0, shownDigits)}`;
}

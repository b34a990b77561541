// What the URL of the page of keys says: which key is looked up. A key with a credential in it is in the tab's memory instead.

import { holdsCredential } from "@sluice/limiter/key/credential.ts";
import { parseKeyPart, withSecrets } from "@sluice/limiter/key/key-part.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";

export interface KeysSearch {
  readonly app?: string;
  readonly policy?: string;
  /** A value for each part of the policy's key. Absent: no key is looked up. */
  readonly key?: readonly string[];
}

export function readKeysSearch({ app, policy, key }: Record<string, unknown>): KeysSearch {
  return {
    ...(typeof app === "string" && app !== "" ? { app } : {}),
    ...(typeof policy === "string" && policy !== "" ? { policy } : {}),
    ...(isKey(key) ? { key } : {}),
  };
}

declare module "@tanstack/history" {
  interface HistoryState {
    /** The key that is looked up, if it may not be in the URL. */
    readonly countedKey?: readonly string[];
  }
}

/** @param parts of the policy's key @param secret as the policy has it @returns where a link to the key has its values */
export function linkTo(
  app: string,
  policy: string,
  parts: readonly string[],
  key: readonly string[],
  secret?: PolicyTerms["secret"],
) {
  return hasCredential(parts, key, secret)
    ? { to: "/keys" as const, search: { app, policy }, state: { countedKey: key } }
    : { to: "/keys" as const, search: { app, policy, key } };
}

/** Returns whether one of the values may be a credential, or would be one if the control plane had not hidden it. */
export function hasCredential(
  parts: readonly string[],
  key: readonly string[],
  secret: PolicyTerms["secret"],
): boolean {
  return parts.some((text, i) => {
    const part = parseKeyPart(text);
    return part !== undefined && withSecrets([part], secret).some((one) => holdsCredential(one, key[i] ?? ""));
  });
}

function isKey(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

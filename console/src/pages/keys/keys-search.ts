// What the URL of the page of keys says: which key is looked up.

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

function isKey(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

// Which parts of a policy's key may hold credentials of clients, and whether ids of consumers are such values. It is noted beside each policy
// when it is stored, so that nobody has to read documents for it.

import { byConsumer } from "@sluice/limiter/document/policy-shape.ts";
import { isOfCredentials } from "@sluice/limiter/key/credential.ts";
import { parseKeyPart, withSecrets } from "@sluice/limiter/key/key-part.ts";

/** By their places in the key: whether the values may be credentials. A place that is absent is of a part without credentials. */
export type SecretParts = readonly boolean[];

interface WithKey {
  readonly key?: readonly string[];
  readonly secret?: Readonly<Record<string, boolean>>;
  readonly planBy?: string;
}

/** @param document of a valid policy */
export function secretPartsOf(document: unknown): SecretParts {
  const { key = [], secret } = document as WithKey;
  const parts = key.map((text) => {
    const part = parseKeyPart(text);
    return part !== undefined && withSecrets([part], secret).some(isOfCredentials);
  });
  return parts.includes(true) ? parts : [];
}

/** Returns whether ids of consumers may be credentials by this policy. */
export function areIdsSecret(document: unknown): boolean {
  return (document as WithKey).planBy === byConsumer && secretPartsOf(document)[0] === true;
}

/** Returns the parts that are secret by one of the two: a policy may have had another key when something was stored. */
export function eitherSecret(one: SecretParts, other: SecretParts): SecretParts {
  const [longer, shorter] = one.length < other.length ? [other, one] : [one, other];
  return longer.map((isSecret, i) => isSecret || shorter[i] === true);
}

/** As the database has it. Null: no part is secret. */
export function textOfParts(parts: SecretParts): string | null {
  return parts.length === 0 ? null : JSON.stringify(parts);
}

export function partsFrom(text: string | null | undefined): SecretParts {
  return text === null || text === undefined ? [] : JSON.parse(text);
}

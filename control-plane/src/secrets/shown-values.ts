// Banned key values as those see them who may not change a policy: without the credentials of its clients.

import { looksLikeCredential } from "@sluice/limiter/key/credential.ts";
import type { SecretParts } from "./secret-parts.ts";

/** Hides credentials in whom a ban is of, or in a document of a ban. @param hide returns what is shown in place of a credential */
export function withHiddenValues<Ban extends object>(
  ban: Ban,
  secret: SecretParts,
  hide: (value: string) => string,
): Ban {
  const { key, keyPattern } = ban as { readonly key?: readonly string[]; readonly keyPattern?: readonly string[] };
  const show = (texts: readonly string[]) =>
    texts.map((text, i) => (isHidden(text, secret[i] === true) ? hide(text) : text));
  return {
    ...ban,
    ...(key === undefined ? {} : { key: show(key) }),
    ...(keyPattern === undefined ? {} : { keyPattern: show(keyPattern) }),
  };
}

/** The pattern for any value tells nothing. */
function isHidden(text: string, isSecret: boolean): boolean {
  return (isSecret && text !== "*") || looksLikeCredential(text);
}

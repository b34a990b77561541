// Which parts of a key usually hold a credential of the client, so that logs and people who only look on do not get its values.

import type { KeyPart } from "./key-part.ts";

/** Lower-case words in names of headers, arguments, form fields, claims and variables. An nginx variable has the name of its header or cookie in it. */
const words = [
  "auth",
  "key",
  "token",
  "secret",
  "session",
  "cookie",
  "pass",
  "pwd",
  "credential",
  "signature",
  "jwt",
  "bearer",
];
const wholeNames = ["sid", "sig"];

export function holdsCredential(part: KeyPart): boolean {
  if (part.source === "cookie") return true;
  if (!("name" in part) || part.source === "const") return false;
  const name = part.name.toLowerCase();
  for (const word of words) {
    if (name.indexOf(word) >= 0) return true;
  }
  return wholeNames.includes(name);
}

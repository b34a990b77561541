// The secret of a session, which is the value of its cookie: the session's id and 256 bits. The bits change regularly. The new
// ones follow from the old ones and a key that is stored with the session, so that control planes which rotate a session at once
// agree, and an answer that was lost can be repeated.

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** What a cookie says. */
export interface Presented {
  readonly id: string;
  readonly bits: string;
}

const shape = /^([0-9a-f]{32})\.([A-Za-z0-9_-]{43})$/;

export function newSession(): Presented & { readonly key: string } {
  return {
    id: randomBytes(16).toString("hex"),
    bits: randomBytes(32).toString("base64url"),
    key: randomBytes(32).toString("base64url"),
  };
}

export function cookieValue({ id, bits }: Presented): string {
  return `${id}.${bits}`;
}

/** @returns undefined if the text is no value that we ever made */
export function parseCookieValue(text: string): Presented | undefined {
  const [, id, bits] = shape.exec(text) ?? [];
  return id === undefined || bits === undefined ? undefined : { id, bits };
}

/** A fast hash is enough, because nobody can try 2^256 secrets. */
export function hashBits(bits: string): string {
  return createHash("sha256").update(bits, "utf8").digest("hex");
}

export function nextBits(key: string, bits: string): string {
  return createHmac("sha256", key).update(`next ${bits}`).digest("base64url");
}

/** The CSRF token of the session, which stays the same when the secret changes: a page that is open goes on. */
export function csrfTokenOf(key: string): string {
  return createHmac("sha256", key).update("csrf").digest("base64url");
}

/** Compares without telling by its time how much is equal. */
export function isSame(a: string, b: string): boolean {
  const [first, second] = [Buffer.from(a), Buffer.from(b)];
  return first.length === second.length && timingSafeEqual(first, second);
}

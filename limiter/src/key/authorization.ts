// Reads an `Authorization` header so that one credential is one text, in whichever spelling servers accept it: the scheme in any
// case, then spaces or tabs (RFC 6750 has one space or more, and many servers accept a tab), then the credential.

import { isBasicCredential, isOnlySpelling } from "./base64.ts";
import type { Reading } from "./key-part.ts";

const scheme = "bearer";

/**
 * Returns the token of scheme `Bearer`.
 *
 * @returns undefined: there is none. false: some servers find a token and others do not, or not the same one
 */
export function bearerToken(authorization: string): Reading {
  const begin = afterBlanks(authorization, 0);
  const afterScheme = begin + scheme.length;
  if (authorization.slice(begin, afterScheme).toLowerCase() !== scheme) {
    return namesBearerLater(authorization) ? false : undefined;
  }
  if (afterScheme >= authorization.length) return undefined;
  const start = afterBlanks(authorization, afterScheme);
  // This is "Bearerx", another scheme, or "Bearer" before a blank that few servers know.
  if (start === afterScheme) return isVisible(authorization.charCodeAt(start)) ? undefined : false;
  let end = authorization.length;
  while (end > start && isSpaceOrTab(authorization.charCodeAt(end - 1))) end -= 1;
  if (start >= end) return undefined;
  for (let i = start; i < end; i++) if (!isOfToken(authorization.charCodeAt(i))) return false;
  return authorization.slice(start, end);
}

/**
 * Returns the header in the form that counters use: "Bearer TOKEN", "Basic CREDENTIALS". A single word has no scheme, and stands
 * for itself.
 *
 * @returns false: servers differ on what it says
 */
export function authorizationValue(authorization: string): Reading {
  const token = bearerToken(authorization);
  if (token !== undefined) return token === false || !isOnlySpelling(token) ? false : `Bearer ${token}`;
  const begin = afterBlanks(authorization, 0);
  let afterScheme = begin;
  while (isVisible(authorization.charCodeAt(afterScheme))) afterScheme += 1;
  const start = afterBlanks(authorization, afterScheme);
  let end = authorization.length;
  while (end > start && isSpaceOrTab(authorization.charCodeAt(end - 1))) end -= 1;
  const first = authorization.slice(begin, afterScheme);
  if (start >= end) return first;
  if (start === afterScheme) return false;
  const name = `${first.slice(0, 1).toUpperCase()}${first.slice(1).toLowerCase()}`;
  const credential = authorization.slice(start, end);
  const isOnly = name === "Basic" ? isBasicCredential(credential) : isOnlySpelling(credential);
  return isOnly ? `${name} ${credential}` : false;
}

/** Returns whether "Bearer" comes after something that is no scheme: some servers search for it there. */
function namesBearerLater(authorization: string): boolean {
  const lower = authorization.toLowerCase();
  let at = lower.indexOf(scheme);
  while (at >= 0) {
    const next = lower.charCodeAt(at + scheme.length);
    if (!isVisible(next) && at + scheme.length < lower.length) return true;
    at = lower.indexOf(scheme, at + 1);
  }
  return false;
}

function afterBlanks(text: string, from: number): number {
  let at = from;
  while (isSpaceOrTab(text.charCodeAt(at))) at += 1;
  return at;
}

function isSpaceOrTab(code: number): boolean {
  return code === 32 || code === 9;
}

/** False for NaN, which stands past the end of a text. */
function isVisible(code: number): boolean {
  return code > 32 && code < 127;
}

/**
 * Returns whether the character is one of RFC 9110's token68. In a token68 "=" comes only at the end, but a token that has it
 * elsewhere is no JWT to anyone.
 */
function isOfToken(code: number): boolean {
  if ((code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)) return true;
  return code === 45 || code === 46 || code === 95 || code === 126 || code === 43 || code === 47 || code === 61;
}

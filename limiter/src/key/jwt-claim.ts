// The key part `jwt:CLAIM`: what an unverified token says of its bearer. Anything but a text or an integer counts as
// absent, and so does every token that is none.

import type { Reading } from "./key-part.ts";

/** nginx takes longer header lines where it is told so; a longer payload is not read. */
const mostPayloadBytes = 8192;

/** Up to here every integer is a number of its own; beyond, neighbours would share a counter. */
const largestInteger = 9007199254740991;

const scheme = "bearer";

/**
 * The token of an `Authorization` header by scheme `Bearer`, in any case, behind spaces or tabs (RFC 6750 has one space or more,
 * and many a server takes a tab).
 *
 * @returns undefined: there is none. false: one that some servers find and others do not, or not the same
 */
export function bearerToken(authorization: string): Reading {
  const begin = afterBlanks(authorization, 0);
  const afterScheme = begin + scheme.length;
  if (authorization.slice(begin, afterScheme).toLowerCase() !== scheme) {
    return namesBearerLater(authorization) ? false : undefined;
  }
  if (afterScheme >= authorization.length) return undefined;
  const start = afterBlanks(authorization, afterScheme);
  // "Bearerx", which is another scheme, or behind a blank that few know.
  if (start === afterScheme) return isVisible(authorization.charCodeAt(start)) ? undefined : false;
  let end = authorization.length;
  while (end > start && isSpaceOrTab(authorization.charCodeAt(end - 1))) end -= 1;
  if (start >= end) return undefined;
  for (let i = start; i < end; i++) if (!isOfToken(authorization.charCodeAt(i))) return false;
  return authorization.slice(start, end);
}

/** Behind something that is no scheme: some servers search for it. */
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

/** False for NaN, past the end. */
function isVisible(code: number): boolean {
  return code > 32 && code < 127;
}

/** Of RFC 9110's token68. "=" ends one only: what has it elsewhere is no JWT to anyone. */
function isOfToken(code: number): boolean {
  if ((code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)) return true;
  return code === 45 || code === 46 || code === 95 || code === 126 || code === 43 || code === 47 || code === 61;
}

/**
 * The payload of a token, in base64url as it stands there.
 *
 * @returns undefined where it is no token of three parts, or its payload is longer than 8 KB when decoded
 */
export function payloadOf(token: string): string | undefined {
  const start = token.indexOf(".") + 1;
  const end = start > 0 ? token.indexOf(".", start) : -1;
  if (end < 0 || token.indexOf(".", end + 1) >= 0) return undefined;
  const length = end - start;
  if (length === 0 || Math.floor((length * 3) / 4) > mostPayloadBytes) return undefined;
  return token.slice(start, end);
}

/**
 * The claim as text; "a.b" is the claim of that name or, where there is none, b of the object a.
 *
 * @param payload as parsed from JSON, from anyone
 */
export function claimText(payload: unknown, name: string): string | undefined {
  const claim = memberOf(payload, name);
  if (claim !== undefined) return textOf(claim);
  const dot = name.indexOf(".");
  return dot < 0 ? undefined : textOf(memberOf(memberOf(payload, name.slice(0, dot)), name.slice(dot + 1)));
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  // What a JavaScript object inherits is no text, no number and no plain object: `textOf` makes nothing of it.
  return (value as Record<string, unknown>)[name];
}

function textOf(claim: unknown): string | undefined {
  if (typeof claim === "string") return claim;
  if (typeof claim !== "number" || Math.floor(claim) !== claim) return undefined;
  if (claim < -largestInteger || claim > largestInteger) return undefined;
  return claim < 0 ? `-${digitsOf(-claim)}` : digitsOf(claim);
}

/** Lua's own text of a number keeps 14 digits. */
function digitsOf(units: number): string {
  const high = Math.floor(units / 1e8);
  const low = units - high * 1e8;
  if (high === 0) return `${low}`;
  const digits = `${low}`;
  let zeros = "";
  for (let i = digits.length; i < 8; i++) zeros += "0";
  return `${high}${zeros}${digits}`;
}

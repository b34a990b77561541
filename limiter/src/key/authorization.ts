// Reads an `Authorization` header so that one credential is one text, in whichever spelling servers accept it: a scheme, then spaces or tabs
// (RFC 6750 has one space or more, and many servers accept a tab), then the credential. Many services do not look at the scheme of a token, or
// find a token without one.

import { isDigit } from "../basics/digit.ts";
import { beginsLikeJwt, isBasicCredential, isOnlySpelling } from "./base64.ts";
import type { Reading } from "./key-part.ts";

const plus = 43;
const dot = 46;
const [tab, space, quote, asterisk, comma, semicolon, backslash, bar, del] = [9, 32, 34, 42, 44, 59, 92, 124, 127];
const tokenParameter = "token=";
const ofBearer = "Bearer ";
/** Schemes that services also look for in other headers. Of these, and before a JSON Web Token of any scheme, case and blanks do not matter. */
const schemes = ["Bearer", "Basic", "Token", "Jwt", "Apikey", "Dpop"];
/** No token that anybody counts by is shorter with its scheme. */
const shortest = 12;

/**
 * Returns the token, behind whichever scheme but `Basic`, or alone: many services look only at what comes behind the first blank, or take
 * "Bearer " away where it is.
 *
 * @returns undefined: there is none. false: some servers find a token and others do not, or not the same one
 */
export function bearerToken(authorization: string): Reading {
  const value = readCredential(authorization);
  if (value === false) return false;
  return value.startsWith(ofBearer) ? value.slice(ofBearer.length) : undefined;
}

/**
 * Returns the header in the form that counters use: "Bearer TOKEN", "Basic CREDENTIALS", 'Digest username="ann", …'.
 *
 * @returns false: servers differ on what it says, or also accept its token in other spellings
 */
export function authorizationValue(authorization: string): Reading {
  const value = readCredential(authorization);
  if (value === false) return false;
  return isOnlySpelling(value.startsWith(ofBearer) ? value.slice(ofBearer.length) : value) ? value : false;
}

function readCredential(authorization: string): string | false {
  const begin = afterBlanks(authorization, 0);
  let afterScheme = begin;
  while (isVisible(authorization.charCodeAt(afterScheme))) afterScheme += 1;
  const start = afterBlanks(authorization, afterScheme);
  let end = authorization.length;
  while (end > start && isSpaceOrTab(authorization.charCodeAt(end - 1))) end -= 1;
  const first = authorization.slice(begin, afterScheme);
  const scheme = capitalized(first);
  if (start >= end) return schemes.includes(scheme) ? first : readWord(first, first);
  if (start === afterScheme || beginsLikeJwt(first)) return false;
  const credential = authorization.slice(start, end);
  if (scheme === "Basic") return isBasicCredential(credential) ? `Basic ${credential}` : false;
  if (isToken(credential)) return `${ofBearer}${tokenOfSanctum(tokenOfRails(credential))}`;
  if (scheme === "Bearer") return false;
  const areNamed = areParameters(credential);
  if (scheme === "Token" && (areNamed || !hasBlank(credential))) {
    const token = tokenOfRails(credential);
    return isToken(token) ? `${ofBearer}${token}` : false;
  }
  if (areNamed) return `${scheme} ${credential}`;
  return hasBlank(credential) ? false : readWord(credential, `${ofBearer}${credential}`);
}

/** Reads a text without blanks. @param otherwise what it stands for if it is no token of RFC 9110 @returns false: some servers find a JSON Web Token in it */
function readWord(word: string, otherwise: string): string | false {
  if (isToken(word)) return `${ofBearer}${tokenOfRails(word)}`;
  const jwt = word.indexOf("eyJ");
  return jwt >= 0 && word.indexOf(".", jwt) >= 0 ? false : otherwise;
}

/** Returns whether these are RFC 9110's `auth-param`, between commas. No server takes such a text, or a word of it, for a token. */
function areParameters(credential: string): boolean {
  let at = 0;
  while (at < credential.length) {
    const equals = credential.indexOf("=", at);
    if (equals < 0 || !isNameOfParameter(credential, at, equals)) return false;
    at = afterValue(credential, equals + 1);
    if (at < 0) return false;
    at = afterBlanks(credential, at);
    if (at >= credential.length) break;
    if (credential.charCodeAt(at) !== comma) return false;
    at = afterBlanks(credential, at + 1);
    if (at >= credential.length) return false;
  }
  return !credential.toLowerCase().includes("bearer ") && !hasOddToken(credential, credential.indexOf("eyJ", 1));
}

/**
 * Returns whether a parameter has this name, maybe with RFC 8187's "*" behind it. Servers that drop what is no digit of base64 would find a token
 * behind another name, and those that look behind the last blank find one after "= ", which RFC 9110 lets nobody send.
 */
function isNameOfParameter(text: string, start: number, equals: number): boolean {
  const end = text.charCodeAt(equals - 1) === asterisk ? equals - 1 : equals;
  for (let at = start; at < end; at++) if (!isOfScheme(text.charCodeAt(at))) return false;
  return end > start;
}

/** @returns where a value of a parameter ends, in quotes or without; -1: there is none */
function afterValue(text: string, start: number): number {
  let at = start;
  if (text.charCodeAt(at) !== quote) {
    while (isVisible(text.charCodeAt(at)) && text.charCodeAt(at) !== comma && text.charCodeAt(at) !== quote) at += 1;
    return at > start ? at : -1;
  }
  at += 1;
  while (at < text.length && text.charCodeAt(at) !== quote) {
    const code = text.charCodeAt(at);
    if (code < space || code === del) return -1;
    at += code === backslash ? 2 : 1;
  }
  return at < text.length ? at + 1 : -1;
}

function hasBlank(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (!isVisible(text.charCodeAt(at))) return true;
  return false;
}

/**
 * Returns what Rails takes for the token: its first parameter, which ends at a comma, a semicolon or a tab, with or without `token=` and quotes. What
 * comes behind it may be anything.
 */
function tokenOfRails(credential: string): string {
  let end = 0;
  while (end < credential.length && !endsParameter(credential.charCodeAt(end))) end += 1;
  while (end > 0 && isSpaceOrTab(credential.charCodeAt(end - 1))) end -= 1;
  let start = credential.startsWith(tokenParameter) ? tokenParameter.length : 0;
  if (credential.charCodeAt(start) === quote) start += 1;
  if (end > start && credential.charCodeAt(end - 1) === quote) end -= 1;
  return credential.slice(start, Math.max(start, end));
}

function endsParameter(code: number): boolean {
  return code === comma || code === semicolon || code === tab;
}

/**
 * Returns a value of another header, a cookie, an argument or a field. If it is a scheme, blanks and a token, it is the token alone, as services
 * also take it without a scheme.
 *
 * @param name of the header or the like
 * @returns false: it has a token that servers also accept in other spellings
 */
export function valueWithToken(value: string, name: string): Reading {
  if (!isOnlySpelling(value)) return false;
  if (value.length < shortest) return value;
  const token = value.indexOf("eyJ", 1);
  if (token < 0 && value.indexOf(" ") < 0 && value.indexOf("\t") < 0) return value;
  return withScheme(value, name) ?? (hasOddToken(value, token) ? false : value);
}

/** @returns undefined: it is not a scheme and a token */
function withScheme(value: string, name: string): Reading {
  let afterScheme = 0;
  while (isOfScheme(value.charCodeAt(afterScheme))) afterScheme += 1;
  let start = afterScheme;
  while (isBlank(value.charCodeAt(start))) start += 1;
  if (afterScheme === 0 || start === afterScheme || start === value.length) return undefined;
  const credential = value.slice(start);
  const word = capitalized(value.slice(0, afterScheme));
  const isJwt = beginsLikeJwt(credential);
  if (!isJwt && (!schemes.includes(word) || value.charCodeAt(afterScheme) === plus)) return undefined;
  for (let i = 0; i < credential.length; i++) {
    if (isBlank(credential.charCodeAt(i)) && (isJwt || credential.charCodeAt(i) !== plus)) return undefined;
  }
  const isBasic = word === "Basic" && name.toLowerCase().includes("auth");
  const isOnly = isBasic
    ? isBasicCredential(credential)
    : isOnlySpelling(credential) && !hasOddToken(credential, credential.indexOf("eyJ", 1));
  if (!isOnly) return false;
  return word === "Basic" ? `Basic ${credential}` : tokenOfSanctum(credential);
}

/** Laravel Sanctum reads a token with the number of its row before it, with zeros before that too, or without. */
function tokenOfSanctum(token: string): string {
  let at = 0;
  while (isDigit(token.charCodeAt(at))) at += 1;
  return at > 0 && at < token.length - 1 && token.charCodeAt(at) === bar ? token.slice(at + 1) : token;
}

/** Returns whether there is a JSON Web Token within a text that is not in its only spelling, or is among blanks, which servers drop. */
function hasOddToken(value: string, first: number): boolean {
  let at = first;
  while (at >= 0) {
    const before = value.charCodeAt(at - 1);
    let end = at + 1;
    if (!isOfScheme(before) && before !== dot) {
      let dots = 0;
      while (isOfToken(value.charCodeAt(end))) {
        if (value.charCodeAt(end) === dot) dots += 1;
        end += 1;
      }
      if (dots > 1 && (isBlank(before) || !isOnlySpelling(value.slice(at, end)))) return true;
    }
    at = value.indexOf("eyJ", end);
  }
  return false;
}

/** In a cookie, "+" stands for a blank. Some servers also take control characters and bytes beyond ASCII for blanks. False for NaN, past the end. */
function isBlank(code: number): boolean {
  return code <= 32 || code > 126 || code === plus;
}

/** Returns whether a scheme may have the character (RFC 9110's token; fewer than that). False for NaN. */
function isOfScheme(code: number): boolean {
  if (isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)) return true;
  return code === 45 || code === 95;
}

function afterBlanks(text: string, from: number): number {
  let at = from;
  while (isSpaceOrTab(text.charCodeAt(at))) at += 1;
  return at;
}

function isSpaceOrTab(code: number): boolean {
  return code === space || code === tab;
}

/** False for NaN, which stands past the end of a text. */
function isVisible(code: number): boolean {
  return code > 32 && code < 127;
}

/**
 * Returns whether all characters are of RFC 9110's token68, or "|", which tokens of Laravel Sanctum have. In a token68, "=" comes only at the end, but
 * a token that has it elsewhere is no JWT to anyone.
 */
function isToken(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (!isOfToken(text.charCodeAt(i))) return false;
  return text !== "";
}

function isOfToken(code: number): boolean {
  if (isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)) return true;
  return (
    code === 45 ||
    code === 46 ||
    code === 95 ||
    code === 126 ||
    code === 43 ||
    code === 47 ||
    code === 61 ||
    code === bar
  );
}

function capitalized(word: string): string {
  return `${word.slice(0, 1).toUpperCase()}${word.slice(1).toLowerCase()}`;
}

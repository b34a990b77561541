// Reads the value of a cookie from a request's `Cookie` lines, so that one value is one text however it is spelled: spellings
// that the common parsers of servers read as alike are alike here. Where these parsers read different values, there is no value
// for a counter to use.

import { isDigit } from "../basics/digit.ts";
import { hexDigit } from "../basics/hex-digit.ts";
import { afterBeginning, beginsOtherwise, compareName, otherName, sameName } from "./argument-name.ts";
import { countDots } from "./base64.ts";
import { withoutBlanks } from "./blanks.ts";
import type { Reading } from "./key-part.ts";
import { percentDecoded } from "./percent-encoding.ts";

const tab = 9;
const space = 32;
const quote = 34;
const percent = 37;
const plus = 43;
const hyphen = 45;
const comma = 44;
const dot = 46;
const slash = 47;
const digit0 = 48;
const colon = 58;
const semicolon = 59;
const equals = 61;
const letterC = 67;
const bracket = 91;
const closingBracket = 93;
const underscore = 95;
const letterJ = 106;
const brace = 123;
const closingBrace = 125;

type ReadText = (this: void, written: string) => string | false;

/** Browsers send fewer than 200 to a host. In more than these, a name is not looked for, nor at more places in them. */
const mostCookies = 1000;

/**
 * Returns the value without the blanks and quotes around it, and percent-decoded: some servers leave these in a value and others
 * remove them. A percent-encoded blank becomes "+", because Rack reads both as a blank. The table of docs/policies.md has the
 * spellings and how servers read them. If services join the value from several cookies, it is what they join.
 *
 * @param cookies the lines, joined by ";", one character below 256 for each byte, as in Lua
 * @returns undefined: no such cookie. false: servers differ on its value
 */
export function cookieValue(cookies: string, name: string): Reading {
  const value = valueOfOne(cookies, name, canonical);
  if (value === false) return false;
  const first = cookies.indexOf(name);
  if (first < 0) return undefined;
  const isAbsent = value === undefined || value === "";
  const isChunked = !isAbsent && value.startsWith(chunked);
  // Most requests have the name only once.
  if (!isAbsent && !isChunked && cookies.indexOf(name, first + 1) < 0) return value;
  const others = continuations(cookies, name);
  if (others === undefined) return false;
  if (isAbsent) return joinedWithoutOne(others, name) ?? value;
  if (isChunked) return joinedChunks(cookies, name, value, others);
  let hasParts = false;
  for (const { separator } of others) {
    // Auth.js joins all of these, and mod_auth_openidc takes the parts then.
    if (separator === "." || separator === partCount) return false;
    if (separator !== "" && separator !== chunkSeparator) hasParts = true;
  }
  if (hasParts && !isFoundByAll(cookies, name, value)) return false;
  return isTokenInParts(value, others) ? false : value;
}

/** Returns whether Tomcat and Jetty find the cookie, too. They may drop one in a line with quotes, and Tomcat all of an unknown "$Version". */
export function isFoundByServlets(cookies: string, name: string, value: string): boolean {
  return !cookies.includes('"') && !cookies.includes("$Version") && isFoundByAll(cookies, name, value);
}

/** Services join parts if they do not find the cookie itself; and Pomerium, if its value begins with "%". Next.js drops one with a broken encoding. */
function isFoundByAll(cookies: string, name: string, value: string): boolean {
  const pair = `${name}=${value}`;
  const at = cookies.indexOf(pair);
  if (at < 0 || value.includes("%")) return false;
  let before = at - 1;
  while (before >= 0 && cookies.charCodeAt(before) === space) before -= 1;
  const end = at + pair.length;
  return (
    (before < 0 || cookies.charCodeAt(before) === semicolon) &&
    (end === cookies.length || cookies.charCodeAt(end) === semicolon)
  );
}

/**
 * Returns the value of the cookie of this name alone.
 *
 * @param read reads the text of a value
 */
export function valueOfOne(cookies: string, name: string, read: ReadText): Reading {
  let value: string | undefined;
  let hasPrefixed = false;
  let at = cookies.indexOf(name);
  for (let places = 0; at >= 0; places++) {
    if (places === mostCookies) return false;
    const found = valueAt(cookies, name, at, read);
    if (found === false) return false;
    // Some servers take the first cookie of a name, others the last.
    if (found !== undefined && value !== undefined && found !== value) return false;
    if (found !== undefined) value = found;
    else if (hasPrefix(cookies, at)) hasPrefixed = true;
    at = cookies.indexOf(name, at + 1);
  }
  if (value !== undefined && hasPrefixed) return false;
  if (hasSimilarName(cookies, name, isSimilarAt) || isSplitAtCommas(cookies)) return false;
  return hasSimilarNameWithin(cookies, name, name.charCodeAt(name.length - 1), isSimilarAt) ? false : value;
}

/** Returns whether it is a name that Sanic takes first when it is asked for the name without the prefix. */
function hasPrefix(cookies: string, at: number): boolean {
  return cookies.charCodeAt(at - 1) === hyphen && (endsAt(cookies, "__Host-", at) || endsAt(cookies, "__Secure-", at));
}

function endsAt(text: string, end: string, at: number): boolean {
  return text.slice(Math.max(at - end.length, 0), at) === end;
}

/** A cookie whose name goes on behind the name that is looked for. */
interface Continuation {
  /** What is between the name and the number of a part; "" if no number ends its name. */
  readonly separator: string;
  /** -1 if no service writes it so, or so many. */
  readonly number: number;
  readonly written: string;
  /** Whether all servers find its name: no blank is beside it but spaces before it. */
  readonly isPlain: boolean;
}

/** What is before the number of a part: of Auth.js and Supabase; of oauth2-proxy and mod_auth_openidc; of Auth0. */
const separators = [".", "_", "__"];
/** In NAMEC1, NAMEC2, … ASP.NET stores a cookie that was too long. */
const chunkSeparator = "C";
/** The cookie in which mod_auth_openidc stores how many parts there are. */
const partCount = "_chunks";
/** Browsers send fewer cookies to a host. */
const mostParts = 200;

/** @returns undefined: there are more than anybody has */
function continuations(cookies: string, name: string): Continuation[] | undefined {
  const found: Continuation[] = [];
  // It is looked for again only when it has been passed.
  let equalsAt = -1;
  for (let at = cookies.indexOf(name); at >= 0; at = cookies.indexOf(name, at + 1)) {
    let isPlain = true;
    let before = at - 1;
    while (before >= 0 && isBlank(cookies.charCodeAt(before))) {
      if (cookies.charCodeAt(before) !== space) isPlain = false;
      before -= 1;
    }
    const beginsPair = before < 0 || cookies.charCodeAt(before) === semicolon;
    if (!beginsPair && before === at - 1 && isOfToken(cookies.charCodeAt(before))) continue;
    const start = at + name.length;
    if (equalsAt < start) equalsAt = cookies.indexOf("=", start);
    if (equalsAt < 0) return found;
    const semicolonAt = cookies.indexOf(";", at);
    const end = semicolonAt < 0 ? cookies.length : semicolonAt;
    if (equalsAt >= end) continue;
    let endOfName = equalsAt;
    while (endOfName > start && isBlank(cookies.charCodeAt(endOfName - 1))) endOfName -= 1;
    if (endOfName === start) continue;
    if (found.length === mostParts) return undefined;
    const separator = separatorAt(cookies, start, endOfName);
    if (!beginsPair && separator === "") continue;
    found.push({
      separator,
      number: separator === "" ? -1 : numberAt(cookies, start + separator.length, endOfName),
      written: cookies.slice(equalsAt + 1, end),
      isPlain: beginsPair && isPlain && endOfName === equalsAt,
    });
  }
  return found;
}

/** @returns partCount, too */
function separatorAt(cookies: string, start: number, end: number): string {
  const code = cookies.charCodeAt(start);
  if (code !== dot && code !== underscore && code !== letterC) return "";
  const isDouble = code === underscore && cookies.charCodeAt(start + 1) === underscore;
  let at = start + (isDouble ? 2 : 1);
  while (at < end && isDigit(cookies.charCodeAt(at))) at += 1;
  if (at < end) return end === start + partCount.length && cookies.slice(start, end) === partCount ? partCount : "";
  if (!isDigit(cookies.charCodeAt(end - 1))) return "";
  if (code === letterC) return chunkSeparator;
  return code === dot ? "." : isDouble ? "__" : "_";
}

/** @param start of nothing but digits */
function numberAt(cookies: string, start: number, end: number): number {
  if (end > start + 3 || (cookies.charCodeAt(start) === digit0 && end > start + 1)) return -1;
  let number = 0;
  for (let at = start; at < end; at++) number = 10 * number + cookies.charCodeAt(at) - digit0;
  return number;
}

/** Every name of Auth.js' own for the cookie of a session ends so. */
const nameOfAuthJs = "session-token";

/** Returns what services join if there is no cookie of the name itself. */
function joinedWithoutOne(others: readonly Continuation[], name: string): Reading {
  let joined: string | undefined;
  let joinedBy = "";
  for (const separator of separators) {
    const text = joinedParts(others, separator, 0);
    if (text === undefined) continue;
    if (text === false || joined !== undefined) return false;
    joined = text;
    joinedBy = separator;
  }
  if (joined === undefined) return name.endsWith(nameOfAuthJs) && isTokenInParts("", others) ? false : undefined;
  const more = others.filter(({ separator }) => separator !== joinedBy && separator !== partCount);
  const count = others.length - more.length;
  for (const { separator, written } of others) {
    if (separator === partCount && written !== `${count - 1}`) return false;
  }
  return isTokenInParts(joined, more) ? false : joined;
}

/**
 * Joins the parts in the order of their numbers. No server drops one of them or ends at one: a client could have a session counted with whatever
 * it writes behind it.
 *
 * @param first the number of the first part @param count how many there are; undefined: as many as come
 * @returns undefined: there are none, or fewer. false: servers do not join the same
 */
function joinedParts(others: readonly Continuation[], by: string, first: number, count?: number): Reading {
  const parts: string[] = [];
  let found = 0;
  let isBegun = count !== undefined;
  let isOdd = false;
  for (const { separator, number, written, isPlain } of others) {
    const index = number - first;
    if (separator !== by || (count !== undefined && index >= count)) continue;
    // Auth.js begins with any number. For others, what has a number may be anything if no part is the first.
    if (index === 0 || by === ".") isBegun = true;
    const text = isPlain && index >= 0 && index < mostParts ? partText(written) : false;
    if (text === false || text === "" || parts[index] !== undefined) {
      isOdd = true;
    } else {
      parts[index] = text;
      found += 1;
    }
  }
  if (!isBegun) return undefined;
  if (isOdd) return false;
  for (let i = 0; i < (count ?? found); i++) {
    if (parts[i] === undefined) return count === undefined ? false : undefined;
  }
  return withoutEnds(parts.join(""), isDecodedEnd);
}

/** @returns false if some server does not find the cookie, or changes what is in it */
function partText(written: string): string | false {
  const bare = withoutEnds(written, isSpace);
  const plain = readable(bare);
  if (plain === bare) return bare.includes("%") ? false : bare;
  return plain === false || isCutBySome(plain) ? false : plain;
}

/** What ASP.NET stores in the cookie itself then, before "-" (Core) or ":" and how many the others are. */
const chunked = "chunks";

/** Returns what ASP.NET joins: one of a session's texts, whether it comes in chunks or not. It reads the number with zeros before it, too. */
function joinedChunks(cookies: string, name: string, value: string, others: readonly Continuation[]): Reading {
  const separator = value.charCodeAt(chunked.length);
  const digits = value.slice(chunked.length + 1);
  if ((separator !== hyphen && separator !== colon) || !isDigit(digits.charCodeAt(0))) return value;
  const count = Number(digits);
  if (!(count >= 1 && count <= mostParts) || `${count}` !== digits) return false;
  const chunk = `${name}${chunkSeparator}`;
  if (hasSimilarName(cookies, chunk, isSimilarChunkAt)) return false;
  if (hasSimilarNameWithin(cookies, chunk, undefined, isSimilarChunkAt)) return false;
  return joinedParts(others, chunkSeparator, 1, count) ?? value;
}

/** An encrypted token has so many (RFC 7516); one that is only signed has two. */
const dotsOfJwe = 4;
/** Its shortest header, a nonce and a tag, in base64url. */
const leastJweBytes = 60;

/**
 * Auth.js joins all cookies whose names begin with the session's, in an order that the names tell. Returns whether they are together a token as it
 * makes them: encrypted directly, so that there is nothing between two of its dots.
 */
function isTokenInParts(value: string, others: readonly Continuation[]): boolean {
  let dots = countDots(value);
  let bytes = value.length;
  let isDirect = value.includes("..");
  let begins = value.startsWith(".");
  let ends = value.endsWith(".");
  let isOther = false;
  for (const { written } of others) {
    const text = withoutEnds(decoded(written) || written, isEnd);
    if (text === "") continue;
    isOther = true;
    dots += countDots(text);
    bytes += text.length;
    if (text.includes("..")) isDirect = true;
    if (text.startsWith(".")) begins = true;
    if (text.endsWith(".")) ends = true;
  }
  return isOther && dots === dotsOfJwe && bytes >= leastJweBytes && (isDirect || (begins && ends));
}

/** Tomcat reads a line that says so by RFC 2109, where "," separates cookies. */
function isSplitAtCommas(cookies: string): boolean {
  return cookies.includes("$Version") && cookies.includes(",");
}

type IsSimilar = (this: void, cookies: string, start: number, end: number, name: string) => boolean;

/** Returns whether some server takes the name of another cookie for this one, or there are too many cookies. */
function hasSimilarName(cookies: string, name: string, isSimilar: IsSimilar): boolean {
  let start = 0;
  let end = 0;
  for (let count = 0; end >= 0; count++) {
    if (count === mostCookies) return true;
    while (isBlank(cookies.charCodeAt(start))) start += 1;
    end = cookies.indexOf(";", start);
    if (!beginsOtherwise(cookies, start, name) && isSimilar(cookies, start, end < 0 ? cookies.length : end, name)) {
      return true;
    }
    start = end + 1;
  }
  return false;
}

/**
 * Returns whether a similar name is within a cookie: ASP.NET Core, Plack and nginx begin another one behind characters that are of no name.
 *
 * @param last the last character of such a name, in any case, if it is not encoded; undefined: there are several
 */
function hasSimilarNameWithin(cookies: string, name: string, last: number | undefined, isSimilar: IsSimilar): boolean {
  const hasPercent = cookies.includes("%");
  const length = hasPercent || last === undefined ? undefined : name.length;
  let at = cookies.indexOf("=");
  for (let count = 0; at >= 0; count++) {
    if (count === mostCookies) return true;
    const code = cookies.charCodeAt(at - 1);
    // This is true of few cookies.
    const isCandidate =
      last === undefined ||
      code % 32 === last % 32 ||
      isBlank(code) ||
      (hasPercent && cookies.charCodeAt(at - 3) === percent);
    if (isCandidate && isWithin(cookies, at, name, length, isSimilar)) return true;
    at = cookies.indexOf("=", at + 1);
  }
  return false;
}

/** @param length of the name; undefined: it may be another one */
function isWithin(
  cookies: string,
  equalsAt: number,
  name: string,
  length: number | undefined,
  isSimilar: IsSimilar,
): boolean {
  let end = equalsAt;
  while (end > 0 && isBlank(cookies.charCodeAt(end - 1))) end -= 1;
  let start = length === undefined ? end : Math.max(end - length, 0);
  if (length === undefined) while (start > 0 && isOfToken(cookies.charCodeAt(start - 1))) start -= 1;
  let before = start - 1;
  if (start === end || before < 0 || isOfToken(cookies.charCodeAt(before))) return false;
  if (beginsOtherwise(cookies, start, name)) return false;
  while (before >= 0 && isBlank(cookies.charCodeAt(before))) before -= 1;
  if (before < 0 || cookies.charCodeAt(before) === semicolon) return false;
  return isSimilar(cookies, start, equalsAt + 1, name);
}

function isSimilarAt(cookies: string, start: number, end: number, name: string): boolean {
  let endOfName = start;
  while (endOfName < end && cookies.charCodeAt(endOfName) !== equals) endOfName += 1;
  if (endOfName === end) return false;
  while (endOfName > start && isBlank(cookies.charCodeAt(endOfName - 1))) endOfName -= 1;
  const likeness = compareName(cookies, start, endOfName, name);
  // Names of cookies are not encoded; some servers have decoded them all the same.
  return likeness !== otherName && (likeness !== sameName || endOfName - start !== name.length);
}

/** ASP.NET ignores case, and Core has decoded names. @param name without the number of the chunk */
function isSimilarChunkAt(cookies: string, start: number, end: number, name: string): boolean {
  const at = afterBeginning(cookies, start, end, name);
  if (at < 0) return false;
  const code = cookies.charCodeAt(at);
  return code === percent || (isDigit(code) && cookies.slice(start, at) !== name);
}

/** @returns undefined if the text at this place is not the name of a cookie */
function valueAt(cookies: string, name: string, at: number, read: ReadText): Reading {
  let afterName = at + name.length;
  let isOdd = false;
  while (isBlank(cookies.charCodeAt(afterName))) {
    if (!isSpaceOrTab(cookies.charCodeAt(afterName))) isOdd = true;
    afterName += 1;
  }
  if (cookies.charCodeAt(afterName) !== equals) return undefined;
  let before = at - 1;
  while (before >= 0 && isBlank(cookies.charCodeAt(before))) {
    if (!isSpaceOrTab(cookies.charCodeAt(before))) isOdd = true;
    before -= 1;
  }
  const beginsPair = before < 0 || cookies.charCodeAt(before) === semicolon;
  // This is the end of another name, or within a value. After what is of no name, some parsers begin a cookie.
  if (!beginsPair) return before === at - 1 && isOfToken(cookies.charCodeAt(before)) ? undefined : false;
  if (isOdd) return false;
  const end = cookies.indexOf(";", afterName);
  return read(cookies.slice(afterName + 1, end < 0 ? cookies.length : end));
}

function canonical(written: string): string | false {
  const bare = withoutQuotes(withoutEnds(written, isSpaceOrTab));
  const plain = readable(bare);
  if (plain === false) return false;
  const text = withoutEnds(plain, isDecodedEnd);
  // Express reads JSON behind "j:", which has many spellings.
  if (text.charCodeAt(0) === letterJ && text.charCodeAt(1) === colon) return false;
  return plain !== bare && isCutBySome(text) ? false : text;
}

/** If there is a quote at the beginning alone, Koa drops the last character, too. */
function withoutQuotes(text: string): string {
  const last = text.length - 1;
  const isQuoted = last > 0 && text.charCodeAt(0) === quote && text.charCodeAt(last) === quote;
  return isQuoted ? text.slice(1, last) : text;
}

/** Returns whether services that decode a value may lose a part of it: at control characters, and as blanks around it. */
function isCutBySome(plain: string): boolean {
  for (let i = 0; i < plain.length; i++) {
    const code = plain.charCodeAt(i);
    if (code < space || code === 127) return true;
  }
  return withoutBlanks(plain) !== plain;
}

/** Plack, ASP.NET Core and WebOb end a value at a comma, and WebOb at a bracket. */
function readable(bare: string): string | false {
  let hasPercent = false;
  for (let i = 0; i < bare.length; i++) {
    const code = bare.charCodeAt(i);
    if (code <= space || code > 126 || code === quote || code === comma) return false;
    // A bracket or "\".
    if (code >= bracket && code <= closingBracket) return false;
    if (code === percent) hasPercent = true;
  }
  return hasPercent ? decoded(bare) : bare;
}

/** If a part of the text is no encoding, some decoders leave the whole text as it is; others decode the rest. */
function decoded(text: string): string | false {
  const plain = percentDecoded(text, "+");
  if (plain !== undefined) return plain;
  return hasEncoding(text) ? false : text;
}

function hasEncoding(text: string): boolean {
  for (let i = 0; i < text.length - 2; i++) {
    const isEncoding = hexDigit(text.charCodeAt(i + 1)) >= 0 && hexDigit(text.charCodeAt(i + 2)) >= 0;
    if (text.charCodeAt(i) === percent && isEncoding) return true;
  }
  return false;
}

function withoutEnds(text: string, isDropped: (this: void, code: number) => boolean): string {
  let start = 0;
  let end = text.length;
  while (start < end && isDropped(text.charCodeAt(start))) start += 1;
  while (end > start && isDropped(text.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === space;
}

function isEnd(code: number): boolean {
  return code === quote || isSpaceOrTab(code);
}

/** "+" stands for a space. */
function isDecodedEnd(code: number): boolean {
  return code === quote || code === plus || code === tab;
}

function isSpaceOrTab(code: number): boolean {
  return code === space || code === tab;
}

/** Returns whether some server takes this for a blank: control characters, and Unicode's spaces. False for NaN, past the end. */
function isBlank(code: number): boolean {
  return code <= space || code > 126;
}

/** Returns whether names may have this character (RFC 9110: token). */
function isOfToken(code: number): boolean {
  if (code <= space || code > 126 || code === quote || code === comma || code === slash) return false;
  if (code >= colon && code <= 64) return false;
  if (code >= bracket && code <= closingBracket) return false;
  return code !== 40 && code !== 41 && code !== brace && code !== closingBrace;
}

// Checks where `degrade` may send a request: within the paths of the app's realm, or to what an admin has listed; and never to
// Sluice's own paths, which are for operators. A path is checked in the form in which nginx will look for its location: decoded
// once. Here slashes are merged and dots resolved as well, so that no spelling passes for another path.

import type { OnLimit } from "../document/on-limit.ts";
import type { Problem } from "../document/problems.ts";
import { describeValue } from "../document/validate.ts";
import { characterAt, illFormed, unitsOf } from "../match/characters.ts";
import { beneath, type Realm } from "./realm.ts";

/** Sluice's own locations, on every listener. */
const reserved = "/sluice";

/**
 * A path may have been encoded up to this many times, so that a server behind nginx that decodes once more finds nothing either.
 */
const mostDecodings = 4;

/** @param realm undefined: the app has every path */
export function redirectProblems(onLimit: OnLimit, realm: Realm | undefined): Problem[] {
  if (onLimit.action !== "degrade" || onLimit.target === undefined) return [];
  const { target } = onLimit;
  const got = describeValue(target);
  if (target.startsWith("@")) {
    if (isReservedLocation(target)) {
      const expected = "a named location that does not begin with @sluice: those are Sluice's own";
      return [{ path: "onLimit.location", expected, got }];
    }
    if (realm === undefined || realm.redirects.includes(target)) return [];
    const expected = `a named location that the app's realm lists in redirects${listed(realm.redirects, true)}`;
    return [{ path: "onLimit.location", expected, got }];
  }
  if (isReservedUri(target)) {
    const expected = `a path that is not ${reserved} or beneath it: those are Sluice's own, for operators`;
    return [{ path: "onLimit.uri", expected, got }];
  }
  if (realm === undefined || realm.paths.length === 0 || isRedirectWithin(target, realm)) return [];
  const expected = `a path in normal form within ${realm.paths.join(", ")}, or one that the app's realm lists in redirects${listed(realm.redirects, false)}`;
  return [{ path: "onLimit.uri", expected, got }];
}

export function isReservedLocation(location: string): boolean {
  return location.toLowerCase().startsWith("@sluice");
}

/** Returns whether this is one of Sluice's own paths, in any spelling, with or without a query. */
export function isReservedUri(uri: string): boolean {
  let path = uri;
  for (let i = 0; i < mostDecodings; i++) {
    path = normalPath(path, i === 0);
    const lower = path.toLowerCase();
    if (lower === reserved || lower.startsWith(`${reserved}/`)) return true;
  }
  return false;
}

/**
 * Returns whether a redirect goes to a path of the realm, or to one that it lists. nginx only decodes its path, so a path that is
 * not in normal form is another path.
 */
function isRedirectWithin(uri: string, { paths, redirects }: Realm): boolean {
  if (!isNormalUri(uri)) return false;
  const path = normalPath(uri, true);
  for (const own of paths) {
    const bytes = bytesOf(own);
    if (path === bytes || path.startsWith(beneath(bytes))) return true;
  }
  return redirects.some((redirect) => !redirect.startsWith("@") && decode(redirect) === path);
}

export function isNormalUri(uri: string): boolean {
  return decode(uri.split("?")[0] as string) === normalPath(uri, true);
}

function listed(redirects: readonly string[], locations: boolean): string {
  const own = redirects.filter((redirect) => redirect.startsWith("@") === locations);
  return own.length === 0 ? ", and it lists none" : `: ${own.join(", ")}`;
}

/**
 * Returns the path decoded and without its query, with slashes merged and dots resolved, one unit per byte.
 *
 * @param hasQuery "?" begins the query
 */
function normalPath(uri: string, hasQuery: boolean): string {
  const path = decode(hasQuery ? (uri.split("?")[0] as string) : uri);
  const kept: string[] = [];
  const segments = path.split("/");
  for (const segment of segments) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(segment);
  }
  const last = segments[segments.length - 1];
  const isDirectory = last === "" || last === "." || last === "..";
  return kept.length === 0 ? "/" : `/${kept.join("/")}${isDirectory ? "/" : ""}`;
}

function decode(text: string): string {
  let decoded = "";
  let i = 0;
  while (i < text.length) {
    const code = text.charCodeAt(i) === 37 ? hexAt(text, i + 1) * 16 + hexAt(text, i + 2) : -1;
    if (code >= 0) {
      decoded += String.fromCharCode(code);
      i += 3;
    } else {
      decoded += text.charAt(i);
      i += 1;
    }
  }
  return decoded;
}

/** @returns a number far below 0 if there is no hexadecimal digit */
function hexAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  if (code >= 65 && code <= 70) return code - 55;
  return -1000;
}

/** Returns the text's UTF-8, one unit per byte, as decoding gives it for a path that is percent-encoded. */
function bytesOf(text: string): string {
  let bytes = "";
  let at = 0;
  while (at < text.length) {
    const character = characterAt(text, at);
    const units = unitsOf(character);
    if (character < 0x80) bytes += text.charAt(at);
    else if (character === illFormed || isBytes) bytes += text.slice(at, at + units);
    else bytes += utf8Of(character);
    at += units;
  }
  return bytes;
}

const isBytes = "é".length === 2;

function utf8Of(character: number): string {
  const last = String.fromCharCode(0x80 + (character % 64));
  const above = Math.floor(character / 64);
  if (character < 0x800) return String.fromCharCode(0xc0 + above) + last;
  const third = String.fromCharCode(0x80 + (above % 64));
  const higher = Math.floor(above / 64);
  if (character < 0x10000) return String.fromCharCode(0xe0 + higher) + third + last;
  return String.fromCharCode(0xf0 + Math.floor(higher / 64)) + String.fromCharCode(0x80 + (higher % 64)) + third + last;
}

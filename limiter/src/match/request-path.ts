// Finds what servers read of a request's path where nginx reads something else. nginx resolves dots and merges slashes; many servers do not. Servers
// that read a URL as browsers do take "\" for "/", and what follows "//" for a host. Servlet containers drop parameters such as ";a=1" before they
// resolve dots.

import { hexDigit } from "../basics/hex-digit.ts";

const numberSign = 35;
const percent = 37;
const dot = 46;
const slash = 47;
const semicolon = 59;
const questionMark = 63;
const backslash = 92;

/**
 * Returns whether servers read different paths in the target: it begins with two slashes, or has a backslash, a segment of one or two dots in
 * any spelling, or "%2F" in a parameter. `otherPaths` has these paths. Parameters alone do not make it ambiguous: see `withoutParameters`.
 *
 * @param target as the client has sent it, from the first slash of its path on, maybe with a query
 */
export function isAmbiguousPath(target: string): boolean {
  const length = target.length;
  if (length > 1 && target.charCodeAt(1) === slash) return true;
  // How many dots the segment has; -1: it has other characters.
  let dots = 0;
  let inParameter = false;
  for (let i = 1; i < length; i++) {
    let code = target.charCodeAt(i);
    if (code === backslash) return true;
    if (code === questionMark || code === numberSign) break;
    if (code === percent && i + 2 < length) {
      code = unescaped(target.charCodeAt(i + 1), target.charCodeAt(i + 2));
      i += 2;
      if (code === slash && inParameter) return true;
    }
    if (code === slash || code === semicolon) {
      if (dots === 1 || dots === 2) return true;
      inParameter = code === semicolon;
      dots = inParameter ? -1 : 0;
    } else dots = code === dot && dots >= 0 ? dots + 1 : -1;
  }
  return dots === 1 || dots === 2;
}

/**
 * Returns the paths that servers read in an ambiguous target, beside the one that nginx reads. Policies of each of them are to be looked for.
 *
 * @param target as for `isAmbiguousPath`
 */
export function otherPaths(target: string): readonly string[] {
  const written = (target.split("?")[0] as string).split("#")[0] as string;
  const slashed = written.split("\\").join("/");
  const bare = written.split("/").map((segment) => segment.split(";")[0] as string);
  return [
    // Servers that do not resolve dots.
    joined(decoded(written).split("/")),
    // Those that read a URL, with a host after two slashes, and those that only take "\" for "/".
    resolved(decoded(withoutHost(slashed)), false),
    resolved(decoded(slashed), false),
    // Servlet containers, which drop parameters first.
    resolved(decoded(bare.join("/")), true),
  ];
}

/** Further slashes before a host are dropped. */
function withoutHost(path: string): string {
  if (!path.startsWith("//")) return path;
  let host = 2;
  while (path.charCodeAt(host) === slash) host += 1;
  const end = path.indexOf("/", host);
  return end < 0 ? "/" : path.slice(end);
}

function decoded(path: string): string {
  const [first = "", ...encoded] = path.split("%");
  const parts = [first];
  for (const text of encoded) {
    const high = hexDigit(text.charCodeAt(0));
    const low = hexDigit(text.charCodeAt(1));
    parts.push(high < 0 || low < 0 ? `%${text}` : String.fromCharCode(16 * high + low) + text.slice(2));
  }
  return parts.join("");
}

/** @param merges whether several slashes are one; otherwise there is an empty segment between two of them, which ".." removes */
function resolved(path: string, merges: boolean): string {
  const segments: string[] = [];
  let last = "";
  for (const segment of path.slice(1).split("/")) {
    last = segment === "." || segment === ".." ? "" : segment;
    if (segment === "..") segments.pop();
    else if (last !== "" || (segment === "" && !merges)) segments.push(last);
  }
  return joined(last === "" ? [...segments, ""] : segments);
}

/** Several slashes are one. */
function joined(segments: readonly string[]): string {
  const last = segments[segments.length - 1] ?? "";
  const path = segments.filter((segment) => segment !== "").join("/");
  return last === "" && path !== "" ? `/${path}/` : `/${path}`;
}

/** Returns the characters that matter here: "%2e" is a dot, and "%2f" a slash. */
function unescaped(high: number, low: number): number {
  if (high !== 50) return percent;
  if (low === 69 || low === 101) return dot;
  return low === 70 || low === 102 ? slash : percent;
}

/** The path that was asked about last: each policy with a regular expression asks about the same one. */
let lastPath = "";
let lastOther = "";

/**
 * Returns the path as servlet containers read it: without what begins with ";" in each segment.
 *
 * @param path in normal form, of a target that is not ambiguous
 */
export function withoutParameters(path: string): string {
  const first = path.indexOf(";");
  if (first < 0) return path;
  if (path !== lastPath) {
    lastOther = partsBesideParameters(path, first).join("");
    lastPath = path;
  }
  return lastOther;
}

function partsBesideParameters(path: string, first: number): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let semicolonAt = first; semicolonAt >= 0; semicolonAt = path.indexOf(";", from)) {
    parts.push(path.slice(from, semicolonAt));
    from = path.indexOf("/", semicolonAt);
    if (from < 0) return parts;
    // The segment had parameters alone, and two slashes are one.
    if (path.charCodeAt(semicolonAt - 1) === slash) from += 1;
  }
  parts.push(path.slice(from));
  return parts;
}

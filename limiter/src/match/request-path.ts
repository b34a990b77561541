// Finds what servers read of a request's path where nginx reads something else. nginx resolves dots and merges slashes; many servers do not. Servers
// that read a URL as browsers do take "\" for "/", and what follows "//" for a host. Servlet containers drop parameters such as ";a=1" before they
// resolve dots. Starlette and all who end an expression with "$" take "/login" and a line end for "/login".

import { hexDigit } from "../basics/hex-digit.ts";

/** What stands for any control character that is percent-encoded. */
const control = 0;
const numberSign = 35;
const percent = 37;
const dot = 46;
const slash = 47;
const semicolon = 59;
const questionMark = 63;
const backslash = 92;
const del = 127;

/** More slashes than any service has in its paths. Whoever resolves a path goes through all of its segments. */
const mostSegments = 500;
/** In bytes, of all readings of one path together: no expression then reads more than in a path of 8 KB with parameters. */
const mostRead = 16_384;

/**
 * Returns whether servers read different paths in the target: it begins with two slashes, or has a backslash, a "#", "%2F", a control character, or a
 * segment of one or two dots in any spelling. `otherPaths` has these paths. Parameters alone do not make it ambiguous: see `withoutParameters`.
 *
 * @param target as the client has sent it, from the first slash of its path on, maybe with a query
 */
export function isAmbiguousPath(target: string): boolean {
  const length = target.length;
  if (length > 1 && target.charCodeAt(1) === slash) return true;
  // How many dots the segment has; -1: it has other characters.
  let dots = 0;
  for (let i = 1; i < length; i++) {
    let code = target.charCodeAt(i);
    if (code === backslash || code === numberSign) return true;
    if (code === questionMark) break;
    if (code === percent && i + 2 < length) {
      code = unescaped(target.charCodeAt(i + 1), target.charCodeAt(i + 2));
      i += 2;
      if (code === slash) return true;
    }
    if (isControl(code)) return true;
    if (code === slash || code === semicolon) {
      if (dots === 1 || dots === 2) return true;
      dots = code === semicolon ? -1 : 0;
    } else dots = code === dot && dots >= 0 ? dots + 1 : -1;
  }
  return dots === 1 || dots === 2;
}

/**
 * Returns the paths that servers read in an ambiguous target, beside the one that nginx reads, each once. Policies of each of them are to be
 * looked for. Undefined: they are too long, or the path has a "#" or a control character, which no client sends.
 *
 * @param target as for `isAmbiguousPath` @param read what nginx reads
 */
export function otherPaths(target: string, read: string): readonly string[] | undefined {
  const written = pathOf(target);
  if (written.includes("#") || hasControlOrManySegments(written)) return undefined;
  const slashed = written.split("\\").join("/");
  const hostless = withoutHost(slashed);
  const bare = written.split("/").map((segment) => segment.split(";", 1)[0] as string);
  const others: string[] = [];
  const ofNginx = [read, withoutParameters(read)];
  let bytes = read.length;
  const add = (path: string) => {
    if (ofNginx.includes(path) || others.includes(path)) return;
    others.push(path);
    bytes += path.length;
  };
  // Many servers find segments before they decode them: "%2F" stays within its segment then.
  for (const slashStays of has2f(written) ? [false, true] : [false]) {
    const readings = [
      // Servers that do not resolve dots.
      joined(decoded(written, slashStays).split("/")),
      // Those that read a URL, with a host after two slashes, and those that only take "\" for "/".
      resolved(decoded(hostless, slashStays), false),
      resolved(decoded(slashed, slashStays), false),
      // Servlet containers, which drop parameters first.
      resolved(decoded(bare.join("/"), slashStays), true),
    ];
    for (const path of readings) {
      add(path);
      add(withoutParameters(path));
    }
  }
  return bytes > mostRead ? undefined : others;
}

/** Returns what nginx reads in a target whose path has no "#". */
export function pathOfNginx(target: string): string {
  return resolved(decoded(pathOf(target), false), true);
}

function pathOf(target: string): string {
  return target.split("?", 1)[0] as string;
}

function hasControlOrManySegments(written: string): boolean {
  let left = mostSegments;
  for (let i = 0; i < written.length && left > 0; i++) {
    const first = written.charCodeAt(i);
    const code = first === percent ? unescaped(written.charCodeAt(i + 1), written.charCodeAt(i + 2)) : first;
    if (isControl(code)) return true;
    if (code === slash || code === backslash) left -= 1;
  }
  return left === 0;
}

function isControl(code: number): boolean {
  return code < 32 || code === del;
}

function has2f(written: string): boolean {
  return written.includes("%2f") || written.includes("%2F");
}

/** Further slashes before a host are dropped. */
function withoutHost(path: string): string {
  if (!path.startsWith("//")) return path;
  let host = 2;
  while (path.charCodeAt(host) === slash) host += 1;
  const end = path.indexOf("/", host);
  return end < 0 ? "/" : path.slice(end);
}

/** @param slashStays whether "%2F" is left as it is written */
function decoded(path: string, slashStays: boolean): string {
  const parts = path.split("%");
  for (let i = 1; i < parts.length; i++) {
    const text = parts[i] as string;
    const high = hexDigit(text.charCodeAt(0));
    const low = hexDigit(text.charCodeAt(1));
    const code = 16 * high + low;
    const stays = high < 0 || low < 0 || (slashStays && code === slash);
    parts[i] = stays ? `%${text}` : String.fromCharCode(code) + text.slice(2);
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
  if (last === "") segments.push("");
  return joined(segments);
}

/** Several slashes are one. */
function joined(segments: readonly string[]): string {
  const last = segments[segments.length - 1] ?? "";
  const path = segments.filter((segment) => segment !== "").join("/");
  return last === "" && path !== "" ? `/${path}/` : `/${path}`;
}

/** Returns the characters that matter here: "%2e" is a dot, and "%2f" a slash; "%00" to "%1f" and "%7f" are control characters. */
function unescaped(high: number, low: number): number {
  if (high === 48 || high === 49 || (high === 55 && (low === 70 || low === 102))) return control;
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

// Finds requests whose path or host the servers behind nginx may read otherwise than nginx and policies do. Nearly all requests have none of the
// characters that this takes, and pay for looking for them alone.

import { isAmbiguousHost } from "../../../limiter/src/match/request-host.ts";
import { isAmbiguousPath, otherPaths } from "../../../limiter/src/match/request-path.ts";

/** Host headers that are not ambiguous, and what nginx reads in them. */
let knownHosts = new LuaTable<string, string>();
let knownCount = 0;
const slash = 47;
/** Clients can invent host headers. */
const mostKnown = 1000;

/** Returns the other paths that servers read; undefined: they read one. Plain searches, which LuaJIT compiles. */
export function readOtherPaths(): readonly string[] | undefined {
  const target = ngx.var["request_uri"] ?? "";
  const isOdd = has(target, "/.") || has(target, "%2") || has(target, "\\") || string.byte(target, 2) === slash;
  return isOdd && isAmbiguousPath(target) ? otherPaths(target) : undefined;
}

/** @param host as nginx reads it */
export function hasAmbiguousHost(host: string): boolean {
  const written = ngx.var["http_host"];
  if (written === undefined || knownHosts.get(written) === host) return false;
  if (isAmbiguousHost(written, host)) return true;
  if (knownCount >= mostKnown) {
    knownHosts = new LuaTable();
    knownCount = 0;
  }
  knownHosts.set(written, host);
  knownCount += 1;
  return false;
}

function has(target: string, text: string): boolean {
  return string.find(target, text, 1, true)[0] !== undefined;
}

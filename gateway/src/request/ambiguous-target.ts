// Finds requests whose path or host the servers behind nginx may read otherwise than nginx and policies do. Nearly all requests have none of the
// characters that this takes, and pay for looking for them alone. Finds parameters of the path, too.

import { emptyTable } from "../../../limiter/src/basics/table.ts";
import { meetsMore, type PolicyIndex } from "../../../limiter/src/index/policy-index.ts";
import { isAmbiguousHost } from "../../../limiter/src/match/request-host.ts";
import { isAmbiguousPath, otherPaths, pathOfNginx } from "../../../limiter/src/match/request-path.ts";
import { noteDefect } from "../runtime/defects.ts";

/** Host headers that are not ambiguous, and what nginx reads in them. */
let knownHosts = new LuaTable<string, string>();
let knownCount = 0;
const slash = 47;
/** Clients can invent host headers. */
const mostKnown = 1000;

/**
 * Returns whether servers may read a path in the request's target that meets more policies than nginx's reading. Plain searches, which LuaJIT
 * compiles: where the path is written as nginx reads it, two of them suffice.
 *
 * @param path as nginx reads it
 */
export function hasAmbiguousPath(index: PolicyIndex, host: string, path: string): boolean {
  const target = ngx.var["request_uri"] ?? "";
  const isOdd =
    has(target, "/.") ||
    has(target, "\\") ||
    string.byte(target, 2) === slash ||
    (target !== path && (has(target, "%") || has(target, "#")));
  if (!isOdd || !isAmbiguousPath(target)) return false;
  const [done, result] = pcall(mayMeetMore, index, host, path, target);
  if (done) return result as boolean;
  // A client has provoked it, and would pass by all policies.
  noteDefect("access", "a request was answered 400, because Sluice failed to read its path", result);
  return true;
}

function mayMeetMore(index: PolicyIndex, host: string, path: string, target: string): boolean {
  // After an internal redirect, nginx's path is not the one that the client has sent.
  const read = ngx.req.is_internal() ? pathOfNginx(target) : path;
  const others = otherPaths(target, read);
  return others === undefined || meetsMore(index, host, read, others);
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

/** The target whose parameters were read last: many policies may ask for those of one request. */
let parametersOf = "";
let parameters = emptyTable<boolean>();

/** Returns whether the path has a parameter of this name, in any case: `;NAME=`. */
export function hasPathParameter(name: string): boolean {
  const target = ngx.var["request_uri"] ?? "";
  if (!has(target, ";")) return false;
  if (target !== parametersOf) {
    parameters = parametersIn(target);
    parametersOf = target;
  }
  return parameters[name.toLowerCase()] === true;
}

function parametersIn(target: string): typeof parameters {
  const found = emptyTable<boolean>();
  const [path] = string.match(target, "^[^?]*");
  // Undertow decodes names.
  for (const [name] of string.gmatch(ngx.unescape_uri(path as string).toLowerCase(), ";([^;=]*)=")) {
    found[name as string] = true;
  }
  return found;
}

function has(target: string, text: string): boolean {
  return string.find(target, text, 1, true)[0] !== undefined;
}

// Finds Host headers in which servers read another host than nginx: "x@api.example.com", "a:80@api.example.com" and "api.exampl%65.com" are
// api.example.com to those that read a URL with it.

import { isDigit } from "../basics/digit.ts";

/**
 * Returns whether the header may be another host to other servers than to nginx.
 *
 * @param written the Host header as the client has sent it
 * @param host as nginx reads it: in lower case, without a port and without a dot at its end
 */
export function isAmbiguousHost(written: string, host: string): boolean {
  let at = host.length;
  if (written.slice(0, at).toLowerCase() !== host) return true;
  for (let i = 0; i < at; i++) if (!isOfHost(host.charCodeAt(i))) return true;
  if (written.charCodeAt(at) === 46) at += 1;
  const length = written.length;
  if (at < length && written.charCodeAt(at) !== 58) return true;
  for (let i = at + 1; i < length; i++) if (!isDigit(written.charCodeAt(i))) return true;
  return false;
}

/** Returns whether it is a letter, a digit, or one of "-._:[]", which IPv6 addresses have. */
function isOfHost(code: number): boolean {
  if (code >= 97 && code <= 122) return true;
  return (code >= 45 && code <= 46) || (code >= 48 && code <= 58) || code === 91 || code === 93 || code === 95;
}

// Reads the headers with which clients name versions that they have (RFC 9110 §13.1).

import type { IncomingHttpHeaders } from "node:http";

/** Returns whether the client of a GET already has this version. */
export function isKnown({ headers }: { headers: IncomingHttpHeaders }, etag: string): boolean {
  const ifNoneMatch = headers["if-none-match"];
  // A cache on the way may have made our tag weak; for reading, a weak match is enough.
  return ifNoneMatch !== undefined && lists(ifNoneMatch.replaceAll("W/", ""), etag);
}

/** Returns whether a header names this version, or any. */
export function lists(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false;
  if (header.trim() === "*") return true;
  return header.split(",").some((listed) => listed.trim() === etag);
}

// Pages of lists end by their size, too: a thousand entries of one may have a hundred megabytes of documents, each of which is read, parsed
// and written.

import { sql } from "kysely";

/** It takes some 10 ms to read, parse and write this much. */
const mostBytesOfPage = 1_000_000;

/** Returns how large texts in columns are, which no database reads them for. */
export function bytesIn(...columns: readonly string[]) {
  return sql<number>`${sql.join(
    columns.map((column) => sql`coalesce(octet_length(${sql.ref(column)}), 0)`),
    sql` + `,
  )}`;
}

/**
 * Returns those of the entries that are on the page: one at least.
 *
 * @param found one more than the limit if there are so many. The sizes of those behind the end of the page are not looked at
 */
export function pageOf<Found extends { readonly size: number | string }>(
  found: readonly Found[],
  limit: number,
): { page: Found[]; hasMore: boolean } {
  let bytes = 0;
  const end = found.findIndex(({ size }, i) => {
    bytes += Number(size);
    return i > 0 && (i >= limit || bytes > mostBytesOfPage);
  });
  const page = found.slice(0, end < 0 ? found.length : end);
  return { page, hasMore: page.length < found.length };
}

/** A statement reads each app by itself, because no index has the rows of several in one order. For each, MariaDB and PostgreSQL take 0.4 ms to plan it. */
export const appsAtOnce = 50;

/**
 * Returns the apps that a page reads, those with the newest rows, and where the page ends: other apps may have rows that are older than that.
 * @param newest the newest row of each app
 */
export function newestApps<Id extends number | string>(
  newest: readonly { readonly app: string; readonly newest: Id }[],
): { apps: string[]; end: Id | undefined } {
  const read = [...newest].sort((a, b) => (a.newest < b.newest ? 1 : -1)).slice(0, appsAtOnce);
  return { apps: read.map(({ app }) => app), end: read.length < newest.length ? read.at(-1)?.newest : undefined };
}

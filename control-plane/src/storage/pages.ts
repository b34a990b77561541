// Pages of lists end by their size, too: a thousand entries of one may have a hundred megabytes of documents, each of which is read, parsed
// and written.

import { type RawBuilder, sql } from "kysely";

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

/** How many rows of a table a statement reads: no index has the rows of several apps in one order. */
export const mostRead = 2_000;
/**
 * In a statement that reads each app by itself. It names them in a list: SQLite takes longer to prepare a union of so many than to run it, and what it
 * prepares it keeps to itself.
 */
export const appsAtOnce = 100;

/** Returns how many rows of each app a page reads: 20 at least, or somebody with a right in a thousand apps would get pages of two. */
export function mostRowsOfEach(apps: number): number {
  return Math.floor(mostRead / Math.min(apps, appsAtOnce));
}

/** Returns what a row of the app of the table "apps" is behind: the app's number, or -1. */
export function behind(numbers: ReadonlyMap<string, number>): RawBuilder<number> {
  if (numbers.size === 0) return sql.lit(-1);
  const ofEach = [...numbers].map(([app, number]) => sql`when ${app} then ${sql.lit(number)}`);
  return sql<number>`case ${sql.ref("apps.name")} ${sql.join(ofEach, sql` `)} else -1 end`;
}

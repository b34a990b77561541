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

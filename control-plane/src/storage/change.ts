// Changes what gateways enforce. Each change is one transaction with the change itself, the next revision number and the
// entry in the history. So no revision is skipped, shared or without a change.

import type { Transaction } from "kysely";
import type { Entry } from "./entry.ts";
import { countEntry } from "./history-retention.ts";
import type { Database, Tables } from "./tables.ts";

/** Who asked for a change, and when. */
export interface Origin {
  readonly who: string;
  readonly atMs: number;
  /** The address that the request came from. */
  readonly from?: string;
}

/** @returns the revision that the change got */
export type RecordEntry = (entry: Entry) => Promise<number>;

/** Throws when the request's condition does not hold for the current version (undefined: there is no version yet). */
export type Precondition = (revision: number | undefined) => void;

/**
 * Runs `body` as the only writer. If it throws, everything is rolled back. If it never calls `record`, nothing changes and
 * no revision number is used.
 */
export function change<T>(
  database: Database,
  origin: Origin,
  body: (transaction: Transaction<Tables>, record: RecordEntry) => Promise<T>,
): Promise<T> {
  return database.transaction().execute(async (transaction) => {
    // Every writer first writes to the single row of `meta`, so writers queue here on every database and at any isolation
    // level. What `body` reads afterwards stays true until it commits.
    await transaction
      .updateTable("meta")
      .set((row) => ({ revision: row.ref("revision") }))
      .where("id", "=", 1)
      .execute();
    return body(transaction, (entry) => append(transaction, origin, entry));
  });
}

async function append(transaction: Transaction<Tables>, origin: Origin, entry: Entry): Promise<number> {
  await transaction
    .updateTable("meta")
    .set((row) => ({ revision: row("revision", "+", 1) }))
    .where("id", "=", 1)
    .execute();
  const head = await transaction.selectFrom("meta").select("revision").where("id", "=", 1).executeTakeFirstOrThrow();
  const revision = Number(head.revision);
  await transaction
    .insertInto("revisions")
    .values({
      number: revision,
      at: origin.atMs,
      who: origin.who,
      action: entry.action,
      app: entry.app ?? "",
      policy: entry.policy ?? null,
      subject: entry.subject ?? null,
      before: entry.before ?? null,
      after: entry.after ?? null,
    })
    .execute();
  await countEntry(transaction, entry);
  return revision;
}

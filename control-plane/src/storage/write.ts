// Makes whoever writes to the database the only writer.

import type { Transaction } from "kysely";
import type { Database, Tables } from "./tables.ts";

/** Runs `body` as the only writer. If it throws, everything is rolled back. */
export function write<T>(database: Database, body: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
  return database.transaction().execute(async (transaction) => {
    // Every writer first writes to the single row of `meta`, so writers queue here on every database and at any isolation
    // level: no two wait for each other. What `body` reads afterwards stays true until it commits.
    await transaction
      .updateTable("meta")
      .set((row) => ({ revision: row.ref("revision") }))
      .where("id", "=", 1)
      .execute();
    return body(transaction);
  });
}

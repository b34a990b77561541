// Makes whoever writes to the database the only writer.

import { SqliteAdapter, type Transaction } from "kysely";
import { DatabaseBusy } from "./engines/database-errors.ts";
import { Turns } from "./engines/turns.ts";
import type { Database, Tables } from "./tables.ts";

/** The longest time that a change waits for earlier changes of this control plane. */
const patienceMs = 5_000;

/**
 * Changes of one control plane take turns here: if all waited in the database, they would take all connections, and reads would wait
 * for them.
 */
const turns = new WeakMap<Database, Turns>();

/** Runs `body` as the only writer. If it throws, everything is rolled back. @throws DatabaseBusy */
export async function write<T>(database: Database, body: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
  // SQLite's driver has such a queue of its own.
  if (database.getExecutor().adapter instanceof SqliteAdapter) return writeNow(database, body);
  const own = turns.get(database) ?? new Turns();
  turns.set(database, own);
  const release = await own.take(performance.now() + patienceMs);
  if (release === undefined) throw new DatabaseBusy(patienceMs);
  try {
    return await writeNow(database, body);
  } finally {
    release();
  }
}

function writeNow<T>(database: Database, body: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
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

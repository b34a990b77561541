// A new epoch for a history that lost its end, as a restored backup does: its next revisions would come under numbers
// that gateways know already, and that they would refuse as old.

import { randomUUID } from "node:crypto";
import type { Transaction } from "kysely";
import { change, type Origin, type RecordEntry } from "./change.ts";
import type { Database } from "./database.ts";
import type { Tables } from "./tables.ts";

/** A revision of one history. */
export interface Position {
  readonly epoch: string;
  readonly revision: number;
}

/**
 * Makes the database's history another one, unless it reaches as far as `held` or is another one already.
 * @param held what somebody holds of it
 * @returns the newest position that was left behind, or undefined when nothing had to change
 */
export function renewEpoch(database: Database, origin: Origin, held: Position): Promise<Position | undefined> {
  return change(database, origin, async (transaction, record) => {
    const head = await transaction.selectFrom("meta").selectAll().where("id", "=", 1).executeTakeFirstOrThrow();
    const left = { epoch: head.epoch, revision: Number(head.revision) };
    if (left.epoch !== held.epoch || left.revision >= held.revision) return undefined;
    await replaceEpoch(transaction, record, "new-epoch", left);
    return left;
  });
}

/** Makes it another one because somebody asked. @returns the revision that begins it */
export function beginEpoch(database: Database, origin: Origin): Promise<number> {
  return change(database, origin, async (transaction, record) => {
    const head = await transaction.selectFrom("meta").selectAll().where("id", "=", 1).executeTakeFirstOrThrow();
    return replaceEpoch(transaction, record, "begin-epoch", { epoch: head.epoch, revision: Number(head.revision) });
  });
}

async function replaceEpoch(
  transaction: Transaction<Tables>,
  record: RecordEntry,
  action: "new-epoch" | "begin-epoch",
  left: Position,
): Promise<number> {
  const epoch = randomUUID();
  await transaction.updateTable("meta").set({ epoch }).where("id", "=", 1).execute();
  return record({ action, before: JSON.stringify(left), after: JSON.stringify({ epoch }) });
}

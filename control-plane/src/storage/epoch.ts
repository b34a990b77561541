// Begins a new epoch when the history has lost its end, for example after a restore from a backup. Otherwise the next
// revisions would get numbers that gateways know already, and gateways would refuse them as old.

import { randomUUID } from "node:crypto";
import type { Transaction } from "kysely";
import { change, type Origin, type RecordEntry } from "./change.ts";
import type { Database, Tables } from "./tables.ts";

/** A revision of one history. */
export interface Position {
  readonly epoch: string;
  readonly revision: number;
}

/**
 * Begins a new epoch, unless the database's history reaches `held`, or is already another history.
 * @param held the position that a gateway or this process holds
 * @returns the newest position of the abandoned history, or undefined when nothing had to change
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

/** Begins a new epoch because an admin asked for it. @returns the first revision of the new epoch */
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
  await transaction.updateTable("meta").set({ epoch, terms: null }).where("id", "=", 1).execute();
  return record({ action, before: JSON.stringify(left), after: JSON.stringify({ epoch }) });
}

// A new epoch for a history that lost its end, as a restored backup does: its next revisions would come under numbers
// that gateways know already, and that they would refuse as old.

import { randomUUID } from "node:crypto";
import { change, type Origin } from "./change.ts";
import type { Database } from "./database.ts";

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
    const epoch = randomUUID();
    await transaction.updateTable("meta").set({ epoch }).where("id", "=", 1).execute();
    await record({ action: "new-epoch", before: JSON.stringify(left), after: JSON.stringify({ epoch }) });
    return left;
  });
}

// The audit trail of actions that do not change what gateways enforce: making and deleting tokens; members; signing in and out;
// reading, resetting and topping up counters by hand. Entries are written once and never changed, but for that of an import, which each of its
// parts completes. Old entries are deleted. If the
// entries of an app take too much room, those about reading and refused sign-ins go first, and those about members last.

import type { Transaction } from "kysely";
import { type Origin, writeFor } from "./change.ts";
import { newId } from "./new-id.ts";
import type { AuditTable, Database, Tables } from "./tables.ts";
import { emptyRow } from "./usage.ts";
import { write } from "./write.ts";

export const auditActions = [
  "create-token",
  "delete-token",
  "create-member",
  "update-member",
  "delete-member",
  "sign-in",
  "sign-out",
  "end-session",
  "refuse-sign-in",
  "read-counter",
  "reset-counter",
  "top-up-counter",
  "put-consumer",
  "delete-consumer",
  "import-consumers",
] as const;
export type AuditAction = (typeof auditActions)[number];

export interface Trace {
  readonly action: AuditAction;
  readonly app: string;
  /** The name of the token or member, or the id of the consumer; of an import, how many; for a counter, `{"policy":…,"key":[…]}`. */
  readonly subject: string;
  /** As JSON. */
  readonly before?: string;
  readonly after?: string;
}

/** The most bytes that the entries of one app may take. */
const mostBytesOfApp = 33_554_432;
const rowsAtOnce = 100;
const dayMs = 86_400_000;

export async function writeTrace(
  transaction: Transaction<Tables>,
  { who, atMs, from }: Origin,
  { action, app, subject, before, after }: Trace,
  id = newId(atMs),
): Promise<void> {
  const bytes = Buffer.byteLength(`${who}${from ?? ""}${action}${app}${subject}${before ?? ""}${after ?? ""}`) + 100;
  await makeRoom(transaction, app, bytes);
  const row: AuditTable = {
    id,
    at: atMs,
    who,
    source: from ?? null,
    action,
    app,
    subject,
    before: before ?? null,
    after: after ?? null,
    bytes,
  };
  await transaction.insertInto("audit").values(row).execute();
  await addBytes(transaction, app, bytes);
}

/**
 * Writes the entry with this id, or replaces what it says, for what is stored in parts. That it becomes some digits longer is in the hundred
 * bytes that each entry counts besides.
 */
export async function completeTrace(
  transaction: Transaction<Tables>,
  origin: Origin,
  what: Trace & { readonly after: string },
  id: string,
): Promise<void> {
  const { subject, after } = what;
  const { numUpdatedRows } = await transaction
    .updateTable("audit")
    .set({ subject, after })
    .where("id", "=", id)
    .executeTakeFirst();
  // There is none yet, or it was deleted meanwhile because there was no room for others.
  if (numUpdatedRows === 0n) await writeTrace(transaction, origin, what, id);
}

/** Writes an entry in its own transaction, for an action that changes nothing else in the database. */
export function trace(database: Database, origin: Origin, what: Trace): Promise<void> {
  return writeFor(database, origin, (transaction) => writeTrace(transaction, origin, what));
}

/** Deletes a small number of old entries. @returns whether there may be more to delete */
export async function pruneAudit(database: Database, days: number, nowMs: number): Promise<boolean> {
  const readOld = (from: Database | Transaction<Tables>) =>
    from
      .selectFrom("audit")
      .select(["id", "app", "bytes"])
      .where("at", "<", nowMs - days * dayMs)
      .orderBy("at")
      .limit(rowsAtOnce)
      .execute();
  if ((await readOld(database)).length === 0) return false;
  return write(database, async (transaction) => {
    // Read again: another control plane may have deleted them.
    const old = await readOld(transaction);
    await deleteRows(transaction, old);
    return old.length === rowsAtOnce;
  });
}

/**
 * The order in which entries are deleted when there is no room: topping counters up or signing in in a loop must not erase who
 * made which token, and neither must a member who makes and deletes tokens of their own in a loop erase who made whom an admin.
 */
const deletionOrder: readonly (readonly AuditAction[])[] = [
  ["read-counter", "refuse-sign-in"],
  ["sign-in", "sign-out", "end-session"],
  ["put-consumer", "delete-consumer"],
  ["reset-counter", "top-up-counter", "import-consumers"],
  ["create-token", "delete-token"],
  ["create-member", "update-member", "delete-member"],
];

/** Deletes as many entries as the new row needs, and no more. */
async function makeRoom(transaction: Transaction<Tables>, app: string, wanted: number): Promise<void> {
  const row = await transaction.selectFrom("usage").select("audit_bytes").where("app", "=", app).executeTakeFirst();
  if (row === undefined) {
    await transaction.insertInto("usage").values(emptyRow(app)).execute();
    return;
  }
  let excess = Number(row.audit_bytes) + wanted - mostBytesOfApp;
  for (const actions of deletionOrder) {
    while (excess > 0) {
      const oldest = await transaction
        .selectFrom("audit")
        .select(["id", "app", "bytes"])
        .where("app", "=", app)
        .where("action", "in", actions)
        .orderBy("id")
        .limit(rowsAtOnce)
        .execute();
      if (oldest.length === 0) break;
      const chosen: typeof oldest = [];
      for (const one of oldest) {
        if (excess <= 0) break;
        chosen.push(one);
        excess -= Number(one.bytes);
      }
      await deleteRows(transaction, chosen);
    }
  }
}

async function deleteRows(
  transaction: Transaction<Tables>,
  rows: readonly Pick<AuditTable, "id" | "app" | "bytes">[],
): Promise<void> {
  if (rows.length === 0) return;
  const ids = rows.map(({ id }) => id);
  await transaction.deleteFrom("audit").where("id", "in", ids).execute();
  const sums = new Map<string, number>();
  for (const { app, bytes } of rows) sums.set(app, (sums.get(app) ?? 0) + Number(bytes));
  for (const [app, bytes] of sums) await addBytes(transaction, app, -bytes);
}

async function addBytes(transaction: Transaction<Tables>, app: string, bytes: number): Promise<void> {
  await transaction
    .updateTable("usage")
    .set((row) => ({ audit_bytes: row("audit_bytes", "+", bytes) }))
    .where("app", "=", app)
    .execute();
}

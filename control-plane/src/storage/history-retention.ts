// How long the history is kept. It is bounded for each app by the bytes of its documents, so that nobody's changes push out
// somebody else's, and for all by age. What goes, goes oldest first and in small steps.

import type { Transaction } from "kysely";
import type { Entry } from "./change.ts";
import type { Database } from "./database.ts";
import type { Tables } from "./tables.ts";
import { emptyRow } from "./usage.ts";

export interface HistoryRetention {
  /** Entries that are older go, but for the newest `atLeast` of all. */
  readonly days: number;
  /** Of the documents before and after, for each app. */
  readonly bytesOfApp: number;
}

/** However old they are. */
export const keptEntries = 1_000;
/** Of an entry, beside its documents. */
export const bytesOfEntry = 200;
const entriesAtOnce = 100;
const dayMs = 86_400_000;

/** Adds an entry that has just been written to the sums of its app. */
export async function countEntry(transaction: Transaction<Tables>, entry: Entry): Promise<void> {
  const app = entry.app ?? "";
  const known = await transaction.selectFrom("usage").select("app").where("app", "=", app).executeTakeFirst();
  if (known === undefined) await transaction.insertInto("usage").values(emptyRow(app)).execute();
  await addHistory(transaction, app, 1, bytesOf(entry));
}

/** One small step. @returns whether there may be more to delete */
export function pruneHistory(
  database: Database,
  { days, bytesOfApp }: HistoryRetention,
  nowMs: number,
): Promise<boolean> {
  return database.transaction().execute(async (transaction) => {
    const { revision } = await transaction.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
    const old = await transaction
      .selectFrom("revisions")
      .select(["number", "app", "before", "after"])
      .where("number", "<=", Number(revision) - keptEntries)
      .where("at", "<", nowMs - days * dayMs)
      .orderBy("number")
      .limit(entriesAtOnce)
      .execute();
    if (old.length > 0) {
      await deleteEntries(transaction, old);
      return true;
    }
    const tooLarge = await transaction
      .selectFrom("usage")
      .select(["app", "history_bytes"])
      .where("history_bytes", ">", bytesOfApp)
      .limit(1)
      .executeTakeFirst();
    if (tooLarge === undefined) return false;
    const oldest = await transaction
      .selectFrom("revisions")
      .select(["number", "app", "before", "after"])
      .where("app", "=", tooLarge.app)
      .orderBy("number")
      .limit(entriesAtOnce)
      .execute();
    const going: typeof oldest = [];
    let left = Number(tooLarge.history_bytes);
    for (const entry of oldest) {
      if (left <= bytesOfApp) break;
      going.push(entry);
      left -= bytesOf(entry);
    }
    if (going.length > 0) await deleteEntries(transaction, going);
    // Sums that say more than there is must not have us look again and again.
    else await transaction.updateTable("usage").set({ history_bytes: 0 }).where("app", "=", tooLarge.app).execute();
    return true;
  });
}

type StoredEntry = Pick<Tables["revisions"], "number" | "app" | "before" | "after">;

async function deleteEntries(transaction: Transaction<Tables>, entries: readonly StoredEntry[]): Promise<void> {
  const numbers = entries.map(({ number }) => number);
  await transaction.deleteFrom("revisions").where("number", "in", numbers).execute();
  const sums = new Map<string, { entries: number; bytes: number }>();
  for (const entry of entries) {
    const sum = sums.get(entry.app) ?? { entries: 0, bytes: 0 };
    sums.set(entry.app, { entries: sum.entries + 1, bytes: sum.bytes + bytesOf(entry) });
  }
  for (const [app, sum] of sums) await addHistory(transaction, app, -sum.entries, -sum.bytes);
}

async function addHistory(
  transaction: Transaction<Tables>,
  app: string,
  entries: number,
  bytes: number,
): Promise<void> {
  await transaction
    .updateTable("usage")
    .set((row) => ({
      history_entries: row("history_entries", "+", entries),
      history_bytes: row("history_bytes", "+", bytes),
    }))
    .where("app", "=", app)
    .execute();
}

/** Its documents in characters, as SQLite counts a text, since few are others than ASCII's; and what else there is of it. */
function bytesOf({ before, after }: Pick<Entry, "before" | "after"> | StoredEntry): number {
  return (before?.length ?? 0) + (after?.length ?? 0) + bytesOfEntry;
}

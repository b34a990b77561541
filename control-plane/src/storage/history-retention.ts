// Deletes old history. The history of each app is bounded by the size of its documents, so that one app's changes never push
// out another app's history; the history of all apps is bounded by age. The oldest entries are deleted first, in small
// steps.

import type { Transaction } from "kysely";
import type { HistoryRetention } from "../configuration.ts";
import type { Entry } from "./entry.ts";
import { bytesIn } from "./pages.ts";
import type { Database, Tables } from "./tables.ts";
import { emptyRow } from "./usage.ts";
import { write } from "./write.ts";

/** The newest entries that are kept however old they are. */
export const keptEntries = 1_000;
/** The size that an entry counts in addition to its documents. */
export const bytesOfEntry = 200;
const entriesAtOnce = 100;
/** SQLite takes some 10 ms to delete so much. */
const mostBytesAtOnce = 8_000_000;
const dayMs = 86_400_000;

/** Adds a new entry to the sums of its app. */
export async function countEntry(transaction: Transaction<Tables>, entry: Entry): Promise<void> {
  const app = entry.app ?? "";
  const known = await transaction.selectFrom("usage").select("app").where("app", "=", app).executeTakeFirst();
  if (known === undefined) await transaction.insertInto("usage").values(emptyRow(app)).execute();
  await addHistory(transaction, app, 1, bytesOf(entry));
}

/**
 * Returns the newest revision that may have been changed by an entry that is not kept any more: from there on, the history of these apps
 * is whole. @param apps undefined: of all
 */
export async function historyBegin(
  database: Database | Transaction<Tables>,
  apps: readonly string[] | undefined,
): Promise<number> {
  if (apps?.length === 0) return 0;
  const row = await database
    .selectFrom("usage")
    .select(({ fn }) => fn.max("history_pruned").as("pruned"))
    .$if(apps !== undefined, (query) => query.where("app", "in", [...(apps ?? [])]))
    .executeTakeFirst();
  return Number(row?.pruned ?? 0);
}

/** Deletes a small number of entries. @returns whether there may be more to delete */
export async function pruneHistory(
  database: Database,
  { days, bytesOfApp }: HistoryRetention,
  nowMs: number,
): Promise<boolean> {
  if (!(await hasOutdated(database, { days, bytesOfApp }, nowMs))) return false;
  return write(database, async (transaction) => {
    const { revision } = await transaction.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
    const old = await transaction
      .selectFrom("revisions")
      .select(["number", "app", bytesIn("before", "after").as("bytes")])
      .where("number", "<=", Number(revision) - keptEntries)
      .where("at", "<", nowMs - days * dayMs)
      .orderBy("number")
      .limit(entriesAtOnce)
      .execute();
    if (old.length > 0) {
      await deleteEntries(transaction, firstOf(old, mostBytesAtOnce));
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
      .select(["number", "app", bytesIn("before", "after").as("bytes")])
      .where("app", "=", tooLarge.app)
      .orderBy("number")
      .limit(entriesAtOnce)
      .execute();
    const excess = Number(tooLarge.history_bytes) - bytesOfApp;
    if (oldest.length > 0) await deleteEntries(transaction, firstOf(oldest, Math.min(excess, mostBytesAtOnce)));
    // If the sums are larger than what is there, they are reset: otherwise this app would be found again and again.
    else await transaction.updateTable("usage").set({ history_bytes: 0 }).where("app", "=", tooLarge.app).execute();
    return true;
  });
}

/** Returns whether there is anything to delete, without becoming a writer. */
async function hasOutdated(
  database: Database,
  { days, bytesOfApp }: HistoryRetention,
  nowMs: number,
): Promise<boolean> {
  const { revision } = await database.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
  const old = database
    .selectFrom("revisions")
    .select("number")
    .where("number", "<=", Number(revision) - keptEntries)
    .where("at", "<", nowMs - days * dayMs)
    .limit(1);
  if ((await old.executeTakeFirst()) !== undefined) return true;
  const tooLarge = database.selectFrom("usage").select("app").where("history_bytes", ">", bytesOfApp).limit(1);
  return (await tooLarge.executeTakeFirst()) !== undefined;
}

/** An entry, and the size of its documents, which are not read. */
type StoredEntry = Pick<Tables["revisions"], "number" | "app"> & { readonly bytes: number };

/** Returns the first entries that have so many bytes together, one at least. */
function firstOf(entries: readonly StoredEntry[], bytes: number): readonly StoredEntry[] {
  let left = bytes;
  const end = entries.findIndex((entry) => {
    left -= Number(entry.bytes) + bytesOfEntry;
    return left <= 0;
  });
  return end < 0 ? entries : entries.slice(0, end + 1);
}

async function deleteEntries(transaction: Transaction<Tables>, entries: readonly StoredEntry[]): Promise<void> {
  const numbers = entries.map(({ number }) => number);
  await transaction.deleteFrom("revisions").where("number", "in", numbers).execute();
  const sums = new Map<string, { entries: number; bytes: number; newest: number }>();
  for (const entry of entries) {
    const { entries: before, bytes, newest } = sums.get(entry.app) ?? { entries: 0, bytes: 0, newest: 0 };
    const sum = {
      entries: before + 1,
      bytes: bytes + Number(entry.bytes) + bytesOfEntry,
      newest: Math.max(newest, Number(entry.number)),
    };
    sums.set(entry.app, sum);
  }
  for (const [app, sum] of sums) {
    await addHistory(transaction, app, -sum.entries, -sum.bytes);
    await transaction
      .updateTable("usage")
      .set({ history_pruned: sum.newest })
      .where("app", "=", app)
      .where("history_pruned", "<", sum.newest)
      .execute();
  }
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

/** Returns the size that an entry counts: as databases say it of a stored one. */
function bytesOf({ before = "", after = "" }: Entry): number {
  return Buffer.byteLength(before) + Buffer.byteLength(after) + bytesOfEntry;
}

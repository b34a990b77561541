// Imports of consumers. One is stored in many small transactions, so that others are served meanwhile. An app has one import at a time,
// whichever control plane carries it out: its row says until when it counts as under way, and each part renews it in its own transaction.
// So the parts of two imports never mix, and an import whose control plane has died is in nobody's way for long. An import first takes all the room
// that it needs: one that finds none has changed nothing. Each part completes the import's entry of the audit trail in its own transaction, and
// each looks whether its sender may still do this: however the import ends, the entry says what it has stored.

import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { sql, type Transaction } from "kysely";
import { mostConsumers, type TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { completeTrace } from "./audit.ts";
import { type Origin, writeFor } from "./change.ts";
import { consumersAtOnce, removeMany, storeMany } from "./consumer-changes.ts";
import { isSame, type NamedTerms, readSome, requireApp } from "./consumers.ts";
import { databaseNowMs } from "./database-clock.ts";
import { newId } from "./new-id.ts";
import type { Database, Tables } from "./tables.ts";
import { addUsage, readBounds, readUsage, requireRoom } from "./usage.ts";
import { write } from "./write.ts";

/** What an import has done so far. */
export interface ImportCounts {
  created: number;
  changed: number;
  unchanged: number;
  deleted: number;
  position: number;
}

/** An import that is under way. */
export interface Import {
  readonly app: string;
  readonly id: string;
  readonly total: TotalBounds;
  /** The id of its entry in the audit trail. */
  readonly entry: string;
  /** How many lines it has. */
  readonly of: number;
}

/** A part takes some milliseconds, and waits for at most ten seconds for those who write before it. */
const livesMs = 30_000;

/**
 * Says how many consumers an import of the app may have: as many as the app may have, or has.
 * @throws ApiError app-not-found, import-under-way
 */
export async function readMostImported(database: Database, app: string, total: TotalBounds): Promise<number> {
  await requireApp(database, app);
  await requireNone(database, app);
  const { consumers: allowed } = await readBounds(database, app, total);
  const { consumers: used } = await readUsage(database, app);
  return Math.max(Math.min(allowed, mostConsumers), used);
}

/**
 * Begins an import, if there is room for what it will have stored at its end.
 *
 * @param consumers by their ids
 * @param replace whether the app's other consumers will be deleted
 * @throws ApiError app-not-found, import-under-way, bound-exceeded
 */
export async function beginImport(
  database: Database,
  origin: Origin,
  app: string,
  consumers: ReadonlyMap<string, NamedTerms>,
  replace: boolean,
  total: TotalBounds,
): Promise<Import> {
  const created = replace ? 0 : await countNew(database, app, [...consumers.keys()]);
  const id = randomUUID();
  await writeFor(database, origin, async (transaction) => {
    await requireApp(transaction, app);
    await requireNone(transaction, app);
    await transaction.deleteFrom("consumer_imports").where("app", "=", app).execute();
    const { consumers: used } = await readUsage(transaction, app);
    const wanted = replace ? Math.max(0, consumers.size - used) : created;
    if (wanted > 0) await requireRoom(transaction, app, { consumers: wanted }, total);
    const until = sql<number>`${databaseNowMs(database)} + ${sql.lit(livesMs)}`;
    await transaction.insertInto("consumer_imports").values({ app, id, until_at: until, reserved: wanted }).execute();
  });
  return { app, id, total, entry: newId(origin.atMs), of: consumers.size };
}

async function countNew(database: Database, app: string, ids: readonly string[]): Promise<number> {
  let known = 0;
  for (let from = 0; from < ids.length; from += consumersAtOnce) {
    const rows = await database
      .selectFrom("consumers")
      .select("position")
      .where("app", "=", app)
      .where("id", "in", ids.slice(from, from + consumersAtOnce))
      .execute();
    known += rows.length;
    await setImmediate();
  }
  return ids.length - known;
}

/** @throws ApiError import-under-way */
async function requireNone(database: Database | Transaction<Tables>, app: string): Promise<void> {
  const underWay = await database
    .selectFrom("consumer_imports")
    .select("id")
    .where("app", "=", app)
    .where("until_at", ">", databaseNowMs(database))
    .executeTakeFirst();
  if (underWay === undefined) return;
  const detail = `Another import of consumers of the app "${app}" is under way. Nothing was stored.`;
  throw new ApiError("import-under-way", detail, {}, { "retry-after": "5" });
}

/**
 * Renews the import in the transaction of one of its parts.
 *
 * @returns the room that it has left
 * @throws ApiError app-not-found, import-under-way if it did not get on for so long that another one began
 */
async function renew(transaction: Transaction<Tables>, { app, id }: Import): Promise<number> {
  await requireApp(transaction, app);
  const own = transaction.updateTable("consumer_imports").where("app", "=", app).where("id", "=", id);
  await own.set({ until_at: sql<number>`${databaseNowMs(transaction)} + ${sql.lit(livesMs)}` }).execute();
  const row = await transaction
    .selectFrom("consumer_imports")
    .select("reserved")
    .where("app", "=", app)
    .where("id", "=", id)
    .executeTakeFirst();
  if (row !== undefined) return Number(row.reserved);
  const detail = `The import did not get on for ${livesMs / 1_000} s, and another one of the app "${app}" has begun. Send this one again.`;
  throw new ApiError("import-under-way", detail, {}, { "retry-after": "5" });
}

async function setReserved(transaction: Transaction<Tables>, { app }: Import, reserved: number): Promise<void> {
  await transaction.updateTable("consumer_imports").set({ reserved }).where("app", "=", app).execute();
}

/**
 * Stores some consumers, and adds to the counts what was done. Those that have these terms already are left alone.
 *
 * @param consumers at most `consumersAtOnce`, each once
 * @throws ApiError app-not-found, import-under-way; bound-exceeded if consumers were deleted one by one meanwhile, and their room was taken
 */
export async function putSome(
  database: Database,
  origin: Origin,
  underWay: Import,
  consumers: readonly NamedTerms[],
  counts: ImportCounts,
): Promise<void> {
  const { app, total } = underWay;
  const stored = await writeFor(database, origin, async (transaction) => {
    const reserved = await renew(transaction, underWay);
    const ids = consumers.map(({ id }) => id);
    const known = new Map((await readSome(transaction, app, ids)).map((row) => [row.id, row]));
    const changed = consumers.filter((consumer) => {
      const row = known.get(consumer.id);
      return row === undefined || !isSame(row, consumer);
    });
    const created = changed.filter(({ id }) => !known.has(id)).length;
    if (created > 0) {
      await setReserved(transaction, underWay, Math.max(0, reserved - created));
      if (created > reserved) await requireRoom(transaction, app, { consumers: created - reserved }, total);
      await addUsage(transaction, app, { consumers: created });
    }
    return noteSome(transaction, origin, underWay, {
      ...counts,
      created: counts.created + created,
      changed: counts.changed + changed.length - created,
      unchanged: counts.unchanged + consumers.length - changed.length,
      ...(changed.length > 0 ? { position: await storeMany(transaction, origin, app, changed) } : {}),
    });
  });
  // A part that was rolled back does not count.
  Object.assign(counts, stored);
}

/** Notes in the audit trail what the import has changed, with the part that changes it. @returns the counts */
async function noteSome(
  transaction: Transaction<Tables>,
  origin: Origin,
  { app, entry, of }: Import,
  counts: ImportCounts,
): Promise<ImportCounts> {
  const { created, changed, unchanged, deleted } = counts;
  if (created + changed + deleted === 0) return counts;
  const lines = created + changed + unchanged;
  const after = JSON.stringify({ lines, of, created, changed, unchanged, deleted });
  await completeTrace(transaction, origin, { action: "import-consumers", app, subject: `${lines}`, after }, entry);
  return counts;
}

/**
 * Looks at some consumers of the app, in the order of their ids, and deletes those that are not to stay. Their room is for those that
 * come.
 *
 * @param after the id of the last one before; empty: none
 * @returns the id of the last one that was looked at; undefined: there are no more
 * @throws ApiError app-not-found, import-under-way
 */
export async function deleteOthers(
  database: Database,
  origin: Origin,
  underWay: Import,
  after: string,
  stays: (id: string) => boolean,
  counts: ImportCounts,
): Promise<string | undefined> {
  const { app } = underWay;
  const rows = await database
    .selectFrom("consumers")
    .select("id")
    .where("app", "=", app)
    .where("id", ">", after)
    .orderBy("id")
    .limit(consumersAtOnce)
    .execute();
  const others = rows.map(({ id }) => id).filter((id) => !stays(id));
  if (others.length > 0) {
    const stored = await writeFor(database, origin, async (transaction) => {
      const reserved = await renew(transaction, underWay);
      const present = (await readSome(transaction, app, others)).map(({ id }) => id);
      if (present.length === 0) return counts;
      const position = await removeMany(transaction, origin, app, present);
      await setReserved(transaction, underWay, reserved + present.length);
      return noteSome(transaction, origin, underWay, { ...counts, deleted: counts.deleted + present.length, position });
    });
    Object.assign(counts, stored);
  }
  return rows.length < consumersAtOnce ? undefined : rows.at(-1)?.id;
}

/** Lets the app's next import begin, whether this one was carried out or not. */
export function endImport(database: Database, { app, id }: Import): Promise<void> {
  return write(database, async (transaction) => {
    await transaction.deleteFrom("consumer_imports").where("app", "=", app).where("id", "=", id).execute();
  });
}

// Consumers: who has which plan, and limits of their own. There may be a million, so they are not in the history, and gateways get what
// has changed by its position. Every change takes the next positions within its transaction, and changes are made one after the other:
// whoever has read a position will never find a lower one later. What is deleted is remembered for some weeks.

import { CompiledQuery, MysqlAdapter, PostgresAdapter, type Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { writeTrace } from "./audit.ts";
import { type Origin, rehearsed } from "./change.ts";
import type { ConsumerTable, Database, Tables } from "./tables.ts";
import { addUsage, takeRoom } from "./usage.ts";
import { write } from "./write.ts";

/** Which plan a consumer has, and which limits of its own. */
export interface Terms {
  readonly plan: string;
  /** As JSON: lists of limits by the name of the policy. Null: none. */
  readonly overrides: string | null;
}

export interface NamedTerms extends Terms {
  readonly id: string;
}

export interface Consumer extends NamedTerms {
  readonly changedAtMs: number;
  readonly position: number;
}

/** Where the changes of consumers are. Positions of another epoch mean nothing. */
export interface ConsumersPosition {
  readonly epoch: string;
  readonly position: number;
}

/** What an import has done so far. */
export interface ImportCounts {
  created: number;
  changed: number;
  unchanged: number;
  deleted: number;
  position: number;
}

/** More rows in a statement take longer than other requests should wait. */
export const consumersAtOnce = 500;
/** With more, an app is not deleted at once. */
const mostDeletedWithApp = 20_000;
const forgetAfterMs = 30 * 86_400_000;

/** @throws ApiError app-not-found, consumer-not-found */
export async function getConsumer(database: Database, app: string, id: string): Promise<Consumer> {
  await requireApp(database, app);
  const row = await readOne(database, app, id);
  if (row === undefined) throw noConsumer(app, id);
  return consumerFrom(row);
}

/** Returns undefined if there is no such consumer. */
export async function findConsumer(database: Database, app: string, id: string): Promise<Terms | undefined> {
  return readOne(database, app, id);
}

export interface ConsumerSearch {
  /** Ids after this one. */
  readonly after: string;
  /** How ids begin; empty: all. */
  readonly prefix: string;
  readonly plan: string | undefined;
  readonly limit: number;
}

/** Lists consumers by their ids. @throws ApiError app-not-found */
export async function listConsumers(database: Database, app: string, search: ConsumerSearch): Promise<Consumer[]> {
  await requireApp(database, app);
  const { after, prefix, plan, limit } = search;
  let query = database.selectFrom("consumers").selectAll().where("app", "=", app).where("is_deleted", "=", 0);
  if (after !== "") query = query.where("id", ">", after);
  // The last possible character comes after all others: the range needs no pattern, in which some characters mean something.
  if (prefix !== "") query = query.where("id", ">=", prefix).where("id", "<", `${prefix}\u{10ffff}`);
  if (plan !== undefined) query = query.where("plan", "=", plan);
  const rows = await query.orderBy("id").limit(limit).execute();
  return rows.map(consumerFrom);
}

/**
 * Makes a consumer, or changes it. One that has these terms already gets no new position.
 * @throws ApiError app-not-found, bound-exceeded
 */
export function putConsumer(
  database: Database,
  origin: Origin,
  app: string,
  consumer: NamedTerms,
  total: TotalBounds,
): Promise<{ consumer: Consumer; created: boolean }> {
  return rehearsed(database, origin, async (transaction) => {
    await requireApp(transaction, app);
    const { id, plan, overrides } = consumer;
    const before = await readOne(transaction, app, id);
    if (before !== undefined && isSame(before, consumer)) return { consumer: consumerFrom(before), created: false };
    if (before === undefined) await takeRoom(transaction, app, { consumers: 1 }, total);
    const position = await takePositions(transaction, 1);
    const row = { app, id, plan, overrides, position, changed_at: origin.atMs, is_deleted: 0 };
    await store(transaction, [row]);
    await writeTrace(transaction, origin, {
      action: "put-consumer",
      app,
      subject: id,
      ...(before === undefined ? {} : { before: described(before) }),
      after: described(consumer),
    });
    return { consumer: consumerFrom(row), created: before === undefined };
  });
}

/** @returns the position of the change @throws ApiError app-not-found, consumer-not-found */
export function deleteConsumer(database: Database, origin: Origin, app: string, id: string): Promise<number> {
  return rehearsed(database, origin, async (transaction) => {
    await requireApp(transaction, app);
    const before = await readOne(transaction, app, id);
    if (before === undefined) throw noConsumer(app, id);
    const position = await removeMany(transaction, origin, app, [before]);
    await writeTrace(transaction, origin, { action: "delete-consumer", app, subject: id, before: described(before) });
    return position;
  });
}

/**
 * Stores some consumers of one app, and adds to the counts what was done. Those that have these terms already are left alone.
 *
 * @param consumers at most `consumersAtOnce`, each once
 * @throws ApiError app-not-found, bound-exceeded
 */
export function putSome(
  database: Database,
  origin: Origin,
  app: string,
  consumers: readonly NamedTerms[],
  total: TotalBounds,
  counts: ImportCounts,
): Promise<void> {
  return write(database, async (transaction) => {
    await requireApp(transaction, app);
    const ids = consumers.map(({ id }) => id);
    const known = new Map((await readSome(transaction, app, ids)).map((row) => [row.id, row]));
    const changed = consumers.filter((consumer) => {
      const row = known.get(consumer.id);
      return row === undefined || Number(row.is_deleted) === 1 || !isSame(row, consumer);
    });
    const created = changed.filter(({ id }) => Number(known.get(id)?.is_deleted ?? 1) === 1).length;
    if (created > 0) await takeRoom(transaction, app, { consumers: created }, total);
    if (changed.length > 0) {
      const last = await takePositions(transaction, changed.length);
      const first = last - changed.length + 1;
      await store(
        transaction,
        changed.map(({ id, plan, overrides }, place) => ({
          app,
          id,
          plan,
          overrides,
          position: first + place,
          changed_at: origin.atMs,
          is_deleted: 0,
        })),
      );
      counts.position = last;
    }
    counts.created += created;
    counts.changed += changed.length - created;
    counts.unchanged += consumers.length - changed.length;
  });
}

/**
 * Looks at some consumers of an app, in the order of their ids, and deletes those that are not to stay.
 *
 * @param after the id of the last one before; empty: none
 * @returns the id of the last one that was looked at; undefined: there are no more
 */
export async function deleteOthers(
  database: Database,
  origin: Origin,
  app: string,
  after: string,
  stays: (id: string) => boolean,
  counts: ImportCounts,
): Promise<string | undefined> {
  const rows = await database
    .selectFrom("consumers")
    .select("id")
    .where("app", "=", app)
    .where("is_deleted", "=", 0)
    .where("id", ">", after)
    .orderBy("id")
    .limit(consumersAtOnce)
    .execute();
  const ids = rows.map(({ id }) => id).filter((id) => !stays(id));
  if (ids.length > 0) {
    await write(database, async (transaction) => {
      const present = (await readSome(transaction, app, ids)).filter((row) => Number(row.is_deleted) === 0);
      if (present.length === 0) return;
      counts.position = await removeMany(transaction, origin, app, present);
      counts.deleted += present.length;
    });
  }
  return rows.length < consumersAtOnce ? undefined : rows.at(-1)?.id;
}

/** Notes an import in the audit trail. */
export function traceImport(
  database: Database,
  origin: Origin,
  app: string,
  of: number,
  { position, ...counts }: ImportCounts,
): Promise<void> {
  return write(database, (transaction) =>
    writeTrace(transaction, origin, {
      action: "import-consumers",
      app,
      subject: `${of}`,
      after: JSON.stringify({ lines: of, ...counts }),
    }),
  );
}

/** Deletes all consumers of an app that is to be deleted. @throws ApiError app-not-empty if they are many */
export async function deleteConsumersOf(transaction: Transaction<Tables>, origin: Origin, app: string): Promise<void> {
  const rows = await transaction
    .selectFrom("consumers")
    .selectAll()
    .where("app", "=", app)
    .where("is_deleted", "=", 0)
    .limit(mostDeletedWithApp + 1)
    .execute();
  if (rows.length > mostDeletedWithApp) {
    const detail = `The app "${app}" has more than ${mostDeletedWithApp} consumers: delete them first, by PUT /api/v1/apps/${app}/consumers?replace=true&allowEmpty=true.`;
    throw new ApiError("app-not-empty", detail);
  }
  for (let from = 0; from < rows.length; from += consumersAtOnce) {
    await removeMany(transaction, origin, app, rows.slice(from, from + consumersAtOnce));
  }
}

export async function readConsumersPosition(database: Database): Promise<ConsumersPosition> {
  const row = await database
    .selectFrom("meta")
    .select(["epoch", "consumers_position"])
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  return { epoch: row.epoch, position: Number(row.consumers_position) };
}

/** Returns the number of consumers of all apps. */
export async function countConsumers(database: Database): Promise<number> {
  const row = await database.selectFrom("usage").select("consumers").where("app", "=", "").executeTakeFirst();
  return Number(row?.consumers ?? 0);
}

/** A change of a consumer. Terms are undefined if it was deleted. */
export interface ConsumerChange {
  readonly app: string;
  readonly id: string;
  readonly terms: Terms | undefined;
  readonly position: number;
}

/** Some changes after a position, in their order, and where the changes are by now. */
export interface ConsumerChanges {
  readonly newest: ConsumersPosition;
  /** Deletions up to here may be missing. */
  readonly pruned: number;
  readonly changes: readonly ConsumerChange[];
}

/** @param limit how many changes at most */
export async function readConsumerChanges(database: Database, after: number, limit: number): Promise<ConsumerChanges> {
  // The position is read first: what is stored later comes with the next changes.
  const meta = await database
    .selectFrom("meta")
    .select(["epoch", "consumers_position", "consumers_pruned"])
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  const newest = { epoch: meta.epoch, position: Number(meta.consumers_position) };
  let query = database.selectFrom("consumers").selectAll().where("position", ">", after);
  query = query.where("position", "<=", newest.position);
  // Whoever has nothing has nothing to delete either.
  if (after === 0) query = query.where("is_deleted", "=", 0);
  const rows = await query.orderBy("position").limit(limit).execute();
  const changes = rows.map((row) => ({
    app: row.app,
    id: row.id,
    terms: Number(row.is_deleted) === 1 ? undefined : { plan: row.plan, overrides: row.overrides },
    position: Number(row.position),
  }));
  return { newest, pruned: Number(meta.consumers_pruned), changes };
}

/** Forgets some consumers that were deleted long ago. @returns whether there may be more */
export async function pruneConsumers(database: Database, nowMs: number): Promise<boolean> {
  const readOld = (from: Database | Transaction<Tables>) =>
    from
      .selectFrom("consumers")
      .select(["app", "id", "position"])
      .where("is_deleted", "=", 1)
      .where("changed_at", "<", nowMs - forgetAfterMs)
      .limit(consumersAtOnce)
      .execute();
  if ((await readOld(database)).length === 0) return false;
  return write(database, async (transaction) => {
    const old = await readOld(transaction);
    if (old.length === 0) return false;
    const positions = old.map(({ position }) => Number(position));
    await transaction.deleteFrom("consumers").where("position", "in", positions).execute();
    const { consumers_pruned } = await transaction
      .selectFrom("meta")
      .select("consumers_pruned")
      .where("id", "=", 1)
      .executeTakeFirstOrThrow();
    const pruned = Math.max(Number(consumers_pruned), ...positions);
    await transaction.updateTable("meta").set({ consumers_pruned: pruned }).where("id", "=", 1).execute();
    return old.length === consumersAtOnce;
  });
}

async function requireApp(database: Database | Transaction<Tables>, app: string): Promise<void> {
  const row = await database.selectFrom("apps").select("name").where("name", "=", app).executeTakeFirst();
  if (row === undefined) throw new ApiError("app-not-found", `There is no app "${app}".`);
}

function noConsumer(app: string, id: string): ApiError {
  return new ApiError("consumer-not-found", `The app "${app}" has no consumer ${JSON.stringify(id)}.`);
}

async function readOne(
  database: Database | Transaction<Tables>,
  app: string,
  id: string,
): Promise<ConsumerTable | undefined> {
  const [row] = await readSome(database, app, [id]);
  return row === undefined || Number(row.is_deleted) === 1 ? undefined : row;
}

function readSome(
  database: Database | Transaction<Tables>,
  app: string,
  ids: readonly string[],
): Promise<ConsumerTable[]> {
  return database.selectFrom("consumers").selectAll().where("app", "=", app).where("id", "in", ids).execute();
}

function isSame(one: Terms, other: Terms): boolean {
  return one.plan === other.plan && one.overrides === other.overrides;
}

/** @returns the last of the positions */
async function takePositions(transaction: Transaction<Tables>, count: number): Promise<number> {
  await transaction
    .updateTable("meta")
    .set((row) => ({ consumers_position: row("consumers_position", "+", count) }))
    .where("id", "=", 1)
    .execute();
  const row = await transaction
    .selectFrom("meta")
    .select("consumers_position")
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  return Number(row.consumers_position);
}

/** Deletes consumers that are there. @returns the last position */
async function removeMany(
  transaction: Transaction<Tables>,
  origin: Origin,
  app: string,
  rows: readonly ConsumerTable[],
): Promise<number> {
  const last = await takePositions(transaction, rows.length);
  const first = last - rows.length + 1;
  await store(
    transaction,
    rows.map(({ id, plan }, place) => ({
      app,
      id,
      plan,
      overrides: null,
      position: first + place,
      changed_at: origin.atMs,
      is_deleted: 1,
    })),
  );
  await addUsage(transaction, app, { consumers: -rows.length });
  return last;
}

const columns = ["app", "id", "plan", "overrides", "position", "changed_at", "is_deleted"] as const;

/** The texts of the statements, by their kind and number of rows: to make one takes longer than to store its rows. */
const statements = new Map<string, string>();

/** Stores rows, in place of those of the same ids. */
async function store(transaction: Transaction<Tables>, rows: readonly ConsumerTable[]): Promise<void> {
  const { adapter } = transaction.getExecutor();
  const kind = adapter instanceof MysqlAdapter ? "mysql" : adapter instanceof PostgresAdapter ? "postgres" : "sqlite";
  const name = `${kind} ${rows.length}`;
  const text = statements.get(name) ?? statementFor(kind, rows.length);
  if (rows.length === 1 || rows.length === consumersAtOnce) statements.set(name, text);
  const values = rows.flatMap((row) => columns.map((column) => row[column]));
  await transaction.executeQuery(CompiledQuery.raw(text, values));
}

function statementFor(kind: "mysql" | "postgres" | "sqlite", count: number): string {
  const quote = (column: string) => (kind === "mysql" ? `\`${column}\`` : `"${column}"`);
  let number = 0;
  const place = () => {
    number += 1;
    return kind === "postgres" ? `$${number}` : "?";
  };
  const tuples = Array.from({ length: count }, () => `(${columns.map(place).join(", ")})`);
  const changed = columns.slice(2).map((column) => {
    const given = kind === "mysql" ? `values(${quote(column)})` : `excluded.${quote(column)}`;
    return `${quote(column)} = ${given}`;
  });
  const conflict = kind === "mysql" ? "on duplicate key update" : 'on conflict ("app", "id") do update set';
  return `insert into ${quote("consumers")} (${columns.map(quote).join(", ")}) values ${tuples.join(", ")} ${conflict} ${changed.join(", ")}`;
}

function described({ plan, overrides }: Terms): string {
  return JSON.stringify(overrides === null ? { plan } : { plan, overrides: JSON.parse(overrides) });
}

function consumerFrom(row: ConsumerTable): Consumer {
  return {
    id: row.id,
    plan: row.plan,
    overrides: row.overrides,
    changedAtMs: Number(row.changed_at),
    position: Number(row.position),
  };
}

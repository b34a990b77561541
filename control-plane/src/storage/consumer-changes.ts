// Where the changes of consumers are: each takes the next positions within its transaction, and changes are made one after the other. So
// whoever has read a position will never find a lower one later. A consumer that is deleted leaves its table, and its id stays in another one
// for gateways that still have it: those of the last changes do, and only they.

import { CompiledQuery, MysqlAdapter, PostgresAdapter, type Transaction } from "kysely";
import type { Origin } from "./change.ts";
import type { ConsumerDeletionTable, ConsumerTable, Database, Tables } from "./tables.ts";
import { lastTerm, type Term, takeNumbers, termsFrom } from "./terms.ts";
import { addUsage } from "./usage.ts";
import { write } from "./write.ts";

/** Which plan a consumer has, and which limits of its own. */
export interface Terms {
  readonly plan: string;
  /** As JSON: lists of limits by the name of the policy. Null: none. */
  readonly overrides: string | null;
}

/** Where the changes of consumers are. The epoch is the term in which the position was read (terms.ts). */
export interface ConsumersPosition {
  readonly epoch: string;
  readonly position: number;
}

/** The newest position, and the terms that say which others are of this history. */
export interface ConsumersNewest extends ConsumersPosition {
  readonly terms: readonly Term[];
}

/** More rows in a statement take longer than other requests should wait. */
export const consumersAtOnce = 500;
const forgetAfterMs = 30 * 86_400_000;
/**
 * Deletions among so many of the last changes are remembered: twice as many as there may be consumers. A gateway that lacks more changes
 * gets all consumers sooner than the changes.
 */
export const mostRemembered = 2_000_000;

export async function readConsumersPosition(database: Database): Promise<ConsumersNewest> {
  const row = await database
    .selectFrom("meta")
    .select(["epoch", "terms", "consumers_position"])
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  const terms = termsFrom(row.epoch, row.terms);
  return { epoch: lastTerm(terms), position: Number(row.consumers_position), terms };
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
  readonly newest: ConsumersNewest;
  /** Deletions up to here may be missing. */
  readonly pruned: number;
  readonly changes: readonly ConsumerChange[];
}

/** @param limit how many changes at most */
export async function readConsumerChanges(database: Database, after: number, limit: number): Promise<ConsumerChanges> {
  // The position is read first: what is stored later comes with the next changes.
  const newest = await readConsumersPosition(database);
  const stored = await database
    .selectFrom("consumers")
    .select(["app", "id", "plan", "overrides", "position"])
    .where("position", ">", after)
    .where("position", "<=", newest.position)
    .orderBy("position")
    .limit(limit)
    .execute();
  // A gateway that has no consumers needs no deletions.
  const deleted =
    after === 0
      ? []
      : await database
          .selectFrom("consumer_deletions")
          .select(["app", "id", "position"])
          .where("position", ">", after)
          .where("position", "<=", newest.position)
          .orderBy("position")
          .limit(limit)
          .execute();
  // This is read last: a deletion that was forgotten meanwhile counts as missing.
  const { consumers_pruned } = await readPruned(database);
  const changes = [
    ...stored.map(({ app, id, plan, overrides, position }) => ({ app, id, terms: { plan, overrides }, position })),
    ...deleted.map(({ app, id, position }) => ({ app, id, terms: undefined, position })),
  ].map((one) => ({ ...one, position: Number(one.position) }));
  changes.sort((one, other) => one.position - other.position);
  return { newest, pruned: Number(consumers_pruned), changes: changes.slice(0, limit) };
}

/** Forgets some deletions that are old, or have many changes after them. @returns whether there may be more */
export async function pruneConsumers(database: Database, nowMs: number): Promise<boolean> {
  if ((await readOutdated(database, nowMs)).length === 0) return false;
  return write(database, async (transaction) => (await forgetOutdated(transaction, nowMs)) === consumersAtOnce);
}

/** @returns how many deletions were forgotten */
async function forgetOutdated(transaction: Transaction<Tables>, nowMs: number): Promise<number> {
  const outdated = await readOutdated(transaction, nowMs);
  const last = outdated.at(-1);
  if (last === undefined) return 0;
  await transaction.deleteFrom("consumer_deletions").where("position", "<=", last).execute();
  const { consumers_pruned } = await readPruned(transaction);
  const pruned = Math.max(Number(consumers_pruned), last);
  await transaction.updateTable("meta").set({ consumers_pruned: pruned }).where("id", "=", 1).execute();
  return outdated.length;
}

/** Returns the positions of the first deletions that are to be forgotten. They are in the order of their times too, but for what clocks differ. */
async function readOutdated(from: Database | Transaction<Tables>, nowMs: number): Promise<number[]> {
  const first = (count: number) =>
    from.selectFrom("consumer_deletions").select(["position", "deleted_at"]).orderBy("position").limit(count).execute();
  const { consumers_position } = await from
    .selectFrom("meta")
    .select("consumers_position")
    .where("id", "=", 1)
    .executeTakeFirstOrThrow();
  const upTo = Number(consumers_position) - mostRemembered;
  const stays = ({ position, deleted_at }: { position: number; deleted_at: number }) =>
    Number(position) > upTo && Number(deleted_at) >= nowMs - forgetAfterMs;
  // Mostly, the oldest one says that there is nothing to do.
  const [oldest] = await first(1);
  if (oldest === undefined || stays(oldest)) return [];
  const rows = await first(consumersAtOnce);
  const end = rows.findIndex(stays);
  return (end < 0 ? rows : rows.slice(0, end)).map(({ position }) => Number(position));
}

function readPruned(from: Database | Transaction<Tables>): Promise<{ consumers_pruned: number }> {
  return from.selectFrom("meta").select("consumers_pruned").where("id", "=", 1).executeTakeFirstOrThrow();
}

/**
 * Stores consumers of one app, in place of those of the same ids.
 *
 * @param consumers at most `consumersAtOnce`, each once
 * @returns the last position
 */
export async function storeMany(
  transaction: Transaction<Tables>,
  { atMs }: Origin,
  app: string,
  consumers: readonly (Terms & { readonly id: string })[],
): Promise<number> {
  const { position: last } = await takeNumbers(transaction, { positions: consumers.length });
  const first = last - consumers.length + 1;
  const rows = consumers.map(({ id, plan, overrides }, place): ConsumerTable => {
    return { app, id, plan, overrides, position: first + place, changed_at: atMs };
  });
  await insertAtOnce(transaction, "consumers", rows);
  return last;
}

/** Deletes consumers that are there. @param ids at most `consumersAtOnce`, each once @returns the last position */
export async function removeMany(
  transaction: Transaction<Tables>,
  { atMs }: Origin,
  app: string,
  ids: readonly string[],
): Promise<number> {
  const { position: last } = await takeNumbers(transaction, { positions: ids.length });
  const first = last - ids.length + 1;
  const rows = ids.map((id, place): ConsumerDeletionTable => {
    return { position: first + place, app, id, deleted_at: atMs };
  });
  await insertAtOnce(transaction, "consumer_deletions", rows);
  await transaction.deleteFrom("consumers").where("app", "=", app).where("id", "in", ids).execute();
  await addUsage(transaction, app, { consumers: -ids.length });
  // As many go as come, so that they do not become more however fast somebody deletes.
  await forgetOutdated(transaction, atMs);
  return last;
}

const columns = {
  consumers: ["app", "id", "plan", "overrides", "position", "changed_at"],
  consumer_deletions: ["position", "app", "id", "deleted_at"],
} as const;

/** The texts of the statements, by their kind and number of rows: to make one takes longer than to store its rows. */
const statements = new Map<string, string>();

async function insertAtOnce<Table extends keyof typeof columns>(
  transaction: Transaction<Tables>,
  table: Table,
  rows: readonly Tables[Table][],
): Promise<void> {
  const { adapter } = transaction.getExecutor();
  const kind = adapter instanceof MysqlAdapter ? "mysql" : adapter instanceof PostgresAdapter ? "postgres" : "sqlite";
  const name = `${kind} ${table} ${rows.length}`;
  const text = statements.get(name) ?? statementFor(kind, table, rows.length);
  if (rows.length === 1 || rows.length === consumersAtOnce) statements.set(name, text);
  const values = rows.flatMap((row) => columns[table].map((column) => row[column as keyof Tables[Table]]));
  await transaction.executeQuery(CompiledQuery.raw(text, values));
}

function statementFor(kind: "mysql" | "postgres" | "sqlite", table: keyof typeof columns, count: number): string {
  const quote = (column: string) => (kind === "mysql" ? `\`${column}\`` : `"${column}"`);
  let number = 0;
  const place = () => {
    number += 1;
    return kind === "postgres" ? `$${number}` : "?";
  };
  const tuples = Array.from({ length: count }, () => `(${columns[table].map(place).join(", ")})`);
  const insert = `insert into ${quote(table)} (${columns[table].map(quote).join(", ")}) values ${tuples.join(", ")}`;
  if (table === "consumer_deletions") return insert;
  const changed = columns.consumers.slice(2).map((column) => {
    const given = kind === "mysql" ? `values(${quote(column)})` : `excluded.${quote(column)}`;
    return `${quote(column)} = ${given}`;
  });
  const conflict = kind === "mysql" ? "on duplicate key update" : 'on conflict ("app", "id") do update set';
  return `${insert} ${conflict} ${changed.join(", ")}`;
}

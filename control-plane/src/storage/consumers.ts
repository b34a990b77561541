// Consumers: who has which plan, and limits of their own. There may be a million, so they are not in the history, and gateways get what
// has changed by its position (consumer-changes.ts). Many are stored by consumer-imports.ts.

import { setImmediate } from "node:timers/promises";
import type { Transaction } from "kysely";
import type { TotalBounds } from "../bounds/bounds.ts";
import { ApiError } from "../errors/api-error.ts";
import { writeTrace } from "./audit.ts";
import { type Origin, type Precondition, writeFor } from "./change.ts";
import { consumersAtOnce, removeMany, storeMany, type Terms } from "./consumer-changes.ts";
import { bytesIn, pageOf } from "./pages.ts";
import type { ConsumerTable, Database, Tables } from "./tables.ts";
import { takeRoom } from "./usage.ts";

export interface NamedTerms extends Terms {
  readonly id: string;
}

export interface Consumer extends NamedTerms {
  readonly changedAtMs: number;
  /** Of its last change. */
  readonly position: number;
}

/** With more, an app is not deleted at once. */
const mostDeletedWithApp = 20_000;

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

/** Lists consumers by their ids, and says whether there are more. @throws ApiError app-not-found */
export async function listConsumers(
  database: Database,
  app: string,
  search: ConsumerSearch,
): Promise<{ consumers: Consumer[]; hasMore: boolean }> {
  await requireApp(database, app);
  const { after, prefix, plan, limit } = search;
  let query = database.selectFrom("consumers").where("app", "=", app).orderBy("id");
  if (after !== "") query = query.where("id", ">", after);
  // The last possible character comes after all others: the range needs no pattern, in which some characters mean something.
  if (prefix !== "") query = query.where("id", ">=", prefix).where("id", "<", `${prefix}\u{10ffff}`);
  if (plan !== undefined) query = query.where("plan", "=", plan);
  const sizes = await query
    .select(bytesIn("overrides").as("size"))
    .limit(limit + 1)
    .execute();
  const { page, hasMore } = pageOf(sizes, limit);
  const rows = page.length === 0 ? [] : await query.selectAll().limit(page.length).execute();
  return { consumers: rows.map(consumerFrom), hasMore };
}

/**
 * Makes a consumer, or changes it. One that has these terms already gets no new position.
 * @param put.precondition is given the position of the stored one
 * @throws ApiError app-not-found, bound-exceeded, or what the precondition throws
 */
export function putConsumer(
  database: Database,
  origin: Origin,
  put: { app: string; consumer: NamedTerms; precondition: Precondition; total: TotalBounds },
): Promise<{ consumer: Consumer; created: boolean }> {
  const { app, consumer, precondition, total } = put;
  return writeFor(database, origin, async (transaction) => {
    await requireApp(transaction, app);
    const { id } = consumer;
    const before = await readOne(transaction, app, id);
    precondition(before === undefined ? undefined : Number(before.position));
    if (before !== undefined && isSame(before, consumer)) return { consumer: consumerFrom(before), created: false };
    if (before === undefined) await takeRoom(transaction, app, { consumers: 1 }, total);
    const position = await storeMany(transaction, origin, app, [consumer]);
    await writeTrace(transaction, origin, {
      action: "put-consumer",
      app,
      subject: id,
      ...(before === undefined ? {} : { before: described(before) }),
      after: described(consumer),
    });
    return { consumer: { ...consumer, changedAtMs: origin.atMs, position }, created: before === undefined };
  });
}

/**
 * @param precondition is given the position of the stored one
 * @returns the position of the change
 * @throws ApiError app-not-found, consumer-not-found, or what the precondition throws
 */
export function deleteConsumer(
  database: Database,
  origin: Origin,
  app: string,
  id: string,
  precondition: Precondition,
): Promise<number> {
  return writeFor(database, origin, async (transaction) => {
    await requireApp(transaction, app);
    const before = await readOne(transaction, app, id);
    if (before === undefined) throw noConsumer(app, id);
    precondition(Number(before.position));
    const position = await removeMany(transaction, origin, app, [id]);
    await writeTrace(transaction, origin, { action: "delete-consumer", app, subject: id, before: described(before) });
    return position;
  });
}

/** Deletes all consumers of an app that is to be deleted. @throws ApiError app-not-empty if they are many */
export async function deleteConsumersOf(transaction: Transaction<Tables>, origin: Origin, app: string): Promise<void> {
  const rows = await transaction
    .selectFrom("consumers")
    .select("id")
    .where("app", "=", app)
    .limit(mostDeletedWithApp + 1)
    .execute();
  if (rows.length > mostDeletedWithApp) {
    const detail = `The app "${app}" has more than ${mostDeletedWithApp} consumers: delete them first, by PUT /api/v1/apps/${app}/consumers?replace=true&allowEmpty=true.`;
    throw new ApiError("app-not-empty", detail);
  }
  const ids = rows.map(({ id }) => id);
  for (let from = 0; from < ids.length; from += consumersAtOnce) {
    await removeMany(transaction, origin, app, ids.slice(from, from + consumersAtOnce));
    // SQLite blocks the thread, so reads get their turn in between.
    await setImmediate();
  }
  // An import that is under way ends, even if somebody makes an app of the same name.
  await transaction.deleteFrom("consumer_imports").where("app", "=", app).execute();
}

/** Returns the number of consumers of all apps. */
export async function countConsumers(database: Database): Promise<number> {
  const row = await database.selectFrom("usage").select("consumers").where("app", "=", "").executeTakeFirst();
  return Number(row?.consumers ?? 0);
}

/** @throws ApiError app-not-found */
export async function requireApp(database: Database | Transaction<Tables>, app: string): Promise<void> {
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
  return row;
}

/** @param ids at most `consumersAtOnce` */
export function readSome(
  database: Database | Transaction<Tables>,
  app: string,
  ids: readonly string[],
): Promise<ConsumerTable[]> {
  return database.selectFrom("consumers").selectAll().where("app", "=", app).where("id", "in", ids).execute();
}

export function isSame(one: Terms, other: Terms): boolean {
  return one.plan === other.plan && one.overrides === other.overrides;
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

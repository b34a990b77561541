// Keeps sums of what each app uses, to compare with its bounds: the check costs the same with ten policies as with ten
// thousand. Every sum changes in the same transaction as what it counts.

import type { Transaction } from "kysely";
import { type Bounds, boundsOf, type TotalBounds } from "../bounds/bounds.ts";
import { type CountedUsage, checkBounds, type UsageChange } from "./check-bounds.ts";
import { databaseNowMs } from "./database-clock.ts";
import type { Database, Tables, UsageSums } from "./tables.ts";
import { lastTerm, termsFrom } from "./terms.ts";

/** The name of the row with the sums of all apps; no app has this name. */
const all = "";

/** @throws ApiError bound-exceeded or too-many-bans if the change would exceed a bound */
export async function takeRoom(
  transaction: Transaction<Tables>,
  app: string,
  change: UsageChange,
  total: TotalBounds,
): Promise<void> {
  await requireRoom(transaction, app, change, total);
  await addUsage(transaction, app, change);
}

/** Like takeRoom, and takes nothing. */
export async function requireRoom(
  transaction: Transaction<Tables>,
  app: string,
  change: UsageChange,
  total: TotalBounds,
): Promise<void> {
  const taken = (change.consumers ?? 0) > 0 ? await readTakenByImports(transaction) : [];
  const used = async (whose: string) => {
    const stored = await readUsage(transaction, whose);
    const coming = taken.filter((one) => whose === all || one.app === whose);
    return { ...stored, consumers: coming.reduce((sum, { reserved }) => sum + Number(reserved), stored.consumers) };
  };
  const ofApp = { name: app, used: await used(app), bounds: await readBounds(transaction, app, total) };
  checkBounds(ofApp, { used: await used(all), bounds: total }, change);
}

/** Returns the room that imports under way have taken for consumers that are not stored yet. An app has one at most. */
function readTakenByImports(transaction: Transaction<Tables>): Promise<{ app: string; reserved: number }[]> {
  return transaction
    .selectFrom("consumer_imports")
    .select(["app", "reserved"])
    .where("until_at", ">", databaseNowMs(transaction))
    .execute();
}

/** Adds a change to the sums without checking bounds: for changes that only reduce usage. */
export async function addUsage(transaction: Transaction<Tables>, app: string, change: UsageChange): Promise<void> {
  for (const whose of [app, all]) {
    const known = await transaction.selectFrom("usage").select("app").where("app", "=", whose).executeTakeFirst();
    if (known === undefined) await transaction.insertInto("usage").values(emptyRow(whose)).execute();
    await transaction
      .updateTable("usage")
      .set((row) => ({
        policies: row("policies", "+", change.policies ?? 0),
        bytes: row("bytes", "+", change.bytes ?? 0),
        steps: row("steps", "+", change.steps ?? 0),
        limits: row("limits", "+", change.limits ?? 0),
        kinds: row("kinds", "+", change.kinds ?? 0),
        hiding: row("hiding", "+", change.hiding ?? 0),
        templates: row("templates", "+", change.templates ?? 0),
        template_bytes: row("template_bytes", "+", change.templateBytes ?? 0),
        bans: row("bans", "+", change.bans ?? 0),
        ban_bytes: row("ban_bytes", "+", change.banBytes ?? 0),
        tokens: row("tokens", "+", change.tokens ?? 0),
        callers: row("callers", "+", change.callers ?? 0),
        consumers: row("consumers", "+", change.consumers ?? 0),
        network_lists: row("network_lists", "+", change.networkLists ?? 0),
        network_bytes: row("network_bytes", "+", change.networkBytes ?? 0),
      }))
      .where("app", "=", whose)
      .execute();
  }
  if ((change.hiding ?? 0) !== 0 || (change.consumers ?? 0) < 0) await noteHiddenIds(transaction, app);
}

/** Ids that may be credentials stay so when the policy is gone, until the app has no consumers. */
async function noteHiddenIds(transaction: Transaction<Tables>, app: string): Promise<void> {
  const row = await transaction
    .selectFrom("usage")
    .select(["hiding", "consumers", "hidden_ids"])
    .where("app", "=", app)
    .executeTakeFirstOrThrow();
  const stays = Number(row.consumers) > 0 && Number(row.hidden_ids) === 1;
  const hidden_ids = Number(Number(row.hiding) > 0 || stays);
  if (hidden_ids === Number(row.hidden_ids)) return;
  await transaction.updateTable("usage").set({ hidden_ids }).where("app", "=", app).execute();
}

/** Returns whether ids of the app's consumers may be credentials: by one of its policies, or by one that it had when it got them. */
export async function areIdsHidden(database: Database, app: string): Promise<boolean> {
  const row = await database.selectFrom("usage").select("hidden_ids").where("app", "=", app).executeTakeFirst();
  return Number(row?.hidden_ids ?? 0) === 1;
}

/** @param app an existing app; one for which nothing was ever stored uses nothing */
export async function readUsage(database: Database | Transaction<Tables>, app: string): Promise<CountedUsage> {
  const row = await database.selectFrom("usage").selectAll().where("app", "=", app).executeTakeFirst();
  return usageFrom(row ?? emptyRow(app));
}

export function readTotalUsage(database: Database | Transaction<Tables>): Promise<CountedUsage> {
  return readUsage(database, all);
}

/** How many consumers apps have, and where their changes are at the same moment. */
export interface ConsumerCounts {
  readonly epoch: string;
  readonly position: number;
  readonly counts: ReadonlyMap<string, number>;
}

/** @param apps only these; undefined: all that have any */
export async function readConsumerCounts(
  database: Database,
  apps: readonly string[] | undefined,
): Promise<ConsumerCounts> {
  // One statement, so that the counts are those at the position.
  const rows = await database
    .selectFrom("meta")
    .leftJoin("usage", (join) => {
      const ofApps = join.on("usage.app", "!=", all);
      return apps === undefined || apps.length === 0
        ? ofApps.on("usage.consumers", ">", 0)
        : ofApps.on("usage.app", "in", apps);
    })
    .where("meta.id", "=", 1)
    .select(["meta.epoch", "meta.terms", "meta.consumers_position", "usage.app", "usage.consumers"])
    .execute();
  const counts = new Map<string, number>();
  for (const { app, consumers } of rows) if (app !== null) counts.set(app, Number(consumers));
  const { epoch = "", terms = null, consumers_position = 0 } = rows[0] ?? {};
  return { epoch: lastTerm(termsFrom(epoch, terms)), position: Number(consumers_position), counts };
}

export async function readUsages(database: Database, apps: readonly string[]): Promise<Map<string, CountedUsage>> {
  if (apps.length === 0) return new Map();
  const rows = await database.selectFrom("usage").selectAll().where("app", "in", apps).execute();
  return new Map(rows.map((row) => [row.app, usageFrom(row)]));
}

export async function readBounds(
  database: Database | Transaction<Tables>,
  app: string,
  total: TotalBounds,
): Promise<Bounds> {
  const row = await database.selectFrom("apps").select("bounds").where("name", "=", app).executeTakeFirst();
  return boundsOf(app, parseBounds(row?.bounds), total);
}

/** @param text as stored; null if none are set */
export function parseBounds(text: string | null | undefined): Partial<Bounds> | undefined {
  return text === null || text === undefined ? undefined : JSON.parse(text);
}

export function emptyRow(app: string): UsageSums {
  return {
    app,
    policies: 0,
    bytes: 0,
    steps: 0,
    templates: 0,
    template_bytes: 0,
    bans: 0,
    ban_bytes: 0,
    tokens: 0,
    callers: 0,
    history_entries: 0,
    history_bytes: 0,
    audit_bytes: 0,
  };
}

/** The usage of an app for which nothing was ever stored. */
export function noUsage(): CountedUsage {
  return usageFrom(emptyRow(""));
}

function usageFrom(
  row: UsageSums &
    Partial<Record<"consumers" | "network_lists" | "network_bytes" | "limits" | "kinds" | "hiding", number>>,
): CountedUsage {
  return {
    policies: Number(row.policies),
    bytes: Number(row.bytes),
    steps: Number(row.steps),
    limits: Number(row.limits ?? 0),
    kinds: Number(row.kinds ?? 0),
    hiding: Number(row.hiding ?? 0),
    templates: Number(row.templates),
    templateBytes: Number(row.template_bytes),
    bans: Number(row.bans),
    banBytes: Number(row.ban_bytes),
    tokens: Number(row.tokens),
    callers: Number(row.callers),
    consumers: Number(row.consumers ?? 0),
    networkLists: Number(row.network_lists ?? 0),
    networkBytes: Number(row.network_bytes ?? 0),
  };
}

// What control planes that share a database tell each other by it: which of them run, and which gateways are connected to each.
// The database's clock decides who still runs, so that the clocks of the control planes need not agree.

import { type Expression, MysqlAdapter, sql } from "kysely";
import type { Database } from "./tables.ts";

export interface GatewayRecord {
  readonly gateway: string;
  /** As JSON. */
  readonly record: string;
}

export interface Peer {
  readonly id: string;
  /** Grows with each change of its records. */
  readonly version: number;
}

/** A control plane that has not been seen for this long does not run any more. */
const goneAfterMs = 5_000;
const forgetAfterMs = 60_000;
const rowsAtOnce = 100;

/**
 * Says that this control plane runs, and replaces the records of gateways that changed.
 *
 * @param version grows with each change
 * @param changed to be stored @param left to be deleted
 */
export async function announce(
  database: Database,
  { id, version }: Peer,
  changed: readonly GatewayRecord[],
  left: readonly string[],
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const gone = [...left, ...changed.map(({ gateway }) => gateway)];
    for (let at = 0; at < gone.length; at += rowsAtOnce) {
      await transaction
        .deleteFrom("live_gateways")
        .where("control_plane", "=", id)
        .where("gateway", "in", gone.slice(at, at + rowsAtOnce))
        .execute();
    }
    for (let at = 0; at < changed.length; at += rowsAtOnce) {
      const rows = changed.slice(at, at + rowsAtOnce).map((row) => ({ control_plane: id, ...row }));
      await transaction.insertInto("live_gateways").values(rows).execute();
    }
    const now = databaseNowMs(database);
    const known = await transaction.selectFrom("control_planes").select("id").where("id", "=", id).executeTakeFirst();
    if (known === undefined) {
      await transaction.insertInto("control_planes").values({ id, version, seen_at: now }).execute();
    } else {
      await transaction.updateTable("control_planes").set({ version, seen_at: now }).where("id", "=", id).execute();
    }
  });
}

/** Lists the other control planes that run. */
export async function readPeers(database: Database, own: string): Promise<Peer[]> {
  const rows = await database
    .selectFrom("control_planes")
    .select(["id", "version"])
    .where("id", "!=", own)
    .where("seen_at", ">", sql<number>`${databaseNowMs(database)} - ${goneAfterMs}`)
    .execute();
  return rows.map(({ id, version }) => ({ id, version: Number(version) }));
}

export function readRecords(database: Database, peer: string): Promise<GatewayRecord[]> {
  return database.selectFrom("live_gateways").select(["gateway", "record"]).where("control_plane", "=", peer).execute();
}

/** Deletes what this control plane has announced, and what others left that do not run any more. */
export async function withdraw(database: Database, own: string): Promise<void> {
  await deletePeers(database, [own]);
}

export async function forgetGonePeers(database: Database): Promise<void> {
  const gone = await database
    .selectFrom("control_planes")
    .select("id")
    .where("seen_at", "<", sql<number>`${databaseNowMs(database)} - ${forgetAfterMs}`)
    .execute();
  await deletePeers(
    database,
    gone.map(({ id }) => id),
  );
}

async function deletePeers(database: Database, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await database.transaction().execute(async (transaction) => {
    await transaction.deleteFrom("live_gateways").where("control_plane", "in", ids).execute();
    await transaction.deleteFrom("control_planes").where("id", "in", ids).execute();
  });
}

/** The database's clock, in milliseconds since 1970. */
export function databaseNowMs(database: Database): Expression<number> {
  return database.getExecutor().adapter instanceof MysqlAdapter
    ? sql<number>`cast(unix_timestamp(now(3)) * 1000 as signed)`
    : sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
}

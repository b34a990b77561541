// Traffic by minute, which outlives a restart, and what control planes of one database tell each other of the last seconds.

import { sql } from "kysely";
import { databaseNowMs } from "./peers.ts";
import type { Database } from "./tables.ts";

/** A report is read by every other control plane long before that. */
const relayedMs = 30_000;

export interface TrafficMinute {
  readonly atMs: number;
  readonly traffic: string;
}

/** Control planes of one database know the same: the first that writes a minute writes it for all. */
export async function writeTrafficMinute(database: Database, { atMs, traffic }: TrafficMinute): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const known = await transaction
      .selectFrom("traffic_minutes")
      .select("at")
      .where("at", "=", atMs)
      .executeTakeFirst();
    if (known === undefined) await transaction.insertInto("traffic_minutes").values({ at: atMs, traffic }).execute();
  });
}

export async function readTrafficMinutes(database: Database, sinceMs: number): Promise<TrafficMinute[]> {
  const rows = await database
    .selectFrom("traffic_minutes")
    .select(["at", "traffic"])
    .where("at", ">=", sinceMs)
    .orderBy("at")
    .execute();
  return rows.map(({ at, traffic }) => ({ atMs: Number(at), traffic }));
}

export async function forgetTrafficMinutes(database: Database, beforeMs: number): Promise<void> {
  await database.deleteFrom("traffic_minutes").where("at", "<", beforeMs).execute();
}

/** @param number grows with each report of this control plane */
export async function relayActivity(database: Database, own: string, number: number, report: string): Promise<void> {
  const row = { control_plane: own, number, report, written_at: databaseNowMs(database) };
  await database.insertInto("relayed_activity").values(row).execute();
}

export interface RelayedActivity {
  readonly controlPlane: string;
  readonly number: number;
  readonly report: string;
}

/** Returns what other control planes have relayed lately, the oldest of each first. */
export async function readRelayedActivity(database: Database, own: string): Promise<RelayedActivity[]> {
  const rows = await database
    .selectFrom("relayed_activity")
    .select(["control_plane", "number", "report"])
    .where("control_plane", "!=", own)
    .where("written_at", ">", sql<number>`${databaseNowMs(database)} - ${relayedMs / 3}`)
    .orderBy("number")
    .execute();
  return rows.map(({ control_plane, number, report }) => ({
    controlPlane: control_plane,
    number: Number(number),
    report,
  }));
}

export async function forgetRelayedActivity(database: Database): Promise<void> {
  const before = sql<number>`${databaseNowMs(database)} - ${relayedMs}`;
  await database.deleteFrom("relayed_activity").where("written_at", "<", before).execute();
}

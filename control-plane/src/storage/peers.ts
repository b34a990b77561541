// What control planes that share a database tell each other by it: which of them run, which gateways are connected to each,
// and what they ask each other to do. The database's clock decides who still runs, so that the clocks of the control planes
// need not agree.

import { sql } from "kysely";
import { databaseNowMs } from "./database-clock.ts";
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

export interface SeenPeer extends Peer {
  /** Whether it was seen within 5 seconds. */
  readonly runs: boolean;
  /** Grows when there is an order for it. */
  readonly asked: number;
}

/** An order for another control plane. */
export interface PassedOrder {
  readonly id: string;
  /** As JSON. */
  readonly document: string;
}

/** A control plane that has not been seen for this long does not run any more. */
const goneAfterMs = 5_000;
/**
 * Its gateways count for longer: they still run, and may need 6 seconds to notice that its machine is lost, and 2 to learn that
 * another control plane on that machine does not answer either.
 */
const gatewaysGoneAfterMs = 10_000;
const forgetAfterMs = 60_000;
/** An order that is older is not carried out any more: nobody waits for its answer, or expects its effect. */
const orderLivesMs = 5_000;
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
      const rows = changed.slice(at, at + rowsAtOnce).map((row) => ({ control_plane: id, version, ...row }));
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

/** Lists the control planes that run, and those that ran until a moment ago, whose gateways still count. */
export async function readPeers(database: Database): Promise<SeenPeer[]> {
  const now = databaseNowMs(database);
  const rows = await database
    .selectFrom("control_planes")
    .select(["id", "version", "asked", sql<number>`${now} - seen_at`.as("silent_ms")])
    .where("seen_at", ">", sql<number>`${now} - ${gatewaysGoneAfterMs}`)
    .execute();
  return rows.map(({ id, version, asked, silent_ms }) => ({
    id,
    version: Number(version),
    asked: Number(asked),
    runs: Number(silent_ms) < goneAfterMs,
  }));
}

/** The place of a record in the order in which they were stored. */
export interface RecordPlace {
  readonly version: number;
  readonly gateway: string;
}

/** Reads some of the records of a control plane that come after a place. An empty list: there are no more. */
export async function readRecordsAfter(
  database: Database,
  peer: string,
  after: RecordPlace,
): Promise<(GatewayRecord & RecordPlace)[]> {
  const rows = await database
    .selectFrom("live_gateways")
    .select(["version", "gateway", "record"])
    .where("control_plane", "=", peer)
    .where("version", ">=", after.version)
    .where((row) => row.or([row("version", ">", after.version), row("gateway", ">", after.gateway)]))
    .orderBy("version")
    .orderBy("gateway")
    .limit(rowsAtOnce)
    .execute();
  return rows.map(({ version, ...row }) => ({ ...row, version: Number(version) }));
}

export async function countRecords(database: Database, peer: string): Promise<number> {
  const { count } = await database
    .selectFrom("live_gateways")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("control_plane", "=", peer)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Returns the ids of the gateways that a control plane has. */
export async function readRecordIds(database: Database, peer: string): Promise<string[]> {
  const rows = await database.selectFrom("live_gateways").select("gateway").where("control_plane", "=", peer).execute();
  return rows.map(({ gateway }) => gateway);
}

/**
 * Says that this control plane does not run any more. Its gateways still count for 5 seconds: they need less to come to another
 * one, and must not be counted nowhere meanwhile.
 */
export async function withdraw(database: Database, own: string): Promise<void> {
  await database
    .updateTable("control_planes")
    .set({ seen_at: sql<number>`${databaseNowMs(database)} - ${goneAfterMs}` })
    .where("id", "=", own)
    .execute();
}

/**
 * Gives other control planes an order.
 *
 * @param sender who waits for the answers
 */
export async function passOrder(
  database: Database,
  sender: string,
  targets: readonly string[],
  { id, document }: PassedOrder,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const at = databaseNowMs(database);
    const rows = targets.map((target) => ({ id, target, sender, document, answer: null, at }));
    await transaction.insertInto("counter_orders").values(rows).execute();
    await transaction
      .updateTable("control_planes")
      .set((row) => ({ asked: row("asked", "+", 1) }))
      .where("id", "in", targets)
      .execute();
  });
}

/** Lists the orders for this control plane that have no answer yet. */
export function readOrders(database: Database, own: string): Promise<PassedOrder[]> {
  return database
    .selectFrom("counter_orders")
    .select(["id", "document"])
    .where("target", "=", own)
    .where("answer", "is", null)
    .where("at", ">", sql<number>`${databaseNowMs(database)} - ${orderLivesMs}`)
    .execute();
}

/** Stores the answer to an order, as JSON. If nobody waits for it any more, nothing is stored. */
export async function answerOrder(database: Database, own: string, id: string, answer: string): Promise<void> {
  await database.updateTable("counter_orders").set({ answer }).where("id", "=", id).where("target", "=", own).execute();
}

/** Returns the answers that are there, as JSON, by control plane. */
export async function readAnswers(database: Database, id: string): Promise<Map<string, string>> {
  const rows = await database
    .selectFrom("counter_orders")
    .select(["target", "answer"])
    .where("id", "=", id)
    .where("answer", "is not", null)
    .execute();
  return new Map(rows.map(({ target, answer }) => [target, answer ?? ""]));
}

/** Nobody waits for the answers any more. */
export async function withdrawOrder(database: Database, id: string): Promise<void> {
  await database.deleteFrom("counter_orders").where("id", "=", id).execute();
}

export async function forgetGonePeers(database: Database): Promise<void> {
  await database
    .deleteFrom("counter_orders")
    .where("at", "<", sql<number>`${databaseNowMs(database)} - ${forgetAfterMs}`)
    .execute();
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
    await transaction.deleteFrom("counter_orders").where("target", "in", ids).execute();
    await transaction.deleteFrom("live_gateways").where("control_plane", "in", ids).execute();
    await transaction.deleteFrom("control_planes").where("id", "in", ids).execute();
  });
}

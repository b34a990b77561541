// Traffic by minute, which outlives a restart, and what control planes of one database tell each other of the last seconds.

import { setImmediate } from "node:timers/promises";
import { sql } from "kysely";
import { databaseNowMs } from "./database-clock.ts";
import type { Database } from "./tables.ts";
import { write } from "./write.ts";

/** Every other control plane has read it by then. */
const relayedMs = 10_000;
/** So long after that, rows are left only of control planes that do not run any more. */
const leftMs = 20_000;
const minutesAtOnce = 60;
/** They are read without a pause, which takes a millisecond or two. */
const namesAtOnce = 1_000;
/** They take 8 MB, as much as a control plane writes in a second at most. */
export const relayedAtOnce = 32;

export interface TrafficMinute {
  readonly atMs: number;
  readonly traffic: string;
}

/**
 * Stores the traffic of a minute.
 * @param traffic makes it of what is stored of the minute already, by this or another control plane
 */
export async function writeTrafficMinute(
  database: Database,
  atMs: number,
  traffic: (known: string | undefined) => string,
): Promise<void> {
  await write(database, async (transaction) => {
    const known = await transaction
      .selectFrom("traffic_minutes")
      .select("traffic")
      .where("at", "=", atMs)
      .executeTakeFirst();
    const text = traffic(known?.traffic);
    if (known === undefined)
      await transaction.insertInto("traffic_minutes").values({ at: atMs, traffic: text }).execute();
    else await transaction.updateTable("traffic_minutes").set({ traffic: text }).where("at", "=", atMs).execute();
  });
}

/** Returns the minutes from `sinceMs` on, a few at a time: a day of many policies takes a hundred megabytes. */
export async function* readTrafficMinutes(database: Database, sinceMs: number): AsyncGenerator<TrafficMinute> {
  let from = sinceMs;
  for (;;) {
    const rows = await database
      .selectFrom("traffic_minutes")
      .select(["at", "traffic"])
      .where("at", ">=", from)
      .orderBy("at")
      .limit(minutesAtOnce)
      .execute();
    for (const { at, traffic } of rows) yield { atMs: Number(at), traffic };
    const last = rows.at(-1);
    if (last === undefined) return;
    from = Number(last.at) + 1;
  }
}

/** Returns the names of all policies as "app/policy", and of all apps as "app/". Requests are served meanwhile. */
export async function readPolicyNames(database: Database): Promise<Set<string>> {
  const apps = await database.selectFrom("apps").select("name").execute();
  const names = new Set(apps.map(({ name }) => `${name}/`));
  let last: { app: string; name: string } | undefined = { app: "", name: "" };
  while (last !== undefined) {
    const { app, name }: { app: string; name: string } = last;
    const page = await database
      .selectFrom("policies")
      .select(["app", "name"])
      .where((row) => row.or([row("app", ">", app), row.and([row("app", "=", app), row("name", ">", name)])]))
      .orderBy("app")
      .orderBy("name")
      .limit(namesAtOnce)
      .execute();
    for (const policy of page) names.add(`${policy.app}/${policy.name}`);
    last = page.length < namesAtOnce ? undefined : page.at(-1);
    await setImmediate();
  }
  return names;
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
  /** How long ago it was written, by the database's clock: those of control planes need not agree. */
  readonly ageMs: number;
}

/**
 * Returns what other control planes have relayed lately and this one has not read, the oldest of each first, `relayedAtOnce` at most.
 * @param read the number of the last report that was read, by control plane
 */
export async function readRelayedActivity(
  database: Database,
  own: string,
  read: ReadonlyMap<string, number>,
): Promise<RelayedActivity[]> {
  const now = databaseNowMs(database);
  const rows = await database
    .selectFrom("relayed_activity")
    .select(["control_plane", "number", "report"])
    .select(sql<number>`${now} - written_at`.as("age"))
    .where("control_plane", "!=", own)
    .where("written_at", ">", sql<number>`${now} - ${relayedMs}`)
    .where(({ and, not, eb }) =>
      and([...read].map(([other, last]) => not(and([eb("control_plane", "=", other), eb("number", "<=", last)])))),
    )
    .orderBy("number")
    .limit(relayedAtOnce)
    .execute();
  return rows.map(({ control_plane, number, report, age }) => ({
    controlPlane: control_plane,
    number: Number(number),
    report,
    ageMs: Number(age),
  }));
}

/** Forgets what this control plane has relayed. */
export async function forgetToldActivity(database: Database, own: string): Promise<void> {
  const before = sql<number>`${databaseNowMs(database)} - ${relayedMs}`;
  await database
    .deleteFrom("relayed_activity")
    .where("control_plane", "=", own)
    .where("written_at", "<", before)
    .execute();
}

/** Forgets what control planes have relayed that do not run any more. */
export async function forgetRelayedActivity(database: Database): Promise<void> {
  const before = sql<number>`${databaseNowMs(database)} - ${relayedMs + leftMs}`;
  await database.deleteFrom("relayed_activity").where("written_at", "<", before).execute();
}

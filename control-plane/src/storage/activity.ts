// Traffic by minute and by hour, which outlives a restart, and what control planes of one database tell each other of the last seconds.

import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { sql, type Transaction } from "kysely";
import { pauses } from "../limits/pauses.ts";
import { databaseNowMs } from "./database-clock.ts";
import { bytesIn } from "./pages.ts";
import type { Database, Tables } from "./tables.ts";
import { write } from "./write.ts";

/** Every other control plane has read it by then. */
const relayedMs = 10_000;
/** So long after that, rows are left only of control planes that do not run any more. */
const leftMs = 20_000;
/** They are a megabyte if each has a thousand policies. */
const minutesAtOnce = 10;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
/** To make the statement for more would take some milliseconds. */
const hourRowsAtOnce = 100;
/** The name of the row that says since when hours are known (`at`), and as text, of which hour on a control plane last heard of what gateways did. */
export const knownSince = "";
/** They are read without a pause, which takes a millisecond or two. */
const namesAtOnce = 1_000;
/** They take 8 MB, as much as a control plane writes in a second at most. */
export const relayedAtOnce = 32;

export interface TrafficMinute {
  readonly atMs: number;
  readonly traffic: string;
}

/** The traffic of an hour of an app ("app/") or a policy ("app/policy"). */
export interface TrafficHour {
  readonly atMs: number;
  readonly name: string;
  readonly traffic: string;
}

/**
 * Stores the traffic of a minute, unless its hour has been summed up already.
 * @param traffic makes it of what is stored of the minute already, by this or another control plane
 */
export async function writeTrafficMinute(
  database: Database,
  atMs: number,
  traffic: (known: string | undefined) => string,
): Promise<void> {
  await write(database, async (transaction) => {
    if (await isSummed(transaction, hourOf(atMs))) return;
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

/** Returns the minutes that are not summed up yet, a few at a time: a day of many policies takes a hundred megabytes. */
export async function* readTrafficMinutes(
  database: Database,
  sinceMs = 0,
  untilMs = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<TrafficMinute> {
  let from = sinceMs;
  for (;;) {
    const rows = await database
      .selectFrom("traffic_minutes")
      .select(["at", "traffic"])
      .where("at", ">=", from)
      .where("at", "<", untilMs)
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

/**
 * Sums up the oldest hour of which minutes are stored, if that is over before `beforeMs`, and deletes its minutes in the transaction that stores the
 * sums. So each minute counts once, whichever control plane sums it up, and whenever that is killed. Others write meanwhile: if they change the size
 * of one of the minutes, the hour stays as it is. A late report that changes no size is lost, as one that comes after the hour was summed up.
 *
 * @param sum makes the rows of the hour of its minutes
 * @returns whether there was such an hour
 */
export async function sumOldestHour(
  database: Database,
  beforeMs: number,
  sum: (minutes: AsyncIterable<TrafficMinute>) => Promise<readonly Omit<TrafficHour, "atMs">[]>,
): Promise<boolean> {
  const oldest = await database
    .selectFrom("traffic_minutes")
    .select("at")
    .where("at", "<", beforeMs)
    .orderBy("at")
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return false;
  const at = hourOf(Number(oldest.at));
  const sizes = await readSizes(database, at);
  const rows = await sum(readTrafficMinutes(database, at, at + hourMs));
  await write(database, async (transaction) => {
    // Another control plane has summed it up, and an older version of Sluice may have stored a minute of it since then.
    if (!(await isSummed(transaction, at))) {
      if (!isDeepStrictEqual(await readSizes(transaction, at), sizes)) return;
      await insertHour(transaction, at, rows);
    }
    await transaction
      .deleteFrom("traffic_minutes")
      .where("at", ">=", at)
      .where("at", "<", at + hourMs)
      .execute();
  });
  return true;
}

/** Returns which minutes of the hour are stored, and how large each is. */
function readSizes(database: Database | Transaction<Tables>, at: number) {
  return database
    .selectFrom("traffic_minutes")
    .select(["at", bytesIn("traffic").as("size")])
    .where("at", ">=", at)
    .where("at", "<", at + hourMs)
    .orderBy("at")
    .execute();
}

async function insertHour(
  transaction: Transaction<Tables>,
  at: number,
  rows: readonly Omit<TrafficHour, "atMs">[],
): Promise<void> {
  const pause = pauses(setImmediate);
  for (let from = 0; from < rows.length; from += hourRowsAtOnce) {
    await pause();
    const values = rows.slice(from, from + hourRowsAtOnce).map(({ name, traffic }) => ({ name, at, traffic }));
    await transaction.insertInto("traffic_hours").values(values).execute();
  }
}

async function isSummed(transaction: Transaction<Tables>, at: number): Promise<boolean> {
  const query = transaction
    .selectFrom("traffic_hours")
    .select("at")
    .where("at", "=", at)
    .where("name", "!=", knownSince);
  return (await query.limit(1).executeTakeFirst()) !== undefined;
}

/** Returns the hours of these names that were summed up, from `sinceMs` on, and since when hours are known: 0 if it is longer. */
export async function readTrafficHours(
  database: Database,
  names: readonly string[],
  sinceMs: number,
): Promise<{ hours: TrafficHour[]; knownSinceMs: number }> {
  const rows = await database
    .selectFrom("traffic_hours")
    .select(["name", "at", "traffic"])
    .where("name", "in", [...names, knownSince])
    .where("at", ">=", sinceMs)
    .execute();
  const all = rows.map(({ name, at, traffic }) => ({ name, atMs: Number(at), traffic }));
  return {
    hours: all.filter(({ name }) => name !== knownSince),
    knownSinceMs: all.find(({ name }) => name === knownSince)?.atMs ?? 0,
  };
}

/**
 * Notes that a control plane runs, which hears what gateways have done from `fromMs` on, an hour's beginning. If it has heard nothing of a time before, as after
 * a day without any control plane, hours are known from `fromMs` on.
 */
export async function noteHeard(database: Database, fromMs: number): Promise<void> {
  const known = await database
    .selectFrom("traffic_hours")
    .select(["at", "traffic"])
    .where("name", "=", knownSince)
    .executeTakeFirstOrThrow();
  const last = Number(known.traffic);
  const at = fromMs > last + dayMs ? fromMs : Number(known.at);
  const traffic = String(Math.max(fromMs, last));
  await database.updateTable("traffic_hours").set({ at, traffic }).where("name", "=", knownSince).execute();
}

/** Deletes the oldest hour, if it began before `beforeMs`. @returns whether there was one */
export async function forgetOldestHour(database: Database, beforeMs: number): Promise<boolean> {
  const oldest = await database
    .selectFrom("traffic_hours")
    .select("at")
    .where("at", "<", beforeMs)
    .where("name", "!=", knownSince)
    .orderBy("at")
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return false;
  await database.deleteFrom("traffic_hours").where("at", "=", oldest.at).where("name", "!=", knownSince).execute();
  return true;
}

/** Returns when each app was created, by its name. */
export async function readAppCreations(database: Database): Promise<Map<string, number>> {
  const apps = await database.selectFrom("apps").select(["name", "created_at"]).execute();
  return new Map(apps.map(({ name, created_at }) => [name, Number(created_at)]));
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

function hourOf(atMs: number): number {
  return atMs - (atMs % hourMs);
}

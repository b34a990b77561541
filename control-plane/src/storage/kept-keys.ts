// The keys of the last hour, which outlive a restart. Each control plane stores what its own gateways have reported, and reads what others
// have stored. All times are by the database's clock, and pass as distances from now: clocks of control planes need not agree.

import { sql } from "kysely";
import { databaseNowMs } from "./database-clock.ts";
import type { Database } from "./tables.ts";

/** Nobody asks for what ended longer ago. */
const keptMs = 3_660_000;
/** What a control plane has kept, and whether it ended well, matters a window longer. */
const keeperKeptMs = 3_960_000;
/** They take 800 KB at most. */
export const keptKeysAtOnce = 200;
const deletedAtOnce = 500;

export interface KeptKeysRow {
  /** Grows with each row of a control plane. */
  readonly number: number;
  /** In how many milliseconds the time of the row ends, or has ended if it is negative. */
  readonly endsInMs: number;
  /** As JSON. */
  readonly report: string;
}

/** Stores rows of this control plane, all or none. */
export async function insertKeptKeys(database: Database, own: string, rows: readonly KeptKeysRow[]): Promise<void> {
  const now = databaseNowMs(database);
  const values = rows.map(({ number, endsInMs, report }) => ({
    control_plane: own,
    number,
    ends_at: sql<number>`${now} + ${Math.round(endsInMs)}`,
    report,
  }));
  await database.insertInto("kept_keys").values(values).execute();
}

export async function deleteKeptKeys(database: Database, of: string, numbers: readonly number[]): Promise<void> {
  for (let at = 0; at < numbers.length; at += deletedAtOnce) {
    await database
      .deleteFrom("kept_keys")
      .where("control_plane", "=", of)
      .where("number", "in", numbers.slice(at, at + deletedAtOnce))
      .execute();
  }
}

/** Returns the rows of a control plane after this number, the first `keptKeysAtOnce` in their order. */
export async function readKeptKeys(database: Database, of: string, after: number): Promise<KeptKeysRow[]> {
  const rows = await database
    .selectFrom("kept_keys")
    .select(["number", "report"])
    .select(sql<number>`ends_at - ${databaseNowMs(database)}`.as("ends_in"))
    .where("control_plane", "=", of)
    .where("number", ">", after)
    .orderBy("number")
    .limit(keptKeysAtOnce)
    .execute();
  return rows.map(({ number, report, ends_in }) => ({ number: Number(number), endsInMs: Number(ends_in), report }));
}

/** A control plane that keeps keys, or did so within the last hour. */
export interface KeyKeeper {
  readonly id: string;
  /** Of its last row. */
  readonly number: number;
  /** For how long it knows of what was counted. */
  readonly knownForMs: number;
  /** How long ago the last time ended of which it lost something. */
  readonly lostBeforeMs: number;
  /** Everything is stored that its gateways have told it. */
  readonly hasEnded: boolean;
  readonly silentMs: number;
}

/** Says what this control plane has kept, and that it runs. */
export async function announceKeeper(
  database: Database,
  { id, ...keeper }: Omit<KeyKeeper, "silentMs">,
): Promise<void> {
  const now = databaseNowMs(database);
  const ago = (ms: number) => sql<number>`${now} - ${Math.round(ms)}`;
  const row = {
    number: keeper.number,
    known_since: ago(keeper.knownForMs),
    lost_until: ago(keeper.lostBeforeMs),
    seen_at: now,
    has_ended: keeper.hasEnded ? 1 : 0,
  };
  await database.transaction().execute(async (transaction) => {
    const ofKeeper = transaction.selectFrom("key_keepers").select("number").where("control_plane", "=", id);
    if ((await ofKeeper.executeTakeFirst()) === undefined)
      await transaction
        .insertInto("key_keepers")
        .values({ control_plane: id, ...row })
        .execute();
    else await transaction.updateTable("key_keepers").set(row).where("control_plane", "=", id).execute();
  });
}

/** Lists the other control planes that keep keys, or did so. */
export async function readKeepers(database: Database, own: string): Promise<KeyKeeper[]> {
  const now = databaseNowMs(database);
  const ago = (column: "known_since" | "lost_until" | "seen_at") => sql<number>`${now} - ${sql.ref(column)}`;
  const rows = await database
    .selectFrom("key_keepers")
    .select(["control_plane", "number", "has_ended"])
    .select([ago("known_since").as("known_for"), ago("lost_until").as("lost_before"), ago("seen_at").as("silent_ms")])
    .where("control_plane", "!=", own)
    .where("seen_at", ">", sql<number>`${now} - ${keeperKeptMs}`)
    .execute();
  return rows.map(({ control_plane, number, has_ended, known_for, lost_before, silent_ms }) => ({
    id: control_plane,
    number: Number(number),
    knownForMs: Number(known_for),
    lostBeforeMs: Number(lost_before),
    hasEnded: has_ended === 1,
    silentMs: Number(silent_ms),
  }));
}

/** Deletes what nobody asks for any more, of all control planes. @returns whether there may be more */
export async function forgetKeptKeys(database: Database): Promise<boolean> {
  const before = (ms: number) => sql<number>`${databaseNowMs(database)} - ${ms}`;
  const rows = await database
    .selectFrom("kept_keys")
    .select(["control_plane", "number"])
    .where("ends_at", "<", before(keptMs))
    .orderBy("ends_at")
    .limit(deletedAtOnce)
    .execute();
  for (const [of, numbers] of Map.groupBy(rows, ({ control_plane }) => control_plane)) {
    await deleteKeptKeys(
      database,
      of,
      numbers.map(({ number }) => Number(number)),
    );
  }
  await database.deleteFrom("key_keepers").where("seen_at", "<", before(keeperKeptMs)).execute();
  return rows.length === deletedAtOnce;
}

/** Returns those of these policies that exist. @param names "app/policy" */
export async function existingPolicies(database: Database, names: ReadonlySet<string>): Promise<Set<string>> {
  const rows = await database
    .selectFrom("policies")
    .select(["app", "name"])
    .where(({ and, eb, or }) =>
      or(
        [...names].map((name) => {
          const [app = "", policy = ""] = name.split("/");
          return and([eb("app", "=", app), eb("name", "=", policy)]);
        }),
      ),
    )
    .execute();
  return new Set(rows.map(({ app, name }) => `${app}/${name}`));
}

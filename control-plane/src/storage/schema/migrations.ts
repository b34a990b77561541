// The schema in steps, applied at every start. A released step is never edited; a change is a new step.

import { randomUUID } from "node:crypto";
import { kindOfPatterns } from "@sluice/limiter/key/key-patterns.ts";
import { type Kysely, type Migration, Migrator, sql } from "kysely";
import { knownSince } from "../activity.ts";
import { bytesOfEntry } from "../history-retention.ts";
import { newId } from "../new-id.ts";
import { bytesIn } from "../pages.ts";
import type { AppTable, Tables } from "../tables.ts";
import { addBoundsAndAudit, addLimitsAndKinds, addSecretParts } from "./bounds-and-audit.ts";
import { Schema } from "./columns.ts";

const migrations: Record<string, Migration> = {
  "0001-skeleton": { up: createSkeleton },
  "0002-bans-templates-token-ids": { up: addBansTemplatesAndTokenIds },
  "0003-realms": { up: addRealms },
  "0004-bounds-and-audit": { up: addBoundsAndAudit },
  "0005-control-planes": { up: addControlPlanes },
  "0006-sources": { up: addSources },
  "0007-people": { up: addPeople },
  "0008-counter-orders": { up: addCounterOrders },
  "0009-sessions": { up: addSessions },
  "0010-activity": { up: addActivity },
  "0011-lists": { up: addListIndexes },
  "0012-history": { up: addHistoryBounds },
  "0013-exemptions": { up: addExemptions },
  "0014-consumers": { up: addConsumers },
  "0015-network-lists": { up: addNetworkLists },
  "0016-consumer-deletions": { up: addConsumerDeletions },
  "0017-exact-texts": { up: makeTextsExact },
  "0018-sweeps": { up: addSweepIndexes },
  "0019-ban-patterns": { up: addBanPatterns },
  "0020-ban-kinds": { up: addBanKinds },
  "0021-members-of-apps": { up: addMembersOfApps },
  "0022-limits-and-kinds": { up: addLimitsAndKinds },
  "0023-versions-of-gateways": { up: addVersionsOfGateways },
  "0024-history-bytes": { up: countHistoryInBytes },
  "0025-texts-last": { up: putTextsLast },
  "0026-terms": { up: addTerms },
  "0027-kept-keys": { up: addKeptKeys },
  "0028-traffic-hours": { up: addTrafficHours },
  "0029-secret-parts": { up: addSecretParts },
};

/** A later version of Sluice has migrated the database. Nothing was changed. */
export class NewerSchema extends Error {
  readonly schema: string;
  readonly newestKnown: string;

  constructor(schema: string, newestKnown: string) {
    super(`the schema ${schema} is newer than ${newestKnown}`);
    this.name = "NewerSchema";
    this.schema = schema;
    this.newestKnown = newestKnown;
  }
}

/** The names of all schemas that were ever released, in order: each is named after the step that leads to it. */
export const schemas: readonly string[] = Object.keys(migrations);

/**
 * Brings the database to the newest schema, or only to an earlier one, as a former version did. If it has that already, nothing is written: a full disk must not prevent the
 * control plane from reading what is stored.
 * @throws NewerSchema; or what the failing step threw: all steps are rolled back then, but on MySQL
 */
export async function migrate(database: Kysely<Tables>, schema?: string): Promise<void> {
  const migrator = new Migrator({
    db: database,
    provider: { getMigrations: async () => migrations },
    // The order of steps is that of their names. The other order is that of the clocks of the control planes that ran them, and a
    // step by a clock that is behind would look like one out of order.
    allowUnorderedMigrations: true,
  });
  if (await isNewest(database, migrator)) return;
  const { error } = await (schema === undefined ? migrator.migrateToLatest() : migrator.migrateTo(schema));
  if (error === undefined) return;
  // Another control plane may have been a later version, and quicker.
  await isNewest(database, migrator);
  throw error;
}

/** @throws NewerSchema */
async function isNewest(database: Kysely<Tables>, migrator: Migrator): Promise<boolean> {
  const known = await migrator.getMigrations();
  // The table of steps that ran does not exist before the first step.
  const isNew = known.every(({ executedAt }) => executedAt === undefined);
  if (isNew) return false;
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(database);
  const names = Object.keys(migrations);
  const unknown = rows.filter(({ name }) => !names.includes(name)).at(-1);
  if (unknown !== undefined) throw new NewerSchema(unknown.name, names.at(-1) ?? "");
  return known.every(({ executedAt }) => executedAt !== undefined);
}

/** Returns the newest step that the database has. */
export async function newestStep(database: Kysely<Tables>): Promise<string | undefined> {
  const { rows } = await sql<{ name: string | null }>`select max(name) as name from kysely_migration`.execute(database);
  return rows[0]?.name ?? undefined;
}

export const ownNewestStep = Object.keys(migrations).sort().at(-1) ?? "";

async function createSkeleton(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  const { longText } = schema;
  await schema.createTable("meta", (table) =>
    table
      .addColumn("id", "integer", (column) => column.primaryKey())
      .addColumn("epoch", "varchar(36)", (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull()),
  );
  await schema.createTable("apps", (table) =>
    table
      .addColumn("name", schema.name(63), (column) => column.primaryKey())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull()),
  );
  await schema.createTable("policies", (table) =>
    table
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("name", schema.name(63), (column) => column.notNull())
      .addColumn("document", longText, (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("policies_key", ["app", "name"])
      .addForeignKeyConstraint("policies_app", ["app"], "apps", ["name"]),
  );
  await schema.createTable("revisions", (table) =>
    table
      .addColumn("number", "bigint", (column) => column.primaryKey())
      .addColumn("at", "bigint", (column) => column.notNull())
      .addColumn("who", "varchar(255)", (column) => column.notNull())
      .addColumn("action", "varchar(63)", (column) => column.notNull())
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("policy", "varchar(63)")
      .addColumn("before", longText)
      .addColumn("after", longText),
  );
  await schema.createTable("tokens", (table) =>
    table
      .addColumn("hash", schema.name(64), (column) => column.primaryKey())
      .addColumn("name", "varchar(255)", (column) => column.notNull())
      .addColumn("role", "varchar(63)", (column) => column.notNull())
      .addColumn("app", schema.name(63))
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("expires_at", "bigint")
      .addColumn("last_four", "varchar(4)", (column) => column.notNull()),
  );
  const head = await database.selectFrom("meta").select("id").executeTakeFirst();
  if (head === undefined)
    await database.insertInto("meta").values({ id: 1, epoch: randomUUID(), revision: 0 }).execute();
  const app = await database.selectFrom("apps").select("name").where("name", "=", "default").executeTakeFirst();
  if (app === undefined) {
    await database
      .insertInto("apps")
      .values({ name: "default", created_at: Date.now(), revision: 0 } as AppTable)
      .execute();
  }
}

async function addBansTemplatesAndTokenIds(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  const { longText } = schema;
  await schema.createTable("bans", (table) =>
    table
      .addColumn("id", schema.name(36), (column) => column.primaryKey())
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("cidr", "varchar(64)")
      .addColumn("policy", "varchar(63)")
      .addColumn("key_values", longText)
      .addColumn("until_at", "bigint", (column) => column.notNull())
      .addColumn("reason", longText)
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "varchar(255)", (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull())
      .addForeignKeyConstraint("bans_app", ["app"], "apps", ["name"]),
  );
  await schema.createTable("templates", (table) =>
    table
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("name", schema.name(63), (column) => column.notNull())
      .addColumn("document", longText, (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("templates_key", ["app", "name"])
      .addForeignKeyConstraint("templates_app", ["app"], "apps", ["name"]),
  );
  await schema.addColumn("revisions", "subject", "varchar(255)");
  // Not declared as not null: SQLite cannot add such a column to a table with rows.
  await schema.addColumn("tokens", "id", schema.name(36));
  const tokens = database.selectFrom("tokens").select(["hash", "created_at"]);
  for (const { hash, created_at } of await tokens.where("id", "is", null).execute()) {
    await database
      .updateTable("tokens")
      .set({ id: newId(Number(created_at)) })
      .where("hash", "=", hash)
      .execute();
  }
  await schema.createIndex("tokens", "tokens_id", ["id"], true);
}

/**
 * Existing apps continue to match everywhere until an admin sets their realms. `default` may match everywhere without a
 * realm.
 */
async function addRealms(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("apps", "realm", schema.longText);
  await database
    .updateTable("apps")
    .set({ realm: JSON.stringify("legacy") })
    .where("name", "!=", "default")
    .execute();
}

/** What control planes that share a database tell each other. */
async function addControlPlanes(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("control_planes", (table) =>
    table
      .addColumn("id", schema.name(36), (column) => column.primaryKey())
      .addColumn("version", "bigint", (column) => column.notNull())
      .addColumn("seen_at", "bigint", (column) => column.notNull()),
  );
  await schema.createTable("live_gateways", (table) =>
    table
      .addColumn("control_plane", schema.name(36), (column) => column.notNull())
      .addColumn("gateway", schema.name(255), (column) => column.notNull())
      .addColumn("record", schema.longText, (column) => column.notNull())
      .addPrimaryKeyConstraint("live_gateways_key", ["control_plane", "gateway"]),
  );
}

/** Where each change came from, and a way to find changes by their time. */
async function addSources(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("revisions", "source", "varchar(64)");
  await schema.createIndex("revisions", "revisions_at", ["at"]);
}

/** Members, and their roles. Who managed an app by the role admin is its owner: admin is a role for all apps. */
async function addPeople(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("members", (table) =>
    table
      .addColumn("name", schema.name(100), (column) => column.primaryKey())
      .addColumn("is_admin", "integer", (column) => column.notNull())
      .addColumn("disabled_at", "bigint")
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "varchar(255)", (column) => column.notNull())
      .addColumn("version", "bigint", (column) => column.notNull())
      .addColumn("issuer", "varchar(255)")
      .addColumn("subject", schema.name(255)),
  );
  await schema.createIndex("members", "members_subject", ["subject"]);
  await schema.createTable("member_roles", (table) =>
    table
      .addColumn("member", schema.name(100), (column) => column.notNull())
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("role", "varchar(63)", (column) => column.notNull())
      .addPrimaryKeyConstraint("member_roles_key", ["member", "app"]),
  );
  await schema.createIndex("member_roles", "member_roles_app", ["app"]);
  await schema.addColumn("tokens", "member", schema.name(100));
  await schema.addColumn("tokens", "last_used_at", "bigint");
  await schema.createIndex("tokens", "tokens_member", ["member"]);
  await schema.addColumn("policies", "owner", "varchar(255)");
  await database
    .updateTable("tokens")
    .set({ role: "owner" })
    .where("role", "=", "admin")
    .where("app", "is not", null)
    .execute();
}

/** What gateways report of their traffic. */
async function addActivity(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("traffic_minutes", (table) =>
    table
      .addColumn("at", "bigint", (column) => column.primaryKey())
      .addColumn("traffic", schema.longText, (column) => column.notNull()),
  );
  await schema.createTable("relayed_activity", (table) =>
    table
      .addColumn("control_plane", schema.name(36), (column) => column.notNull())
      .addColumn("number", "bigint", (column) => column.notNull())
      .addColumn("written_at", "bigint", (column) => column.notNull())
      .addColumn("report", schema.longText, (column) => column.notNull())
      .addPrimaryKeyConstraint("relayed_activity_key", ["control_plane", "number"]),
  );
  await schema.createIndex("relayed_activity", "relayed_activity_written_at", ["written_at"]);
}

/** Sessions, and the groups of members who sign in by OpenID Connect. */
async function addSessions(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("sessions", (table) =>
    table
      .addColumn("id", schema.name(32), (column) => column.primaryKey())
      .addColumn("hash", "varchar(64)", (column) => column.notNull())
      .addColumn("former_hash", "varchar(64)")
      .addColumn("session_key", "varchar(43)", (column) => column.notNull())
      .addColumn("token", schema.name(36))
      .addColumn("member", schema.name(100))
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("rotated_at", "bigint", (column) => column.notNull())
      .addColumn("confirmed_at", "bigint")
      .addColumn("used_at", "bigint", (column) => column.notNull())
      .addColumn("ends_at", "bigint", (column) => column.notNull()),
  );
  await schema.createIndex("sessions", "sessions_token", ["token"]);
  await schema.createIndex("sessions", "sessions_member", ["member"]);
  await schema.createIndex("sessions", "sessions_used", ["used_at"]);
  await schema.createTable("member_groups", (table) =>
    table
      .addColumn("member", schema.name(100), (column) => column.notNull())
      .addColumn("group_name", schema.name(255), (column) => column.notNull())
      .addPrimaryKeyConstraint("member_groups_key", ["member", "group_name"]),
  );
  await schema.createIndex("member_groups", "member_groups_name", ["group_name"]);
  await schema.addColumn("members", "groups_at", "bigint");
}

/** Orders about counters that control planes pass on to each other. */
async function addCounterOrders(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("counter_orders", (table) =>
    table
      .addColumn("id", schema.name(36), (column) => column.notNull())
      .addColumn("target", schema.name(36), (column) => column.notNull())
      .addColumn("sender", schema.name(36), (column) => column.notNull())
      .addColumn("document", schema.longText, (column) => column.notNull())
      .addColumn("answer", schema.longText)
      .addColumn("at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("counter_orders_key", ["id", "target"]),
  );
  await schema.createIndex("counter_orders", "counter_orders_target", ["target"]);
  await schema.addColumn("control_planes", "asked", "bigint", (column) => column.notNull().defaultTo(0));
}

/** Each list of an app is read in its own order, from where the page begins, and without the rows of other apps. */
async function addListIndexes(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createIndex("bans", "bans_list", ["app", "id"]);
  await schema.createIndex("tokens", "tokens_list", ["app", "id"]);
  await schema.createIndex("member_roles", "member_roles_list", ["app", "member"]);
  await schema.createIndex("audit", "audit_list", ["app", "at", "id"]);
  await schema.createIndex("revisions", "revisions_list", ["app", "at", "number"]);
  await schema.createIndex("revisions", "revisions_action", ["app", "action", "number"]);
}

/**
 * Where the history of each app begins, and ways to find in the audit trail what somebody did, and what was done to something. Of
 * entries that were deleted before, nobody knows the apps.
 */
async function addHistoryBounds(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("usage", "history_pruned", "bigint", (column) => column.notNull().defaultTo(0));
  const { revision } = await database.selectFrom("meta").select("revision").executeTakeFirstOrThrow();
  const newest = await database
    .selectFrom("revisions")
    .select("number")
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
  const begin = await database
    .selectFrom("revisions as one")
    .select("one.number")
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("revisions as former")
            .select("former.number")
            .where("former.number", "=", sql<number>`${sql.ref("one.number")} - 1`),
        ),
      ),
    )
    .orderBy("one.number", "desc")
    .limit(1)
    .executeTakeFirst();
  const isWhole = Number(newest?.number ?? 0) === Number(revision);
  const pruned = isWhole ? Math.max(0, Number(begin?.number ?? 1) - 1) : Number(revision);
  await database.updateTable("usage").set({ history_pruned: pruned }).execute();
  for (const [table, id] of [
    ["revisions", "number"],
    ["audit", "id"],
  ] as const) {
    await schema.createIndex(table, `${table}_who`, ["who", "at", id]);
    await schema.createIndex(table, `${table}_who_of_app`, ["app", "who", "at", id]);
    await schema.createIndex(table, `${table}_by_action`, ["action", "at", id]);
  }
  await schema.createIndex("revisions", "revisions_subject", ["subject", "at", "number"]);
  await schema.createTextIndex("audit", "audit_subject", "subject");
}

/** Consumers, in the order of their changes, and how many each app has. */
async function addConsumers(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("consumers", (table) =>
    table
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("id", schema.name(256), (column) => column.notNull())
      .addColumn("plan", "varchar(63)", (column) => column.notNull())
      .addColumn("overrides", schema.longText)
      .addColumn("position", "bigint", (column) => column.notNull())
      .addColumn("changed_at", "bigint", (column) => column.notNull())
      .addColumn("is_deleted", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("consumers_key", ["app", "id"]),
  );
  await schema.createIndex("consumers", "consumers_position", ["position"], true);
  await schema.createIndex("consumers", "consumers_plan", ["app", "plan", "id"]);
  await schema.createIndex("consumers", "consumers_deleted", ["is_deleted", "changed_at"]);
  await schema.addColumn("meta", "consumers_position", "bigint", (column) => column.notNull().defaultTo(0));
  await schema.addColumn("meta", "consumers_pruned", "bigint", (column) => column.notNull().defaultTo(0));
  await schema.addColumn("usage", "consumers", "bigint", (column) => column.notNull().defaultTo(0));
}

/** The exemptions of apps. */
async function addExemptions(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("apps", "exempt", schema.longText);
}

/** Named lists of networks, and how many each app has. */
async function addNetworkLists(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("network_lists", (table) =>
    table
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("name", schema.name(63), (column) => column.notNull())
      .addColumn("networks", schema.longText, (column) => column.notNull())
      .addColumn("count", "bigint", (column) => column.notNull())
      .addColumn("ranges", schema.longText, (column) => column.notNull())
      .addColumn("bytes", "bigint", (column) => column.notNull())
      .addColumn("revision", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("network_lists_key", ["app", "name"]),
  );
  await schema.addColumn("usage", "network_lists", "bigint", (column) => column.notNull().defaultTo(0));
  await schema.addColumn("usage", "network_bytes", "bigint", (column) => column.notNull().defaultTo(0));
}

/** Patterns of bans. Until now, "*" at the end of a value made it one. */
async function addBanPatterns(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("bans", "key_pattern", schema.longText);
  await database
    .updateTable("bans")
    .set((row) => ({ key_pattern: row.ref("key_values") }))
    .where("key_values", "like", '%*"%')
    .execute();
}

/** How many kinds a policy's bans are of is looked up before each ban of patterns. */
async function addBanKinds(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("bans", "pattern_kind", schema.name(63));
  await schema.createIndex("bans", "bans_kind", ["app", "policy", "pattern_kind"]);
  for (const { id, key_pattern } of await database.selectFrom("bans").select(["id", "key_pattern"]).execute()) {
    if (key_pattern === null) continue;
    const pattern_kind = kindOfPatterns(JSON.parse(key_pattern));
    await database.updateTable("bans").set({ pattern_kind }).where("id", "=", id).execute();
  }
}

/** Consumers that were deleted get a table of their own, so that nobody who reads the others meets them; and imports under way. */
async function addConsumerDeletions(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("consumer_deletions", (table) =>
    table
      .addColumn("position", "bigint", (column) => column.primaryKey())
      .addColumn("app", schema.name(63), (column) => column.notNull())
      .addColumn("id", schema.name(256), (column) => column.notNull())
      .addColumn("deleted_at", "bigint", (column) => column.notNull()),
  );
  await schema.createTable("consumer_imports", (table) =>
    table
      .addColumn("app", schema.name(63), (column) => column.primaryKey())
      .addColumn("id", schema.name(36), (column) => column.notNull())
      .addColumn("until_at", "bigint", (column) => column.notNull())
      .addColumn("reserved", "bigint", (column) => column.notNull()),
  );
  if (!(await schema.mayDrop("consumers", "is_deleted"))) return;
  await sql`
    insert into consumer_deletions (position, app, id, deleted_at)
    select position, app, id, changed_at from consumers
    where is_deleted = 1 and position not in (select position from consumer_deletions)`.execute(database);
  await sql`delete from consumers where is_deleted = 1`.execute(database);
  await schema.dropIndex("consumers", "consumers_deleted");
  await schema.dropColumn("consumers", "is_deleted");
}

async function makeTextsExact(database: Kysely<Tables>): Promise<void> {
  await new Schema(database).makeTextsExact();
}

async function putTextsLast(database: Kysely<Tables>): Promise<void> {
  await new Schema(database).putTextsLast();
}

/** What is looked for now and then, and in tables that may be long: sessions and tokens that have ended, and whom somebody has added. */
async function addSweepIndexes(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createIndex("sessions", "sessions_ends", ["ends_at"]);
  await schema.createIndex("tokens", "tokens_expiry", ["app", "expires_at"]);
  await schema.createIndex("members", "members_created_by", ["created_by"]);
}

/** In which app an owner has added a member. Of those who were added before, nobody knows it. */
async function addMembersOfApps(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("members", "added_in", "varchar(63)");
  await schema.dropIndex("members", "members_created_by");
  await schema.createIndex("members", "members_added_in", ["added_in"]);
}

/** With which version of its control plane's records each one came, so that others read only what is new. */
async function addVersionsOfGateways(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("live_gateways", "version", "bigint", (column) => column.notNull().defaultTo(0));
  await schema.createIndex("live_gateways", "live_gateways_version", ["control_plane", "version", "gateway"]);
}

/** The history of an app counts in bytes. On some databases, it counted in characters until now. */
async function countHistoryInBytes(database: Kysely<Tables>): Promise<void> {
  const sums = await database
    .selectFrom("revisions")
    .select(({ fn }) => [
      "app",
      fn.countAll<number>().as("entries"),
      fn.sum<number>(bytesIn("before", "after")).as("bytes"),
    ])
    .groupBy("app")
    .execute();
  for (const { app, entries, bytes } of sums) {
    const history_bytes = Number(bytes) + Number(entries) * bytesOfEntry;
    await database.updateTable("usage").set({ history_bytes }).where("app", "=", app).execute();
  }
}

/** What tells apart two histories that have the same numbers. */
async function addTerms(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.addColumn("meta", "terms", schema.longText);
}

/** The keys of the last hour, and which control planes keep them. */
async function addKeptKeys(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("kept_keys", (table) =>
    table
      .addColumn("control_plane", schema.name(36), (column) => column.notNull())
      .addColumn("number", "bigint", (column) => column.notNull())
      .addColumn("ends_at", "bigint", (column) => column.notNull())
      .addColumn("report", schema.longText, (column) => column.notNull())
      .addPrimaryKeyConstraint("kept_keys_key", ["control_plane", "number"]),
  );
  await schema.createIndex("kept_keys", "kept_keys_ends_at", ["ends_at"]);
  await schema.createTable("key_keepers", (table) =>
    table
      .addColumn("control_plane", schema.name(36), (column) => column.primaryKey())
      .addColumn("number", "bigint", (column) => column.notNull())
      .addColumn("known_since", "bigint", (column) => column.notNull())
      .addColumn("lost_until", "bigint", (column) => column.notNull())
      .addColumn("seen_at", "bigint", (column) => column.notNull())
      .addColumn("has_ended", "integer", (column) => column.notNull()),
  );
}

/** What is left of the traffic when its minutes are forgotten. The minutes of a day are there already. */
async function addTrafficHours(database: Kysely<Tables>): Promise<void> {
  const schema = new Schema(database);
  await schema.createTable("traffic_hours", (table) =>
    table
      .addColumn("name", schema.name(127), (column) => column.notNull())
      .addColumn("at", "bigint", (column) => column.notNull())
      .addColumn("traffic", schema.longText, (column) => column.notNull())
      .addPrimaryKeyConstraint("traffic_hours_key", ["name", "at"]),
  );
  await schema.createIndex("traffic_hours", "traffic_hours_at", ["at"]);
  const hourMs = 3_600_000;
  const at = (Math.floor(Date.now() / hourMs) - 24) * hourMs;
  await database.deleteFrom("traffic_hours").where("name", "=", knownSince).execute();
  await database
    .insertInto("traffic_hours")
    .values({ name: knownSince, at, traffic: String(at) })
    .execute();
}

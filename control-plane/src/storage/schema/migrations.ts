// The schema in steps, applied at every start. A released step is never edited; a change is a new step.

import { randomUUID } from "node:crypto";
import { type Kysely, type Migration, Migrator, sql } from "kysely";
import { newId } from "../new-id.ts";
import type { AppTable, Tables } from "../tables.ts";
import { addBoundsAndAudit } from "./bounds-and-audit.ts";
import { Schema } from "./columns.ts";

const migrations: Record<string, Migration> = {
  "0001-skeleton": { up: createSkeleton },
  "0002-bans-templates-token-ids": { up: addBansTemplatesAndTokenIds },
  "0003-realms": { up: addRealms },
  "0004-bounds-and-audit": { up: addBoundsAndAudit },
  "0005-control-planes": { up: addControlPlanes },
  "0006-sources": { up: addSources },
  "0007-people": { up: addPeople },
};

/**
 * Brings the database to the newest schema. If it has that already, nothing is written: a full disk must not prevent the
 * control plane from reading what is stored.
 * @throws what the failing step threw; all steps are rolled back
 */
export async function migrate(database: Kysely<Tables>): Promise<void> {
  const migrator = new Migrator({ db: database, provider: { getMigrations: async () => migrations } });
  if (await isNewest(database, migrator)) return;
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}

/** Returns false if a later version of Sluice has migrated the database; the migrator then reports that. */
async function isNewest(database: Kysely<Tables>, migrator: Migrator): Promise<boolean> {
  const known = await migrator.getMigrations();
  if (known.some(({ executedAt }) => executedAt === undefined)) return false;
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(database);
  return rows.every(({ name }) => Object.hasOwn(migrations, name));
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

/** Members, their roles and sessions. Who managed an app by the role admin is its owner: admin is a role for all apps. */
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

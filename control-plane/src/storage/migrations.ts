// The schema in steps, applied at every start. A released step is never edited; a change is a new step.

import { randomUUID } from "node:crypto";
import { type Kysely, type Migration, Migrator, sql } from "kysely";
import { addBoundsAndAudit } from "./migration-bounds.ts";
import { newId } from "./new-id.ts";
import type { Tables } from "./tables.ts";

const migrations: Record<string, Migration> = {
  "0001-skeleton": { up: createSkeleton },
  "0002-bans-templates-token-ids": { up: addBansTemplatesAndTokenIds },
  "0003-realms": { up: addRealms },
  "0004-bounds-and-audit": { up: addBoundsAndAudit },
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

async function createSkeleton(database: Kysely<Tables>): Promise<void> {
  await database.schema
    .createTable("meta")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("epoch", "varchar(36)", (column) => column.notNull())
    .addColumn("revision", "bigint", (column) => column.notNull())
    .execute();
  await database.schema
    .createTable("apps")
    .addColumn("name", "varchar(63)", (column) => column.primaryKey())
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("revision", "bigint", (column) => column.notNull())
    .execute();
  await database.schema
    .createTable("policies")
    .addColumn("app", "varchar(63)", (column) => column.notNull())
    .addColumn("name", "varchar(63)", (column) => column.notNull())
    .addColumn("document", "text", (column) => column.notNull())
    .addColumn("revision", "bigint", (column) => column.notNull())
    .addColumn("updated_at", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("policies_key", ["app", "name"])
    .addForeignKeyConstraint("policies_app", ["app"], "apps", ["name"])
    .execute();
  await database.schema
    .createTable("revisions")
    .addColumn("number", "bigint", (column) => column.primaryKey())
    .addColumn("at", "bigint", (column) => column.notNull())
    .addColumn("who", "varchar(255)", (column) => column.notNull())
    .addColumn("action", "varchar(63)", (column) => column.notNull())
    .addColumn("app", "varchar(63)", (column) => column.notNull())
    .addColumn("policy", "varchar(63)")
    .addColumn("before", "text")
    .addColumn("after", "text")
    .execute();
  await database.schema
    .createTable("tokens")
    .addColumn("hash", "varchar(64)", (column) => column.primaryKey())
    .addColumn("name", "varchar(255)", (column) => column.notNull())
    .addColumn("role", "varchar(63)", (column) => column.notNull())
    .addColumn("app", "varchar(63)")
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint")
    .addColumn("last_four", "varchar(4)", (column) => column.notNull())
    .execute();
  await database.insertInto("meta").values({ id: 1, epoch: randomUUID(), revision: 0 }).execute();
  await database.insertInto("apps").values({ name: "default", created_at: Date.now(), revision: 0 }).execute();
}

async function addBansTemplatesAndTokenIds(database: Kysely<Tables>): Promise<void> {
  await database.schema
    .createTable("bans")
    .addColumn("id", "varchar(36)", (column) => column.primaryKey())
    .addColumn("app", "varchar(63)", (column) => column.notNull())
    .addColumn("cidr", "varchar(64)")
    .addColumn("policy", "varchar(63)")
    .addColumn("key_values", "text")
    .addColumn("until_at", "bigint", (column) => column.notNull())
    .addColumn("reason", "text")
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("created_by", "varchar(255)", (column) => column.notNull())
    .addColumn("revision", "bigint", (column) => column.notNull())
    .addForeignKeyConstraint("bans_app", ["app"], "apps", ["name"])
    .execute();
  await database.schema
    .createTable("templates")
    .addColumn("app", "varchar(63)", (column) => column.notNull())
    .addColumn("name", "varchar(63)", (column) => column.notNull())
    .addColumn("document", "text", (column) => column.notNull())
    .addColumn("revision", "bigint", (column) => column.notNull())
    .addColumn("updated_at", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("templates_key", ["app", "name"])
    .addForeignKeyConstraint("templates_app", ["app"], "apps", ["name"])
    .execute();
  await database.schema.alterTable("revisions").addColumn("subject", "varchar(255)").execute();
  // Not declared as not null: SQLite cannot add such a column to a table with rows.
  await database.schema.alterTable("tokens").addColumn("id", "varchar(36)").execute();
  for (const { hash, created_at } of await database.selectFrom("tokens").select(["hash", "created_at"]).execute()) {
    await database
      .updateTable("tokens")
      .set({ id: newId(Number(created_at)) })
      .where("hash", "=", hash)
      .execute();
  }
  await database.schema.createIndex("tokens_id").unique().on("tokens").column("id").execute();
}

/**
 * Existing apps continue to match everywhere until an admin sets their realms. `default` may match everywhere without a
 * realm.
 */
async function addRealms(database: Kysely<Tables>): Promise<void> {
  await database.schema.alterTable("apps").addColumn("realm", "text").execute();
  await database
    .updateTable("apps")
    .set({ realm: JSON.stringify("legacy") })
    .where("name", "!=", "default")
    .execute();
}

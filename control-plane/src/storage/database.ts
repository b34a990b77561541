// Opens the configured database and brings its schema up to date. All SQL is in this folder.

import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, SqliteAdapter, sql } from "kysely";
import { ConfigurationError, type DatabaseConfiguration } from "../configuration.ts";
import { DatabaseUnreachable, DatabaseUnwritable } from "./engines/database-errors.ts";
import type { ServerConfiguration } from "./engines/database-url.ts";
import { dialectFor, migrationDialectFor, serverTimes } from "./engines/engine.ts";
import type { ServerTimes } from "./engines/server-dialect.ts";
import { DatabaseInUse } from "./engines/sqlite-lock.ts";
import { StorageHealth } from "./engines/storage-health.ts";
import { observedDialect, StorageObserver } from "./engines/storage-observer.ts";
import { migrate, NewerSchema, newestStep, ownNewestStep } from "./schema/migrations.ts";
import type { Database, Tables } from "./tables.ts";
import { write } from "./write.ts";

/** A server may start at the same time as the control plane, and later. */
const serverPatienceMs = 30_000;
const serverRetryMs = 500;

/**
 * @param onWait is called once if the server of the database does not answer yet
 * @throws when the database cannot be opened or migrated; then what was opened is closed again
 */
export async function openDatabase(
  configuration: DatabaseConfiguration,
  onWait: (error: unknown) => void = () => {},
  times: ServerTimes = serverTimes,
): Promise<{ database: Database; health: StorageHealth; observer: StorageObserver }> {
  const health = new StorageHealth();
  const observer = new StorageObserver();
  const open = async () =>
    new Kysely<Tables>({ dialect: observedDialect(await dialectFor(configuration, health, times), observer) });
  if (configuration.kind === "sqlite") {
    await mkdir(dirname(configuration.path), { recursive: true, mode: 0o700 });
    const database = await open();
    await migrateOrClose(database, configuration);
    return { database, health, observer };
  }
  const migrating = new Kysely<Tables>({ dialect: await migrationDialectFor(configuration, new StorageHealth()) });
  await untilReachable(migrating, configuration, onWait);
  await migrateOrClose(migrating, configuration);
  await migrating.destroy();
  return { database: await open(), health, observer };
}

async function migrateOrClose(database: Database, configuration: DatabaseConfiguration): Promise<void> {
  try {
    await migrate(database);
  } catch (error) {
    await database.destroy().catch(() => undefined);
    throw reported(error, configuration);
  }
}

/** @throws ConfigurationError when the server does not answer in time, or refuses us */
async function untilReachable(
  database: Database,
  configuration: DatabaseConfiguration & ServerConfiguration,
  onWait: (error: unknown) => void,
): Promise<void> {
  const giveUpAtMs = performance.now() + serverPatienceMs;
  for (let tries = 0; ; tries += 1) {
    try {
      await probeDatabase(database);
      return;
    } catch (error) {
      if (error instanceof DatabaseUnreachable && performance.now() < giveUpAtMs) {
        if (tries === 0) onWait(error);
        await sleep(serverRetryMs);
        continue;
      }
      await database.destroy().catch(() => undefined);
      throw reported(error, configuration);
    }
  }
}

/** @throws when the database does not answer */
export async function probeDatabase(database: Database): Promise<void> {
  await sql`select 1`.execute(database);
}

/**
 * Looks whether the database still has our schema: an older database may have been restored while we run. A newer schema is that
 * of a newer control plane on the same database.
 * @returns what is wrong, if something is
 * @throws when the database does not answer
 */
export async function probeSchema(database: Database): Promise<string | undefined> {
  const step = await newestStep(database);
  if (step === undefined) return "The database has no schema: start the control plane again.";
  if (step >= ownNewestStep) return undefined;
  return `The database has the older schema ${step}, and not ${ownNewestStep}: start the control plane again.`;
}

/**
 * Tries a write that changes nothing, and tells `health` if it worked.
 * @throws DatabaseUnwritable when the disk is full or cannot be written to, DatabaseUnreachable, DatabaseBusy
 */
export async function probeWriting(database: Database, health: StorageHealth): Promise<void> {
  if (isServer(database) && health.state === "full") {
    await probeRoom(database);
    health.worked();
    return;
  }
  await database
    .updateTable("meta")
    .set((row) => ({ revision: row.ref("revision") }))
    .where("id", "=", 1)
    .execute();
  if (isServer(database)) health.worked();
}

/** More than a table's file has free when it was extended last. */
const probedBytes = 256 * 1024;

/** Ends the transaction of a probe, and nothing is stored. */
class ProbeEnded extends Error {}

/** A server writes nothing for a row that does not change. So this stores rows in the tables that grow, and takes them back. */
async function probeRoom(database: Database): Promise<void> {
  // Random, because PostgreSQL compresses texts.
  const text = randomBytes(probedBytes / 2).toString("hex");
  const common = { at: 0, who: "", source: null, action: "", app: "", before: text, after: null };
  try {
    await write(database, async (transaction) => {
      await transaction
        .insertInto("revisions")
        .values({ ...common, number: -1, policy: null, subject: null })
        .execute();
      await transaction
        .insertInto("audit")
        .values({ ...common, id: "-", subject: null, bytes: 0 })
        .execute();
      await transaction
        .insertInto("policies")
        .values({
          app: "default",
          name: "-",
          document: text,
          revision: 0,
          updated_at: 0,
          owner: null,
          bytes: 0,
          steps: 0,
          limits: 0,
          kinds: 0,
          hiding: 0,
          secret_parts: null,
        })
        .execute();
      throw new ProbeEnded();
    });
  } catch (error) {
    if (!(error instanceof ProbeEnded)) throw error;
  }
}

function isServer(database: Database): boolean {
  return !(database.getExecutor().adapter instanceof SqliteAdapter);
}

/** Rewords an error for the operator who starts the control plane. */
function reported(error: unknown, configuration: DatabaseConfiguration): unknown {
  const { variable } = configuration;
  const where =
    configuration.kind === "sqlite"
      ? configuration.path
      : `${configuration.kind} at ${configuration.host} port ${configuration.port}`;
  if (error instanceof DatabaseInUse) {
    const who = error.pid === undefined ? "another one" : `the one with pid ${error.pid}`;
    return new ConfigurationError(
      variable,
      "a database file that no other control plane has open (one process per SQLite file)",
      `${error.path}, which ${who} has: stop that one, or give this one another SLUICE_DATA_DIR. Several control planes ` +
        "on one database need MySQL or PostgreSQL: set SLUICE_DATABASE_URL",
    );
  }
  if (error instanceof NewerSchema) {
    return new ConfigurationError(
      variable,
      `a database of this version of Sluice or of an earlier one (up to schema ${error.newestKnown})`,
      `${where}, which a later version has migrated to schema ${error.schema}: start that version again, or restore the ` +
        "backup from before the upgrade; nothing was changed",
    );
  }
  if (error instanceof DatabaseUnwritable) {
    const why = error.fault === "full" ? "whose disk is full" : `which cannot be written to (${error.message})`;
    return new ConfigurationError(
      variable,
      "room to make the database or bring it up to date",
      `${where}, ${why}; nothing was changed`,
    );
  }
  if (error instanceof DatabaseUnreachable) {
    const waited = `${serverPatienceMs / 1_000} s`;
    return new ConfigurationError(
      variable,
      "a database that answers",
      `${where}, which did not for ${waited} (${error.message})`,
    );
  }
  // The messages of servers about a sign-in or a database that is missing name the user and the database, never the password.
  if (configuration.kind !== "sqlite" && isRefusal(error)) {
    return new ConfigurationError(
      variable,
      "a user and a database that the server knows",
      `${where}: ${error.message}`,
    );
  }
  return error;
}

/** A password, a user or a database is wrong, or the user may not use the database. */
const refusals = new Set([
  "28000",
  "28P01",
  "3D000",
  "42501",
  "ER_ACCESS_DENIED_ERROR",
  "ER_DBACCESS_DENIED_ERROR",
  "ER_BAD_DB_ERROR",
]);

function isRefusal(error: unknown): error is Error {
  return error instanceof Error && "code" in error && refusals.has(String(error.code));
}

// A database of each former version becomes one of this version, on each engine. A new step of the schema is tested here by being
// in the list of steps.

import {
  Kysely,
  type KyselyPlugin,
  type PluginTransformQueryArgs,
  type QueryResult,
  type RootOperationNode,
  SelectQueryNode,
  sql,
  type UnknownRow,
} from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readConfiguration } from "../../../control-plane/src/configuration.ts";
import { openDatabase } from "../../../control-plane/src/storage/database.ts";
import { dialectFor } from "../../../control-plane/src/storage/engines/engine.ts";
import { StorageHealth } from "../../../control-plane/src/storage/engines/storage-health.ts";
import { migrate, schemas } from "../../../control-plane/src/storage/schema/migrations.ts";
import type { Database, Tables } from "../../../control-plane/src/storage/tables.ts";
import { emptyRow } from "../../../control-plane/src/storage/usage.ts";
import { onePerSecond, startControlPlane, temporaryDir } from "../../fixtures/servers/control-plane-under-test.ts";
import type { DatabaseServer } from "../../fixtures/servers/database-server.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { until } from "../../fixtures/until.ts";
import { nameOf, serverKinds } from "./database-servers.ts";
import { ServedProcess } from "./served-process.ts";

type Environment = Record<string, string>;

/** Opens a database without migrating it. */
async function open(environment: Environment): Promise<Database> {
  const { database } = readConfiguration(environment);
  const opened = new Kysely<Tables>({ dialect: await dialectFor(database, new StorageHealth()) });
  onFinished(() => opened.destroy());
  return opened;
}

/** What somebody stored with the first version: a policy, its revision and a token. */
async function fillFirstSchema(database: Database): Promise<void> {
  const document = JSON.stringify({ name: "books", ...onePerSecond });
  const first = database as unknown as Kysely<Record<string, Record<string, unknown>>>;
  const at = 5;
  await first.updateTable("meta").set({ revision: 1 }).execute();
  await first
    .insertInto("policies")
    .values({ app: "default", name: "books", document, revision: 1, updated_at: at })
    .execute();
  await first
    .insertInto("revisions")
    .values({ number: 1, at, who: "ann", action: "create-policy", app: "default", policy: "books", after: document })
    .execute();
  await first
    .insertInto("tokens")
    .values({ hash: "00", name: "an old one", role: "admin", created_at: at, last_four: "1234" })
    .execute();
}

/** Columns and indexes, as the database describes them. */
async function schemaOf(database: Database, kind: string): Promise<unknown> {
  const tables = await database.introspection.getTables();
  const indexes: Record<string, string> = {
    SQLite: "select tbl_name, name from sqlite_master where type = 'index' order by name",
    MariaDB:
      "select table_name, index_name, column_name, seq_in_index, non_unique from information_schema.statistics where table_schema = database() order by 1, 2, 4",
    PostgreSQL: "select tablename, indexname, indexdef from pg_indexes where schemaname = 'public' order by 1, 2",
  };
  const { rows } = await sql.raw(indexes[kind] ?? "").execute(database);
  const described = tables.map(({ name, columns }) => ({
    name,
    columns: columns.map((column) => ({ ...column })).sort((a, b) => (a.name < b.name ? -1 : 1)),
  }));
  return { tables: described.sort((a, b) => (a.name < b.name ? -1 : 1)), indexes: rows };
}

/** Lets so many statements through that change something, and fails at the next one. */
class FailingPlugin implements KyselyPlugin {
  left: number;

  constructor(left: number) {
    this.left = left;
  }

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    if (SelectQueryNode.is(node) || node.kind === "RawNode") return node;
    if (this.left === 0) throw new Error("killed here");
    this.left -= 1;
    return node;
  }

  async transformResult({ result }: { result: QueryResult<UnknownRow> }): Promise<QueryResult<UnknownRow>> {
    return result;
  }
}

async function countRun(database: Database): Promise<number> {
  const { rows } = await sql`select name from kysely_migration`.execute(database).catch(() => ({ rows: [] }));
  return rows.length;
}

const engines = [["SQLite", undefined] as const, ...serverKinds];

describe.each(engines)("on %s", (kind, startServer) => {
  let server: DatabaseServer | undefined;
  beforeAll(async () => {
    server = await startServer?.({ hasty: true });
  });
  afterAll(() => server?.remove());

  async function place(): Promise<Environment> {
    const SLUICE_DATA_DIR = await temporaryDir();
    return server === undefined
      ? { SLUICE_DATA_DIR }
      : { SLUICE_DATA_DIR, SLUICE_DATABASE_URL: await server.createDatabase() };
  }

  it("every former schema becomes the newest, and what is stored stays", async () => {
    const fresh = await open(await place());
    await migrate(fresh);
    const newest = await schemaOf(fresh, kind);
    expect(schemas.length).toBeGreaterThan(7);
    for (const schema of schemas) {
      const former = await open(await place());
      await migrate(former, schemas[0]);
      await fillFirstSchema(former);
      await migrate(former, schema);
      expect(await countRun(former)).toBe(schemas.indexOf(schema) + 1);
      await migrate(former);
      expect(await schemaOf(former, kind)).toEqual(newest);
      const [policy] = await former.selectFrom("policies").selectAll().execute();
      const bytes = Buffer.byteLength(policy?.document ?? "");
      expect(policy).toMatchObject({ app: "default", name: "books", owner: null });
      expect(Number(policy?.bytes)).toBe(bytes);
      const [token] = await former.selectFrom("tokens").selectAll().execute();
      expect(token).toMatchObject({ name: "an old one", id: expect.stringMatching(/./) });
      const used = await former.selectFrom("usage").selectAll().where("app", "=", "default").executeTakeFirstOrThrow();
      expect([Number(used.policies), Number(used.bytes), Number(used.history_entries)]).toEqual([1, bytes, 1]);
    }
  });

  it("a control plane serves what the first version stored", async () => {
    const where = await place();
    const former = await open(where);
    await migrate(former, schemas[0]);
    await fillFirstSchema(former);
    await former.destroy();
    const { call } = await startControlPlane(where);
    expect((await call("GET", "/apps/default/policies/books")).body).toMatchObject(onePerSecond);
    expect((await call("GET", "/revisions")).body.revisions).toMatchObject([{ n: 1, action: "create-policy" }]);
    expect((await call("PUT", "/apps/default/policies/more", { body: onePerSecond })).body.revision).toBe(2);
    const { tokens } = (await call("GET", "/tokens")).body;
    expect(tokens.map(({ name }: { name: string }) => name)).toContain("an old one");
  });

  it("a migration that is cut off in the middle is continued or begun again by the next start", async () => {
    const fresh = await open(await place());
    await migrate(fresh);
    const database = await open(await place());
    await migrate(database, schemas[0]);
    await fillFirstSchema(database);
    let cuts = 0;
    let run = await countRun(database);
    for (let statements = 0; ; ) {
      const outcome = await migrate(database.withPlugin(new FailingPlugin(statements))).then(
        () => "done",
        (error: Error) => error.message,
      );
      if (outcome === "done") break;
      expect(outcome).toBe("killed here");
      cuts += 1;
      const now = await countRun(database);
      // MySQL keeps the steps that are done. The others roll all of them back.
      if (kind !== "MariaDB") expect(now).toBe(run);
      // Where each attempt begins anew, some of the places say enough.
      statements = now > run ? 0 : statements + (kind === "MariaDB" ? 2 : 8);
      run = now;
    }
    expect(cuts).toBeGreaterThan(5);
    expect(await schemaOf(database, kind)).toEqual(await schemaOf(fresh, kind));
    const used = await database.selectFrom("usage").selectAll().where("app", "=", "default").executeTakeFirstOrThrow();
    expect([Number(used.policies), Number(used.history_entries)]).toEqual([1, 1]);
  });

  it("a schema of a later version ends the start with a sentence, and nothing is changed", async () => {
    const where = await place();
    const database = await open(where);
    await migrate(database);
    await sql`insert into kysely_migration (name, timestamp) values ('9999-later', '2020-01-01T00:00:00.000Z')`.execute(
      database,
    );
    await database.destroy();
    const failed = ServedProcess.start(where);
    await expect(failed).rejects.toThrow(
      /^sluice: SLUICE_DATA(BASE_URL|_DIR): expected a database of this version of Sluice or of an earlier one \(up to schema .*\), got .*, which a later version has migrated to schema 9999-later: start that version again, or restore the backup from before the upgrade; nothing was changed$/m,
    );
    await expect(failed).rejects.not.toThrow(/^ {4}at /m);
  });

  it("consumers that were deleted move to a table of their own", async () => {
    const database = await open(await place());
    await migrate(database, "0015-network-lists");
    const former = database as unknown as Kysely<Record<string, Record<string, unknown>>>;
    const rows = ["kept", "gone"].map((id, i) => {
      return { app: "default", id, plan: "pro", overrides: null, position: i + 1, changed_at: 5, is_deleted: i };
    });
    await former.insertInto("consumers").values(rows).execute();
    await migrate(database);
    expect((await database.selectFrom("consumers").selectAll().execute()).map(({ id }) => id)).toEqual(["kept"]);
    const deletions = await database.selectFrom("consumer_deletions").selectAll().execute();
    const read = deletions.map((row) => ({
      ...row,
      position: Number(row.position),
      deleted_at: Number(row.deleted_at),
    }));
    expect(read).toEqual([{ position: 2, app: "default", id: "gone", deleted_at: 5 }]);
  });

  it.skipIf(kind !== "MariaDB")(
    "texts compare exactly in every table, also where they were stored without that",
    async () => {
      const database = await open(await place());
      await migrate(database, "0016-consumer-deletions");
      const collations = async () => {
        const { rows } = await sql<{ table_name: string; collation: string }>`
        select table_name as table_name, collation_name as collation from information_schema.columns
        where table_schema = database() and collation_name is not null and table_name not like 'kysely%'`.execute(
          database,
        );
        return rows;
      };
      const tables = [...new Set((await collations()).map(({ table_name }) => table_name))];
      expect(tables.length).toBeGreaterThan(15);
      // As former versions made them.
      const references = ["policies", "bans", "templates"] as const;
      for (const table of references) {
        await database.schema.alterTable(table).dropConstraint(`${table}_app`).execute();
      }
      for (const table of tables) {
        await sql`alter table ${sql.table(table)} convert to character set utf8mb4 collate utf8mb4_bin`.execute(
          database,
        );
      }
      for (const table of references) {
        const changed = database.schema.alterTable(table);
        await changed.addForeignKeyConstraint(`${table}_app`, ["app"], "apps", ["name"]).execute();
      }
      const countOf = async (name: string) =>
        (await database.selectFrom("apps").select("name").where("name", "=", name).execute()).length;
      expect(await countOf("default ")).toBe(1);
      await migrate(database);
      expect([await countOf("default"), await countOf("default ")]).toEqual([1, 0]);
      const fresh = await open(await place());
      await migrate(fresh);
      expect(await schemaOf(database, kind)).toEqual(await schemaOf(fresh, kind));
      const orphan = sql`insert into templates (app, name, document, revision, updated_at) values ('none', 'a', '{}', 1, 1)`;
      await expect(orphan.execute(database)).rejects.toThrow(/foreign key/i);
      expect(new Set((await collations()).map(({ collation }) => collation))).toEqual(new Set(["utf8mb4_nopad_bin"]));
    },
  );

  it("the history of each app counts in bytes", async () => {
    const database = await open(await place());
    await migrate(database, "0023-versions-of-gateways");
    const entry = { at: 1, who: "ann", source: null, action: "update-policy", policy: "p", subject: null };
    const rows = ["shop", "shop", "other"].map((app, i) => ({
      ...entry,
      app,
      number: 1 + i,
      before: null,
      after: '"é😀"',
    }));
    await database.insertInto("revisions").values(rows).execute();
    for (const app of ["shop", "other"]) {
      await database
        .insertInto("usage")
        .values({ ...emptyRow(app), history_entries: 1, history_bytes: 1 })
        .execute();
    }
    await migrate(database);
    const used = await database
      .selectFrom("usage")
      .select(["app", "history_bytes"])
      .where("app", "!=", "")
      .orderBy("app")
      .execute();
    expect(used.map(({ app, history_bytes }) => [app, Number(history_bytes)])).toEqual(
      expect.arrayContaining([
        ["other", 208],
        ["shop", 416],
      ]),
    );
  });

  it("policies and apps say what of them may be credentials", async () => {
    const database = await open(await place());
    await migrate(database, "0028-traffic-hours");
    const plans = { free: [{ name: "a", algorithm: "fixed-window", quota: 1, window: "1s" }] };
    const ofConsumers = { plans, planBy: "consumer", defaultPlan: "free" };
    const documents = {
      shop: { ...ofConsumers, key: ["header:x-api-key", "ip"] },
      plain: { ...ofConsumers, key: ["jwt:sub"] },
      bare: { limits: plans.free, key: ["ip", "cookie:a"] },
    };
    for (const [app, document] of Object.entries(documents)) {
      await sql`insert into apps (name, created_at, revision) values (${app}, 1, 1)`.execute(database);
      await sql`
        insert into policies (app, name, document, revision, updated_at)
        values (${app}, 'p', ${JSON.stringify(document)}, 1, 1)`.execute(database);
      await database.insertInto("usage").values(emptyRow(app)).execute();
    }
    await migrate(database);
    const apps = Object.keys(documents);
    const policies = await database
      .selectFrom("policies")
      .innerJoin("usage", "usage.app", "policies.app")
      .select(["policies.app", "policies.secret_parts", "policies.hiding", "usage.hiding as sum", "usage.hidden_ids"])
      .where("policies.app", "in", apps)
      .orderBy("policies.app")
      .execute();
    expect(
      policies.map((row) => [row.app, row.secret_parts, ...[row.hiding, row.sum, row.hidden_ids].map(Number)]),
    ).toEqual([
      ["bare", "[false,true]", 0, 0, 0],
      ["plain", null, 0, 0, 0],
      ["shop", "[true,false]", 1, 1, 1],
    ]);
  });

  it.skipIf(kind !== "SQLite")(
    "texts of any length stand behind the other columns, and nothing else of their tables changes",
    async () => {
      const database = await open(await place());
      await migrate(database, "0024-history-bytes");
      const former = await schemaOf(database, kind);
      await fillFirstSchema(database);
      const contentOf = async () => [
        await database.selectFrom("policies").selectAll().execute(),
        await database.selectFrom("revisions").selectAll().execute(),
      ];
      const content = await contentOf();
      await migrate(database, "0025-texts-last");
      expect(await schemaOf(database, kind)).toEqual(former);
      expect(await contentOf()).toEqual(content);
      await migrate(database);
      const orphan = sql`insert into templates (app, name, document, revision, updated_at) values ('none', 'a', '{}', 1, 1)`;
      await expect(orphan.execute(database)).rejects.toThrow(/foreign key/i);
      const { rows } = await sql<{ table: string; types: string }>`
        select tables.name as "table", group_concat(columns.type order by columns.cid) as types
        from sqlite_master as tables join pragma_table_info(tables.name) as columns
        where tables.type = 'table' and tables.name not like 'kysely%' group by tables.name`.execute(database);
      expect(rows.length).toBeGreaterThan(20);
      expect(rows.filter(({ types }) => /\btext,(?!text\b)/i.test(types))).toEqual([]);
    },
  );

  it("steps that ran by a clock that is ahead keep no later step from running", async () => {
    const database = await open(await place());
    await migrate(database, schemas.at(-2));
    await sql`update kysely_migration set timestamp = '2999-01-01T00:00:00.000Z' where name = ${schemas[0]}`.execute(
      database,
    );
    await migrate(database);
    await migrate(database);
    expect(await countRun(database)).toBe(schemas.length);
  });

  it.skipIf(startServer === undefined)("control planes that start at once migrate a former schema once", async () => {
    const where = await place();
    const former = await open(where);
    await migrate(former, schemas[0]);
    await fillFirstSchema(former);
    const { database: configuration } = readConfiguration(where);
    const opened = await Promise.all([1, 2, 3].map(() => openDatabase(configuration)));
    for (const { database } of opened) {
      const used = await database.selectFrom("usage").selectAll().where("app", "=", "default").execute();
      expect(used.map(({ policies }) => Number(policies))).toEqual([1]);
      await database.destroy();
    }
    expect(await countRun(former)).toBe(schemas.length);
  });

  it.skipIf(startServer === undefined)(
    "the lock of a control plane that was killed while it migrated is gone",
    async () => {
      const where = await place();
      // Kysely's locks, which a session holds.
      const lock =
        kind === "MariaDB"
          ? "select get_lock('ea586330-2c93-47c8-908d-981d9d270f9d', 1)"
          : "select pg_advisory_lock(3853314791062309107)";
      const killed = await open(where);
      let release = () => {};
      let pid = 0;
      const holding = killed.connection().execute(async (session) => {
        const own = kind === "MariaDB" ? "select connection_id() as pid" : "select pg_backend_pid() as pid";
        const { rows } = await sql.raw<{ pid: number }>(own).execute(session);
        await sql.raw(lock).execute(session);
        pid = Number(rows[0]?.pid);
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      });
      await until("the lock is held", () => pid !== 0);
      let isUp = false;
      const starting = ServedProcess.start(where).then((process) => {
        isUp = true;
        return process;
      });
      // Nothing else shows that it waits. On a busy machine it comes later to where it waits.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      expect(isUp).toBe(false);
      // A session ends with its process.
      const end = kind === "MariaDB" ? `kill ${pid}` : `select pg_terminate_backend(${pid})`;
      await server?.query(end, nameOf(where["SLUICE_DATABASE_URL"] ?? ""));
      release();
      await holding.catch(() => undefined);
      await starting;
    },
  );
});

// Tests the embedded database when it cannot go on, or not at once.

import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, sql } from "kysely";
import { describe, expect, it, onTestFinished } from "vitest";
import { sqliteDialect } from "../../../control-plane/src/storage/engines/sqlite.ts";
import { DatabaseInUse } from "../../../control-plane/src/storage/engines/sqlite-lock.ts";
import {
  type Answer,
  onePerSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { untilPasses } from "../../fixtures/until.ts";

interface Texts {
  texts: { text: string };
}

async function openTexts(path: string): Promise<Kysely<Texts>> {
  const database = new Kysely<Texts>({ dialect: sqliteDialect(path) });
  onTestFinished(() => database.destroy());
  await sql`create table if not exists texts (text text)`.execute(database);
  return database;
}

it("reports a full disk, and works again afterwards", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  await sql`pragma max_page_count = 10`.execute(database);
  const put = (text: string) =>
    database.transaction().execute((transaction) => transaction.insertInto("texts").values({ text }).execute());
  await expect(put("x".repeat(100_000))).rejects.toThrow("database or disk is full");
  await put("short");
  expect(await database.selectFrom("texts").selectAll().execute()).toEqual([{ text: "short" }]);
});

it("hides what a change has done until it is complete, and what the change has read stays true", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  const texts = () => database.selectFrom("texts").selectAll().execute();
  const changes = [1, 2].map((n) =>
    database.transaction().execute(async (transaction) => {
      const before = await transaction.selectFrom("texts").selectAll().execute();
      await transaction
        .insertInto("texts")
        .values({ text: `${before.length}` })
        .execute();
      expect(await texts()).toHaveLength(before.length);
      await sleep(20);
      if (n === 1) expect(await texts()).toHaveLength(0);
    }),
  );
  await Promise.all(changes);
  expect(await texts()).toEqual([{ text: "0" }, { text: "1" }]);
});

it("reverts all of a migration that fails half-way", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  expect(database.getExecutor().adapter.supportsTransactionalDdl).toBe(true);
  const half = database.transaction().execute(async (transaction) => {
    await sql`create table half (text text)`.execute(transaction);
    throw new Error("the disk is full");
  });
  await expect(half).rejects.toThrow("the disk is full");
  expect((await database.introspection.getTables()).map(({ name }) => name)).toEqual(["texts"]);
});

it("opens a file once, under whatever name, and again after it was closed", async () => {
  const dir = await temporaryDir();
  const path = join(dir, "texts.db");
  const first = await openTexts(path);
  await symlink(path, join(dir, "other-name.db"));
  for (const name of [path, join(dir, "other-name.db")]) {
    await expect(openTexts(name)).rejects.toThrow(DatabaseInUse);
  }
  await expect(openTexts(path)).rejects.toThrow(`${path} is in use by the control plane with pid ${process.pid}`);
  await first.destroy();
  await openTexts(path);
});

describe("another program that holds the lock of the SQLite file", () => {
  /** Takes the lock as an operator's shell or a backup does. */
  function lock({ dataDir }: Running): DatabaseSync {
    const other = new DatabaseSync(join(dataDir, "sluice.db"));
    other.exec("begin immediate");
    onTestFinished(() => other.close());
    return other;
  }

  const put = ({ call }: Running, name: string): Promise<Answer> =>
    call("PUT", `/apps/default/policies/${name}`, { body: onePerSecond });

  it("delays changes, in the order they came, and nothing else", async () => {
    const control = await startControlPlane();
    await put(control, "first");
    const other = lock(control);
    const changes = Promise.all(["a", "b", "c"].map((name) => put(control, name)));
    // If SQLite itself waited for the lock, these were answered when the changes have failed.
    for (let i = 0; i < 5; i++) {
      expect((await control.call("GET", "/apps/default/policies/first")).status).toBe(200);
      expect((await control.call("GET", "readyz")).status).toBe(200);
    }
    other.exec("rollback");
    expect((await changes).map(({ status }) => status)).toEqual([201, 201, 201]);
  });

  it("makes changes fail with 503 and Retry-After if it takes too long, also queued ones, and nothing changes", async () => {
    const lines: { msg: string }[] = [];
    const control = await startControlPlane(
      { SLUICE_LOG_LEVEL: "warn" },
      { logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
    );
    const other = lock(control);
    const startedAtMs = performance.now();
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => put(control, `p${i}`)));
    for (const { status, body, headers } of answers) {
      expect([status, body.code, headers.get("retry-after")]).toEqual([503, "database-busy", "1"]);
    }
    expect(lines.filter(({ msg }) => msg === "the database was busy for too long")).toHaveLength(1);
    // One after the other, they took a minute.
    expect(performance.now() - startedAtMs).toBeLessThan(50_000);
    other.exec("rollback");
    expect((await control.call("GET", "/apps/default/policies")).body.policies).toEqual([]);
    expect((await put(control, "a")).status).toBe(201);
  });

  it("does not keep a control plane from starting", async () => {
    const control = await startControlPlane();
    await control.stop();
    const other = lock(control);
    const again = await startControlPlane({ SLUICE_DATA_DIR: control.dataDir });
    expect((await again.call("GET", "/apps")).status).toBe(200);
    other.exec("rollback");
  });
});

it("returns the columns that a table has now, by a statement that it has run before", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  await database.insertInto("texts").values({ text: "first" }).execute();
  const texts = () => database.selectFrom("texts").selectAll().execute();
  const inTransaction = () => database.transaction().execute((open) => open.selectFrom("texts").selectAll().execute());
  expect(await texts()).toEqual([{ text: "first" }]);
  expect(await inTransaction()).toEqual([{ text: "first" }]);
  await sql`alter table texts add column note text default 'none'`.execute(database);
  expect(await texts()).toEqual([{ text: "first", note: "none" }]);
  expect(await inTransaction()).toEqual([{ text: "first", note: "none" }]);
});

it("copies what changes have logged into the file when nobody changes anything, and keeps it from growing", async () => {
  const path = join(await temporaryDir(), "texts.db");
  const database = await openTexts(path);
  for (let n = 0; n < 16; n++)
    await database
      .insertInto("texts")
      .values({ text: `${n}` })
      .execute();
  const copied = () => new DatabaseSync(`file:${path}?immutable=1`, { readOnly: true });
  await untilPasses(() => {
    const file = copied();
    const { count } = file.prepare("select count(*) as count from texts").get() as { count: number };
    file.close();
    expect(count).toBe(16);
  });
});

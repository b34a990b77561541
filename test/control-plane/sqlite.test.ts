// What the embedded database does when it cannot go on, or not at once.

import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { Kysely, sql } from "kysely";
import { describe, expect, it, onTestFinished } from "vitest";
import { sqliteDialect } from "../../control-plane/src/storage/sqlite.ts";
import { DatabaseInUse } from "../../control-plane/src/storage/sqlite-lock.ts";
import {
  type Answer,
  onePerSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "./control-plane-under-test.ts";

interface Texts {
  texts: { text: string };
}

async function openTexts(path: string): Promise<Kysely<Texts>> {
  const database = new Kysely<Texts>({ dialect: sqliteDialect(path) });
  onTestFinished(() => database.destroy());
  await sql`create table if not exists texts (text text)`.execute(database);
  return database;
}

it("says that the disk is full when it is, and works on", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  await sql`pragma max_page_count = 10`.execute(database);
  const put = (text: string) =>
    database.transaction().execute((transaction) => transaction.insertInto("texts").values({ text }).execute());
  await expect(put("x".repeat(100_000))).rejects.toThrow("database or disk is full");
  await put("short");
  expect(await database.selectFrom("texts").selectAll().execute()).toEqual([{ text: "short" }]);
});

it("shows nobody what a change has done before it is whole, and what it reads stays true", async () => {
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

it("takes back all of a migration that fails half-way", async () => {
  const database = await openTexts(join(await temporaryDir(), "texts.db"));
  expect(database.getExecutor().adapter.supportsTransactionalDdl).toBe(true);
  const half = database.transaction().execute(async (transaction) => {
    await sql`create table half (text text)`.execute(transaction);
    throw new Error("the disk is full");
  });
  await expect(half).rejects.toThrow("the disk is full");
  expect((await database.introspection.getTables()).map(({ name }) => name)).toEqual(["texts"]);
});

it("opens a file once, under whatever name, and again when it was closed", async () => {
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
  /** As an operator's shell or a backup does it. */
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
    let longestMs = 0;
    for (let i = 0; i < 20; i++) {
      const startedAtMs = performance.now();
      expect((await control.call("GET", "/apps/default/policies/first")).status).toBe(200);
      expect((await control.call("GET", "readyz")).status).toBe(200);
      longestMs = Math.max(longestMs, performance.now() - startedAtMs);
      await sleep(50);
    }
    // Waiting inside of SQLite, it was as long as the lock was held.
    expect(longestMs).toBeLessThan(1_500);
    other.exec("rollback");
    expect((await changes).map(({ status }) => status)).toEqual([201, 201, 201]);
  });

  it("is answered 503 and Retry-After when it takes too long, for those who queue behind too, and changes nothing", async () => {
    const control = await startControlPlane();
    const other = lock(control);
    const startedAtMs = performance.now();
    const answers = await Promise.all(["a", "b", "c", "d"].map((name) => put(control, name)));
    for (const { status, body, headers } of answers) {
      expect([status, body.code, headers.get("retry-after")]).toEqual([503, "database-busy", "1"]);
    }
    expect(performance.now() - startedAtMs).toBeLessThan(9_000);
    other.exec("rollback");
    expect((await control.call("GET", "/apps/default/policies")).body.policies).toEqual([]);
    expect((await put(control, "a")).status).toBe(201);
  }, 20_000);

  it("does not keep a control plane from starting", async () => {
    const control = await startControlPlane();
    await control.stop();
    const other = lock(control);
    const again = await startControlPlane({ SLUICE_DATA_DIR: control.dataDir });
    expect((await again.call("GET", "/apps")).status).toBe(200);
    other.exec("rollback");
  });
});

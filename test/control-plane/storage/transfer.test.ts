// Everything that is stored moves to another database, of another kind too.

import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KyselyPlugin, PluginTransformQueryArgs, QueryResult, RootOperationNode, UnknownRow } from "kysely";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { readConfiguration } from "../../../control-plane/src/configuration.ts";
import { openDatabase } from "../../../control-plane/src/storage/database.ts";
import { exportLines } from "../../../control-plane/src/storage/transfer.ts";
import { runTransfer } from "../../../control-plane/src/transfer-command.ts";
import {
  onePerSecond,
  type Running,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { MariadbServer } from "../../fixtures/servers/mariadb-server.ts";
import { PostgresServer } from "../../fixtures/servers/postgres-server.ts";
import { SmallDisk } from "../../fixtures/servers/small-disk.ts";

let mariadb: MariadbServer;
let postgres: PostgresServer;
let directory: string;
beforeAll(async () => {
  [mariadb, postgres] = await Promise.all([MariadbServer.start(), PostgresServer.start()]);
  directory = await mkdtemp(join(tmpdir(), "sluice-transfer-"));
});
afterAll(async () => {
  await Promise.all([mariadb.remove(), postgres.remove()]);
  await rm(directory, { recursive: true });
});

type Place = Record<string, string>;

class LargestAnswer implements KyselyPlugin {
  bytes = 0;

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    return node;
  }

  async transformResult({ result }: { result: QueryResult<UnknownRow> }): Promise<QueryResult<UnknownRow>> {
    this.bytes = Math.max(this.bytes, Buffer.byteLength(JSON.stringify(result.rows)));
    return result;
  }
}

async function transfer(command: string, file: string, place: Place): Promise<void> {
  expect(await runTransfer([command, file], readConfiguration(place))).toBe(true);
}

/** Something of everything, with characters that databases like to change. */
async function fill({ app, call }: Running): Promise<void> {
  await call("PUT", "/apps/shop", { body: { realm: { hosts: ["shop.test"] } } });
  for (let i = 0; i < 450; i++) {
    const body = {
      ...onePerSecond,
      // JSON writes these as they are, and some readers of lines take two of them for ends of lines.
      description: `“${i}” ≤ 😀 \\ ' \u2028\u2029\u0085\u007f`,
      key: ["header:x-user"],
      match: { hosts: ["shop.test"] },
    };
    expect((await call("PUT", `/apps/shop/policies/p${i}`, { body })).status).toBe(201);
  }
  await call("PUT", "/apps/shop/templates/polite", { body: { onLimit: { status: 503 } } });
  await call("PUT", "/apps/shop/networks/office", { text: "10.0.0.0/8\n2001:db8::/32", type: "text/plain" });
  const ban = { policy: "p1", key: ["é\u0000"], for: "1h", reason: "ünwanted" };
  expect((await call("POST", "/apps/shop/bans", { body: ban })).status).toBe(201);
  await call("POST", "/members", { body: { name: "ann", roles: { shop: "editor" } } });
  await app.database.insertInto("member_groups").values({ member: "ann", group_name: "shöp, dev" }).execute();
  await call("POST", "/tokens", { body: { name: "CI", app: "shop", role: "caller" } });
}

async function contentOf({ app, call }: Running): Promise<unknown> {
  const paths = [
    "/apps",
    "/apps/shop/policies?limit=1000",
    "/apps/shop/templates",
    "/apps/shop/networks/office",
    "/apps/shop/bans",
    "/members",
  ];
  const read = paths.map(async (path) => (await call("GET", path)).body);
  const revisions = (await call("GET", "/revisions?limit=1000")).body;
  const tokens = (await call("GET", "/tokens")).body.tokens.map(
    ({ lastUsedAt: _, ...token }: object & { lastUsedAt?: string }) => token,
  );
  const audit = (await call("GET", "/audit?limit=1000")).body;
  const groups = await app.database.selectFrom("member_groups").selectAll().execute();
  return { answers: await Promise.all(read), revisions, tokens, audit, groups };
}

it("from SQLite to MariaDB, to PostgreSQL and back, nothing is lost or changed", async () => {
  const sqlite: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  const first = await startControlPlane(sqlite);
  await fill(first);
  const content = await contentOf(first);
  await first.stop();

  const places: Place[] = [
    sqlite,
    { SLUICE_DATABASE_URL: await mariadb.createDatabase() },
    { SLUICE_DATABASE_URL: await postgres.createDatabase() },
    { SLUICE_DATA_DIR: await temporaryDir() },
  ];
  for (const [i, place] of places.entries()) {
    if (i === 0) continue;
    const file = join(directory, `${i}.jsonl`);
    await transfer("export", file, places[i - 1] as Place);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await transfer("import", file, place);
    const next = await startControlPlane(place);
    expect(await contentOf(next)).toEqual(content);
    await next.stop();
  }
  // The second text is that of the first, but for what a start adds.
  const [one, other] = await Promise.all([1, 3].map((i) => readFile(join(directory, `${i}.jsonl`), "utf8")));
  const rowsOf = (text = "") => text.split("\n").filter((line) => line.startsWith('{"table":"policies"'));
  expect(rowsOf(other).map((line) => JSON.parse(line))).toEqual(rowsOf(one).map((line) => JSON.parse(line)));
});

it("rows that together are larger than what a server takes at once are stored all the same", async () => {
  const from: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  const { app, stop } = await startControlPlane(from);
  const document = JSON.stringify({ description: "x".repeat(65_000) });
  const entry = { at: 5, who: "ann", source: null, action: "update-policy", app: "default", policy: "books" };
  const change = { ...entry, subject: null, before: document, after: document };
  for (let i = 1; i <= 150; i++) {
    await app.database
      .insertInto("revisions")
      .values({ ...change, number: i })
      .execute();
  }
  await stop();
  const file = join(directory, "large.jsonl");
  await transfer("export", file, from);
  const to: Place = { SLUICE_DATABASE_URL: await mariadb.createDatabase() };
  await transfer("import", file, to);
  const { database } = await openDatabase(readConfiguration(to).database);
  const stored = await database.selectFrom("revisions").select("number").where("after", "=", document).execute();
  await database.destroy();
  expect(stored).toHaveLength(150);
});

it("rows that together are large are read a few at once", async () => {
  for (const place of [
    { SLUICE_DATA_DIR: await temporaryDir() },
    { SLUICE_DATABASE_URL: await mariadb.createDatabase() },
    { SLUICE_DATABASE_URL: await postgres.createDatabase() },
  ]) {
    const { database } = await openDatabase(readConfiguration(place).database);
    const document = JSON.stringify({ description: "é".repeat(100_000) });
    const entry = { at: 5, who: "ann", source: null, action: "put-policies", app: "default", policy: null };
    for (let number = 1; number <= 40; number++) {
      const row = { ...entry, number, subject: null, before: document, after: document };
      await database.insertInto("revisions").values(row).execute();
    }
    const answers = new LargestAnswer();
    const lines: string[] = [];
    await exportLines(
      database.withPlugin(answers),
      async (line) => void lines.push(line),
      () => {},
    );
    await database.destroy();
    expect(answers.bytes).toBeLessThan(1_200_000);
    const numbers = lines.map((line) => JSON.parse(line)).filter(({ table }) => table === "revisions");
    expect(numbers.map(({ row }) => row.number)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
  }
});

it("a text that was cut, or into a database that is not empty, changes nothing", async () => {
  const full: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  const running = await startControlPlane(full);
  await running.call("PUT", "/apps/default/policies/books", { body: onePerSecond });
  await running.stop();
  const file = join(directory, "whole.jsonl");
  await transfer("export", file, full);
  await expect(transfer("import", file, full)).rejects.toThrow(
    "SLUICE_DATA_DIR: expected an empty database, got one with 1 revisions; nothing was changed",
  );
  await expect(transfer("export", file, full)).rejects.toThrow(/expected a file that does not exist yet/);
  const missing = join(directory, "no-such-directory/none.jsonl");
  for (const command of ["import", "export"] as const) {
    await expect(transfer(command, missing, { SLUICE_DATA_DIR: await temporaryDir() })).rejects.toThrow(
      `${missing}: expected a file that can be read or written, got ENOENT`,
    );
  }
  const lines = (await readFile(file, "utf8")).trimEnd().split("\n");
  const cut = join(directory, "cut.jsonl");
  for (const [text, message] of [
    [lines.slice(0, -1), /cut.jsonl: expected a whole export, got one that was cut/],
    [
      [...lines.slice(0, 3), ...lines.slice(4)],
      /cut.jsonl: expected [0-9]+ rows of .+, got [0-9]+; nothing was changed/,
    ],
    [
      [...lines.slice(0, 3), "nonsense", ...lines.slice(3)],
      /cut.jsonl line 4: expected a JSON object, got something else; nothing/,
    ],
    [['{"sluiceExport":1,"schema":"0001-skeleton"}', ...lines.slice(1)], /got one with schema 0001-skeleton/],
    [lines.map((line) => line.replace('"owner":', '"creator":')), /line \d+: expected a row of policies with app, /],
    [
      lines.map((line) => line.replace('"name":"books","revision"', '"revision"')),
      /line \d+: expected a row of policies/,
    ],
    [
      lines.map((line) => line.replace('"steps":0', '"steps":"0"')),
      /line \d+: expected a number in policies.steps, got "0"/,
    ],
    [
      lines.map((line) => line.replace('"app":"default","name"', '"app":"none","name"')),
      /rows of policies that the database takes/,
    ],
    [lines.map((line) => line.replace(/"row":.*/, '"row":null}')), /expected a row of a table/],
    [lines.map((line) => line.replace(/^\{"end".*/, '{"end":null}')), /expected a row of a table/],
    [[lines[0] ?? "", '{"end":{}}'], /expected one row of meta, got 0/],
  ] as const) {
    await writeFile(cut, text.join("\n"));
    const empty: Place = { SLUICE_DATA_DIR: await temporaryDir() };
    await expect(transfer("import", cut, empty)).rejects.toThrow(message);
    const after = await startControlPlane(empty);
    expect((await after.call("GET", "/apps/default/policies")).body.policies).toEqual([]);
    await after.stop();
  }
});

it("a disk that becomes full within the last line is told", async () => {
  const source: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  const running = await startControlPlane(source);
  const { database } = running.app;
  await running.call("POST", "/members", { body: { name: "ann" } });
  await database.insertInto("member_groups").values({ member: "ann", group_name: "x" }).execute();
  const lines: string[] = [];
  await exportLines(
    database,
    async (line) => void lines.push(`${line}\n`),
    () => undefined,
  );
  const bytes = lines.join("").length;
  const halfLine = Math.floor((lines.at(-1) ?? "").length / 2);
  // The disk has pages of 4 KiB.
  const pages = Math.ceil(bytes / 4_096);
  const padding = "x".repeat(1 + pages * 4_096 + halfLine - bytes);
  await database.updateTable("member_groups").set({ group_name: padding }).execute();
  await running.stop();
  const disk = await SmallDisk.make(pages * 4);
  onTestFinished(() => disk.remove());
  await expect(transfer("export", disk.file("export.jsonl"), source)).rejects.toThrow(/ENOSPC/);
  expect((await stat(disk.file("export.jsonl"))).size).toBe(pages * 4_096);
});

it("members and tokens that were made before the first policy are not replaced by an import", async () => {
  const source: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  await (await startControlPlane(source)).stop();
  const file = join(directory, "empty.jsonl");
  await transfer("export", file, source);
  const target: Place = { SLUICE_DATA_DIR: await temporaryDir() };
  const running = await startControlPlane(target);
  await running.call("POST", "/members", { body: { name: "ann" } });
  await running.stop();
  await expect(transfer("import", file, target)).rejects.toThrow(/expected an empty database, got one with members/);
  const after = await startControlPlane(target);
  expect((await after.call("GET", "/members")).body.members).toMatchObject([{ name: "ann" }]);
});

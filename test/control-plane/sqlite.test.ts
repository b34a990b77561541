// What the embedded database says when it cannot go on.

import { Kysely, sql } from "kysely";
import { expect, it } from "vitest";
import { sqliteDialect } from "../../control-plane/src/storage/sqlite.ts";

it("says that the disk is full when it is, and works on", async () => {
  const database = new Kysely<{ texts: { text: string } }>({ dialect: sqliteDialect(":memory:") });
  await sql`create table texts (text text)`.execute(database);
  await sql`pragma max_page_count = 10`.execute(database);
  const put = (text: string) =>
    database.transaction().execute((transaction) => transaction.insertInto("texts").values({ text }).execute());
  await expect(put("x".repeat(100_000))).rejects.toThrow("database or disk is full");
  await put("short");
  expect(await database.selectFrom("texts").selectAll().execute()).toEqual([{ text: "short" }]);
  await database.destroy();
});

// What a long history costs those who are not asking for it: no piece of a diff, of a roll-back or of the deletion of old entries keeps the only
// thread from others for long.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { emptyRow } from "../../../control-plane/src/storage/usage.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  type Answer,
  perSecond,
  send,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { Turns } from "../../fixtures/turns.ts";

/** The first answers are slower: V8 has not compiled the code yet. */
const times = 4;
const mostTurnMs = 40;

it("of bans that were made and ended is read in short pieces, and a roll-back reads no bans", async () => {
  const directory = await temporaryDir();
  const { url, longestTurnMs } = await startMeasuredProcess({ SLUICE_DATA_DIR: directory });
  const { revision: from } = (await send(url, "PUT", "/apps/default/policies/p", { body: perSecond(1) })).body;
  await send(url, "PUT", "/apps/default/policies/p", { body: perSecond(2) });
  const to = from + 1 + 200_000;
  const database = new DatabaseSync(join(directory, "sluice.db"));
  database.exec("begin immediate");
  const insert = database.prepare(
    `insert into revisions (number, at, who, action, app, subject, before, after) values (?, ${Date.now()}, 'ann', ?, 'default', ?, ?, ?)`,
  );
  const document = JSON.stringify({ cidr: "192.0.2.1/32", reason: "a flood" });
  for (let number = from + 2; number < to; number += 2) {
    insert.run(number, "create-ban", `ban-${number}`, null, document);
    insert.run(number + 1, "delete-ban", `ban-${number}`, document, null);
  }
  database.prepare("update meta set revision = ?").run(to);
  database.exec("commit");
  database.close();
  const shortest = async (ask: () => Promise<Answer>) => {
    const turnsMs: number[] = [];
    for (let i = 0; i < times; i++) {
      await longestTurnMs();
      const { status, body } = await ask();
      expect([status, body.changes?.length ?? body]).toEqual([200, 1]);
      turnsMs.push(await longestTurnMs());
    }
    console.log(`longest turns: ${turnsMs.join(", ")} ms`);
    return Math.min(...turnsMs);
  };
  const diff = () => send(url, "GET", `/revisions/${from}/diff/${to}?app=default`, {});
  expect(await shortest(diff)).toBeLessThan(mostTurnMs);
  const { token } = (await send(url, "POST", "/tokens", { body: { name: "v", app: "default", role: "viewer" } })).body;
  let shown = 0;
  const eight = Array.from({ length: 8 }, async () => {
    const { status } = await send(url, "GET", `/revisions/${from}/diff/${to}?app=default`, { token });
    shown += Number(status === 200);
  });
  let answered = 0;
  for (; shown < 8; answered++) await send(url, "GET", "/apps/default", {});
  await Promise.all(eight);
  // Each waits for two or three turns, of which a diff has some fifty.
  console.log(`beside eight diffs, ${answered} requests of somebody else are answered`);
  expect(answered).toBeGreaterThan(50);
  const rollBack = () => send(url, "POST", `/revisions/${from}/rollback?dryRun=true`, { body: { app: "default" } });
  expect(await shortest(rollBack)).toBeLessThan(mostTurnMs);
});

it("with large documents is shortened in short pieces", async () => {
  const { app } = await startControlPlane({ SLUICE_HISTORY_BYTES: "20000000" });
  const document = JSON.stringify({ description: "d".repeat(1_000_000) });
  const entry = {
    at: app.now(),
    who: "ann",
    source: null,
    action: "put-policies",
    app: "default",
    policy: null,
    subject: null,
  };
  for (let number = 1; number <= 60; number++) {
    await app.database
      .insertInto("revisions")
      .values({ ...entry, number, before: document, after: null })
      .execute();
  }
  await app.database.updateTable("meta").set({ revision: 60 }).execute();
  const used = { history_bytes: 60 * (document.length + 200), history_entries: 60 };
  await app.database
    .insertInto("usage")
    .values({ ...emptyRow("default"), ...used })
    .execute();
  const turns = new Turns();
  await app.deleteOutdated();
  const longestMs = turns.take();
  turns.stop();
  console.log(`longest turn: ${longestMs} ms`);
  const { length } = await app.database.selectFrom("revisions").select("number").execute();
  expect(length).toBe(19);
  expect(longestMs).toBeLessThan(mostTurnMs);
});

// Imports of consumers that are refused or break off, and what they leave: one that is refused has changed nothing, an app has one at a time,
// and whoever loses the right to go on does not.

import { request } from "node:http";
import { describe, expect, it } from "vitest";
import { always } from "../../../control-plane/src/bounds/bounds.ts";
import { beginImport, deleteOthers, endImport, putSome } from "../../../control-plane/src/storage/consumer-imports.ts";
import {
  type Answer,
  adminToken,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";
import { until } from "../../fixtures/until.ts";
import { holdWriting } from "./held-writing.ts";

const jsonl = "application/jsonl";
const many = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const linesOf = (ids: readonly string[]) => ids.map((id) => `${JSON.stringify({ id, plan: "pro" })}\n`).join("");

async function start(...apps: string[]): Promise<Running> {
  const running = await startControlPlane();
  for (const app of ["shop", ...apps]) await running.call("PUT", `/apps/${app}`, { body: { realm: {} } });
  return running;
}

function load({ call }: Running, ids: readonly string[], query = "", token = adminToken): Promise<Answer> {
  return call("PUT", `/apps/shop/consumers${query}`, { text: linesOf(ids), type: jsonl, token });
}

/** Sends an import whose answer comes line by line. @returns its lines */
async function loadSlowly({ url }: Running, app: string, text: string, token = adminToken) {
  const response = await fetch(`${url}/api/v1/apps/${app}/consumers?progress=true`, {
    method: "PUT",
    body: text,
    headers: { "content-type": jsonl, authorization: `Bearer ${token}` },
  });
  const told = await response.text();
  return told
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

async function stored({ app }: Running): Promise<string[]> {
  const rows = await app.database
    .selectFrom("consumers")
    .select("id")
    .where("app", "=", "shop")
    .orderBy("id")
    .execute();
  return rows.map(({ id }) => id);
}

/** An app that has so many consumers, and no more, finds room for more only if there is some for all apps. */
const withoutPlaceOfItsOwn = always.consumers;

/** Pretends that apps have so many consumers; "": all of them together. */
async function count({ app: { database } }: Running, counts: Readonly<Record<string, number>>): Promise<void> {
  for (const [app, consumers] of Object.entries(counts)) {
    await database.updateTable("usage").set({ consumers }).where("app", "=", app).execute();
  }
}

/** Of what does not come by a request. */
const origin = { who: "test", atMs: 0 };

const countOf = async ({ call }: Running) => (await call("GET", "/apps/shop/consumers?limit=1")).body.count;
const imports = async ({ call }: Running) =>
  (await call("GET", "/audit?app=shop&action=import-consumers")).body.entries.map(
    ({ after }: { after: object }) => after,
  );

/** What the audit trail says of an import that has created so many of its consumers, and did nothing else. */
const entryOf = (created: number, of: number) => ({
  lines: created,
  of,
  created,
  changed: 0,
  unchanged: 0,
  deleted: 0,
});

describe("an import for which there is no room", () => {
  it("changes nothing, although its first parts would find room", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop", { body: { bounds: { consumers: 1_200 } } });
    const before = many("old", 3);
    await load(running, before);
    const { status, body } = await load(running, many("new", 1_200));
    expect([status, body.code]).toEqual([409, "bound-exceeded"]);
    expect(body.bounds).toEqual([{ bound: "consumers", of: "app", used: 3, allowed: 1_200, wanted: 1_200 }]);
    expect(await stored(running)).toEqual(before);
    expect(await countOf(running)).toBe(3);
    expect(await imports(running)).toHaveLength(1);
    // Those that are there already need no room.
    expect((await load(running, [...before, ...many("new", 1_197)])).body).toMatchObject({
      created: 1_197,
      unchanged: 3,
    });
  });

  it.each([
    ["of the app", withoutPlaceOfItsOwn + 5],
    ["of all apps together", undefined],
  ])("deletes nobody either if it was to replace them, by the bound %s", async (of, bound) => {
    const running = await start();
    const before = many("old", withoutPlaceOfItsOwn + 3);
    await load(running, before);
    if (bound === undefined) await count(running, { "": 1_000_000 - 1 });
    else await running.call("PUT", "/apps/shop", { body: { bounds: { consumers: bound } } });
    const { status, body } = await load(running, many("new", before.length + 3), "?replace=true");
    expect([of, status, body.code]).toEqual([of, 409, "bound-exceeded"]);
    expect(await stored(running)).toEqual(before.toSorted());
    expect(await countOf(running)).toBe(before.length);
    // As many as there are can be replaced, however full the app is.
    const after = many("new", before.length);
    const { length } = after;
    expect((await load(running, after, "?replace=true")).body).toMatchObject({ created: length, deleted: length });
    expect(await stored(running)).toEqual(after.toSorted());
  });

  it("is refused because of what another one has taken, until that one ends", async () => {
    const running = await start("kiosk");
    const { database, totalBounds } = running.app;
    await load(running, ["a"]);
    await count(running, { shop: withoutPlaceOfItsOwn + 1, "": 1_000_000 - 4 });
    const consumers = new Map(many("k", 3).map((id) => [id, { id, plan: "pro", overrides: null }]));
    const underWay = await beginImport(database, origin, "kiosk", consumers, false, totalBounds);
    const refused = await load(running, ["b", "c"]);
    expect(refused.body.bounds).toEqual([
      { bound: "consumers", of: "all", used: 1_000_000 - 1, allowed: 1_000_000, wanted: 2 },
    ]);
    expect((await running.call("PUT", "/apps/shop/consumers/b", { body: { plan: "pro" } })).status).toBe(201);
    expect((await running.call("PUT", "/apps/shop/consumers/c", { body: { plan: "pro" } })).body.code).toBe(
      "bound-exceeded",
    );
    await endImport(database, underWay);
    expect((await load(running, ["b", "c"])).body).toMatchObject({ created: 1, unchanged: 1 });
  });
});

describe("an app", () => {
  it("has one import at a time: another one is refused, and what was sent first is stored whole", async () => {
    const running = await start();
    const sets = [many("a", 3_000), many("b", 3_000)] as const;
    const answers = await Promise.all(sets.map((ids) => load(running, ids, "?replace=true")));
    const won = answers.findIndex(({ status }) => status === 200);
    const lost = answers[1 - won];
    expect([lost?.status, lost?.body.code, lost?.headers.get("retry-after")]).toEqual([409, "import-under-way", "5"]);
    expect(await stored(running)).toEqual([...(sets[won] ?? [])].sort());
    // It is over, and the next one may come.
    expect((await load(running, sets[1 - won] ?? [], "?replace=true")).body).toMatchObject({
      created: 3_000,
      deleted: 3_000,
    });
  });

  it("may begin another one when one has died, and the dead one that comes back stores nothing more", async () => {
    const running = await start();
    const { database, totalBounds } = running.app;
    await load(running, ["a", "b"]);
    const consumers = new Map([["dead", { id: "dead", plan: "pro", overrides: null }]]);
    const dead = await beginImport(database, origin, "shop", consumers, true, totalBounds);
    expect((await load(running, ["c"])).body.code).toBe("import-under-way");
    // What it waits for is not the time of the test.
    await database.updateTable("consumer_imports").set({ until_at: 1 }).execute();
    expect((await load(running, ["c"], "?replace=true")).body).toMatchObject({ created: 1, deleted: 2 });
    const counts = { created: 0, changed: 0, unchanged: 0, deleted: 0, position: 0 };
    for (const part of [
      putSome(database, origin, dead, [...consumers.values()], counts),
      deleteOthers(database, origin, dead, "", () => false, counts),
    ]) {
      await expect(part).rejects.toMatchObject({ code: "import-under-way" });
    }
    await endImport(database, dead);
    expect(await stored(running)).toEqual(["c"]);
  });

  it("that is deleted and made again gets nothing of an import that was under way", async () => {
    const running = await start();
    const { database, totalBounds } = running.app;
    const consumers = new Map([["a", { id: "a", plan: "pro", overrides: null }]]);
    const underWay = await beginImport(database, origin, "shop", consumers, false, totalBounds);
    await running.call("DELETE", "/apps/shop");
    await running.call("PUT", "/apps/shop", { body: { realm: {} } });
    const counts = { created: 0, changed: 0, unchanged: 0, deleted: 0, position: 0 };
    const part = putSome(database, origin, underWay, [...consumers.values()], counts);
    await expect(part).rejects.toMatchObject({ code: "import-under-way" });
    expect(await stored(running)).toEqual([]);
  });
});

describe("an import", () => {
  it.each([false, true])(
    "ends when its sender's token is deleted, and says what it has stored (progress: %s)",
    async (progress) => {
      const running = await start();
      const { body } = await running.call("POST", "/tokens?wait=0s", {
        body: { name: "t", app: "shop", role: "editor" },
      });
      const ids = many("c", 30_000);
      const loading = progress
        ? loadSlowly(running, "shop", linesOf(ids), body.token).then((told) => told.at(-1).error)
        : load(running, ids, "", body.token).then((answer) => answer.body);
      await until("the import stores", async () => (await countOf(running)) > 0);
      const goOn = await holdWriting(running, (transaction) =>
        transaction.deleteFrom("tokens").where("id", "=", body.id).execute(),
      );
      const before = await countOf(running);
      await goOn();
      const error = await loading;
      const count = await countOf(running);
      expect(count).toBe(before);
      expect(error).toMatchObject({
        code: "unauthorized",
        status: 401,
        stored: { created: count, changed: 0, deleted: 0 },
      });
      expect(error.detail).toBe(
        `The import broke off: The token is unknown. It has created ${count} consumers, changed 0 and deleted 0 by then, and they stay so.`,
      );
      expect(await imports(running)).toEqual([entryOf(count, ids.length)]);
      // Nothing of it is in the way of the next one.
      expect((await load(running, ids.slice(0, 1))).body).toMatchObject({ unchanged: 1 });
    },
  );

  it("ends when the reader of its answer goes away, and nothing of it is in the way of the next one", async () => {
    const running = await start();
    const gone = new AbortController();
    const headers = { "content-type": jsonl, authorization: `Bearer ${adminToken}` };
    const response = await fetch(`${running.url}/api/v1/apps/shop/consumers?progress=true`, {
      method: "PUT",
      body: linesOf(many("c", 60_000)),
      headers,
      signal: gone.signal,
    });
    expect(response.status).toBe(200);
    gone.abort();
    await until("it has ended", async () => {
      return (await running.app.database.selectFrom("consumer_imports").selectAll().execute()).length === 0;
    });
    const count = await countOf(running);
    expect(await imports(running)).toEqual(count === 0 ? [] : [entryOf(count, 60_000)]);
    expect((await load(running, ["c0"])).status).toBe(200);
  });

  it.each([false, true])(
    "that finds the database held until it gives up says what it has stored, and so does the audit trail (progress: %s)",
    async (progress) => {
      const running = await start();
      const ids = many("c", 30_000);
      const loading = progress
        ? loadSlowly(running, "shop", linesOf(ids)).then((told) => told.at(-1).error)
        : load(running, ids).then((answer) => answer.body);
      await until("the import stores", async () => (await countOf(running)) > 0);
      const goOn = await holdWriting(running, async () => undefined);
      // Longer than its part waits, and than it waits to end.
      const error = await loading;
      await goOn();
      const count = await countOf(running);
      expect(count).toBeLessThan(ids.length);
      const stored = { created: count, changed: 0, deleted: 0 };
      expect(error).toMatchObject({ code: "database-busy", status: 503, stored });
      expect(error.detail).toBe(
        `The import broke off: Another process holds the database's lock, and did not let go in time. It has created ${count} consumers, changed 0 and deleted 0 by then, and they stay so.`,
      );
      expect(await imports(running)).toEqual([entryOf(count, ids.length)]);
    },
  );

  it("that cannot store that it has ended has been stored, and is in the audit trail", async () => {
    const running = await start();
    let goOn: Promise<() => Promise<void>> | undefined;
    running.app.storageObserver.add({
      // Within the last part, so that nobody else has the next turn.
      statement: ({ query }) => {
        if (query.parameters.includes("1200")) goOn ??= holdWriting(running, async () => undefined);
      },
      transaction: () => () => undefined,
      waited: () => undefined,
      failed: () => undefined,
    });
    const { status, body } = await load(running, many("c", 1_200));
    expect([status, body.created]).toEqual([200, 1_200]);
    expect(await imports(running)).toEqual([entryOf(1_200, 1_200)]);
    await (await goOn)?.();
    expect((await load(running, ["c"])).body.code).toBe("import-under-way");
  });

  it("has an entry that says all, even if there was no room for it in the audit trail meanwhile", async () => {
    const running = await start();
    const ids = many("c", 30_000);
    const loading = load(running, ids);
    await until("the import stores", async () => (await countOf(running)) > 0);
    const goOn = await holdWriting(running, (transaction) =>
      transaction.deleteFrom("audit").where("action", "=", "import-consumers").execute(),
    );
    await goOn();
    expect((await loading).status).toBe(200);
    expect(await imports(running)).toEqual([entryOf(ids.length, ids.length)]);
  });

  it("gives way to bodies of other apps while it is stored, and says what it has stored", async () => {
    const running = await start("crm", "mail");
    await running.call("PUT", "/apps/shop", { body: { bounds: { consumers: 1_000_000 } } });
    const pad = " ".repeat(600);
    const text = many("c", 90_000)
      .map((id) => `${JSON.stringify({ id, plan: "pro" })}${pad}\n`)
      .join("");
    const loading = loadSlowly(running, "shop", text);
    await until("the import stores", async () => (await countOf(running)) > 0);
    const goOn = await holdWriting(running, async () => undefined);
    const blanks = (mebibytes: number) => `${" ".repeat(1_023)}\n`.repeat(1_024 * mebibytes);
    const headers = { "content-type": jsonl, authorization: `Bearer ${adminToken}` };
    const endless = request(`${running.url}/api/v1/apps/crm/policies`, { method: "PUT", headers });
    onFinished(() => void endless.destroy());
    endless.on("error", () => undefined);
    await new Promise((resolve) => endless.write(blanks(50), resolve));
    const other = await running.call("PUT", "/apps/mail/policies", { text: blanks(30), type: jsonl });
    expect(other.body.code).toBe("malformed-body");
    await goOn();
    const { error } = (await loading).at(-1);
    expect(error).toMatchObject({ code: "bodies-busy", stored: { created: await countOf(running) } });
    expect(error.detail).toContain("The import broke off: The body had the most of the memory for bodies");
  });

  it("holds the memory for bodies until it is stored", async () => {
    const running = await start();
    const pad = " ".repeat(2_000);
    const text = many("c", 30_000)
      .map((id) => `${JSON.stringify({ id, plan: "pro" })}${pad}\n`)
      .join("");
    // Another body of the app, which has only blanks: its bytes count before anything is read of them.
    const blanks = `${" ".repeat(1_000)}\n`.repeat(8_000);
    const sendBlanks = async () =>
      (await running.call("PUT", "/apps/shop/policies", { text: blanks, type: jsonl })).body.code;
    const loading = loadSlowly(running, "shop", text);
    await until("the import stores", async () => (await countOf(running)) > 0);
    const goOn = await holdWriting(running, async () => undefined);
    expect(await countOf(running)).toBeLessThan(30_000);
    expect(await sendBlanks()).toBe("bodies-busy");
    await goOn();
    expect((await loading).at(-1)).toMatchObject({ done: 30_000 });
    expect(await sendBlanks()).toBe("malformed-body");
  });
});

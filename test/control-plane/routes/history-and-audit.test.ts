// What was done is recorded, neither for ever nor without bound.

import { describe, expect, it } from "vitest";
import {
  onePerSecond,
  perSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";

const dayMs = 86_400_000;
const books = "/apps/default/policies/books";
const numbers = async (running: Running, app?: string) => {
  const query = running.app.database.selectFrom("revisions").select("number").orderBy("number");
  const rows = await (app === undefined ? query : query.where("app", "=", app)).execute();
  return rows.map(({ number }) => Number(number));
};
const audit = (running: Running) =>
  running.app.database.selectFrom("audit").selectAll().orderBy("at").orderBy("id").execute();

describe("the history", () => {
  it("of an app is bounded by its bytes, and pushes no other app's out", async () => {
    const running = await startControlPlane({ SLUICE_HISTORY_BYTES: "20000" });
    await running.call("PUT", "/apps/shop");
    await running.call("PUT", "/apps/shop/policies/p", { body: onePerSecond });
    for (let i = 1; i <= 20; i++) {
      await running.call("PUT", books, { body: { ...perSecond(i), description: "x".repeat(2_000) } });
    }
    await running.app.deleteOutdated();
    const kept = await numbers(running, "default");
    expect(kept.length).toBeLessThan(6);
    expect(kept.at(-1)).toBe(22);
    expect(await numbers(running, "shop")).toEqual([1, 2]);
    const usage = await running.app.database
      .selectFrom("usage")
      .selectAll()
      .where("app", "=", "default")
      .executeTakeFirst();
    expect(Number(usage?.history_bytes)).toBeLessThanOrEqual(20_000);
    expect(Number(usage?.history_entries)).toBe(kept.length);
    // What is in force does not depend on the history.
    expect((await running.call("GET", books)).body.limits[0].quota).toBe(20);
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(kept.length + 2);
  });

  it("counts its documents in bytes, when they come and when they go", async () => {
    const running = await startControlPlane({ SLUICE_HISTORY_BYTES: "30000" });
    const { app, call } = running;
    const historyBytes = async () => {
      const usage = await app.database
        .selectFrom("usage")
        .select("history_bytes")
        .where("app", "=", "default")
        .execute();
      return Number(usage[0]?.history_bytes);
    };
    const storedBytes = async () => {
      const rows = await app.database.selectFrom("revisions").selectAll().where("app", "=", "default").execute();
      return rows.reduce((sum, { before, after }) => sum + 200 + Buffer.byteLength(`${before ?? ""}${after ?? ""}`), 0);
    };
    for (let i = 1; i <= 20; i++)
      await call("PUT", books, { body: { ...perSecond(i), description: "é😀限".repeat(150) } });
    expect(await historyBytes()).toBe(await storedBytes());
    expect(await historyBytes()).toBeGreaterThan(30_000);
    await app.deleteOutdated();
    expect(await historyBytes()).toBe(await storedBytes());
    expect(await historyBytes()).toBeLessThanOrEqual(30_000);
    expect(await historyBytes()).toBeGreaterThan(25_000);
  });

  it("of a deleted app is hidden from whoever has an app of that name afterwards", async () => {
    const running = await startControlPlane();
    const viewerOf = async (app: string) => {
      const { token } = (await running.call("POST", "/tokens", { body: { name: "v", app, role: "viewer" } })).body;
      const { body } = await running.call("GET", "/revisions", { token });
      return body.revisions.map(({ summary }: { summary: string }) => summary);
    };
    await running.call("PUT", "/apps/shop");
    await running.call("PUT", "/apps/shop/policies/secret-plans", { body: onePerSecond });
    expect(await viewerOf("shop")).toEqual(["created policy shop/secret-plans", "created app shop"]);
    await running.call("DELETE", "/apps/shop/policies/secret-plans");
    await running.call("DELETE", "/apps/shop");
    await running.call("PUT", "/apps/shop");
    expect(await viewerOf("shop")).toEqual(["created app shop"]);
    const { token } = (await running.call("POST", "/tokens", { body: { name: "e", app: "shop", role: "editor" } }))
      .body;
    const { body: diff } = await running.call("GET", "/revisions/0/diff/5", { token });
    expect(diff.changes.map(({ kind, name }: { kind: string; name: string }) => [kind, name])).toEqual([
      ["app", "shop"],
    ]);
    const asked = { token, body: { app: "shop" } };
    const back = await running.call("POST", "/revisions/2/rollback?dryRun=true", asked);
    expect([back.status, back.body.code]).toEqual([404, "revision-not-found"]);
    // Tokens for all apps still see it.
    expect((await running.call("GET", "/revisions")).body.revisions).toHaveLength(5);
  });

  it("is kept for 90 days, and its newest 1,000 entries for longer", async () => {
    let nowMs = Date.now();
    const running = await startControlPlane({}, { now: () => nowMs });
    await running.app.database.transaction().execute(async (transaction) => {
      for (let i = 1; i <= 1_250; i++) {
        await transaction
          .insertInto("revisions")
          .values({ number: i, at: nowMs, who: "x", action: "update-policy", app: "default" } as never)
          .execute();
      }
      await transaction.updateTable("meta").set({ revision: 1_250 }).execute();
    });
    nowMs += 90 * dayMs;
    await running.app.deleteOutdated();
    expect(await numbers(running)).toHaveLength(1_250);
    nowMs += 1;
    await running.app.deleteOutdated();
    expect((await numbers(running))[0]).toBe(251);
    expect(await numbers(running)).toHaveLength(1_000);
  });

  it.each([
    ["SLUICE_HISTORY_DAYS", "0"],
    ["SLUICE_HISTORY_BYTES", "much"],
    ["SLUICE_AUDIT_DAYS", "-1"],
    ["SLUICE_MAX_POLICIES", "1e3"],
    ["SLUICE_MAX_SNAPSHOT_BYTES", "99999999999"],
    ["SLUICE_MAX_EXPRESSION_STEPS", " "],
  ])("is not kept by guessed bounds: %s=%s stops the start", async (variable, value) => {
    await expect(startControlPlane({ [variable]: value })).rejects.toThrow(variable);
  });
});

describe("the trace", () => {
  it("of a deleted app is hidden from whoever has an app of that name, also when the entry of the deletion is gone", async () => {
    let nowMs = Date.now();
    const running = await startControlPlane({ SLUICE_HISTORY_BYTES: "400" }, { now: () => nowMs });
    const { call } = running;
    const ownerOf = async (app: string) =>
      (await call("POST", "/tokens", { body: { name: "o", app, role: "owner" } })).body.token;
    await call("PUT", "/apps/shop");
    await call("POST", "/tokens", { body: { name: "secret plans", app: "shop", role: "viewer" } });
    nowMs += 1_000;
    await call("DELETE", "/apps/shop");
    nowMs += 1_000;
    await call("PUT", "/apps/shop");
    const token = await ownerOf("shop");
    for (let i = 1; i <= 3; i++) await call("PUT", "/apps/shop/policies/p", { token, body: perSecond(i) });
    await running.app.deleteOutdated();
    expect((await numbers(running, "shop"))[0]).toBeGreaterThan(3);
    const { entries } = (await call("GET", "/audit", { token })).body;
    expect(JSON.stringify(entries)).not.toContain("secret plans");
    expect(entries.at(-1)).toMatchObject({ action: "create-token", subject: "o" });
    // An admin reads all of it.
    expect(JSON.stringify((await call("GET", "/audit")).body)).toContain("secret plans");
  });

  it.each(["owner", "editor", "viewer", "caller"])(
    "records who made and deleted a token of the role %s",
    async (role) => {
      const running = await startControlPlane();
      const body = { name: "of ann", app: "default", role };
      const { id, token } = (await running.call("POST", "/tokens", { body })).body;
      await running.call("DELETE", `/tokens/${id}`);
      const rows = await audit(running);
      const who = { who: "environment", source: "127.0.0.1", app: "default", subject: "of ann" };
      const said = JSON.stringify({ id, name: "of ann", role });
      expect(rows).toMatchObject([
        { ...who, action: "create-token", before: null, after: said },
        { ...who, action: "delete-token", before: said, after: null },
      ]);
      expect(JSON.stringify(rows)).not.toContain(token);
    },
  );

  it("records who read, reset and topped up a counter by hand, and which one", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: { ...onePerSecond, key: ["header:x-user"] } });
    const { token } = (await running.call("POST", "/tokens", { body: { name: "ann", app: "default", role: "editor" } }))
      .body;
    const url = "/apps/default/counters";
    await running.call("GET", `${url}?policy=books&key=bob`, { token });
    await running.call("DELETE", `${url}?policy=books&key=bob`, { token });
    await running.call("POST", url, { token, body: { policy: "books", key: ["bob"], units: 3 } });
    // A refused request is not recorded.
    await running.call("DELETE", `${url}?policy=none&key=bob`, { token });
    const subject = '{"policy":"books","key":["bob"]}';
    const who = { who: "default/ann", source: "127.0.0.1", app: "default", subject };
    expect((await audit(running)).slice(1)).toMatchObject([
      { ...who, action: "read-counter" },
      { ...who, action: "reset-counter" },
      { ...who, action: "top-up-counter", after: '{"units":3}' },
    ]);
  });

  it("is kept for SLUICE_AUDIT_DAYS", async () => {
    let nowMs = Date.now();
    const running = await startControlPlane({ SLUICE_AUDIT_DAYS: "7" }, { now: () => nowMs });
    const body = { name: "x", app: "default", role: "viewer" };
    await running.call("POST", "/tokens", { body });
    nowMs += 7 * dayMs + 1;
    await running.call("POST", "/tokens", { body });
    await running.app.deleteOutdated();
    expect(await audit(running)).toHaveLength(1);
  });

  it("of an app has an end, and what was only read goes before what was changed", async () => {
    const running = await startControlPlane();
    await running.call("PUT", books, { body: onePerSecond });
    const url = "/apps/default/counters?policy=books";
    await running.call("DELETE", url);
    await running.call("GET", url);
    // This sets the count of bytes as if there were 32 MB.
    await running.app.database
      .updateTable("usage")
      .set({ audit_bytes: 33_554_432 })
      .where("app", "=", "default")
      .execute();
    await running.call("GET", url);
    expect((await audit(running)).map(({ action }) => action)).toEqual(["reset-counter", "read-counter"]);
  });

  it("of members is not wiped out by one who makes and deletes tokens of their own in a loop", async () => {
    const running = await startControlPlane();
    await running.call("POST", "/members", { body: { name: "eve", roles: { default: "viewer" } } });
    const made = await running.call("POST", "/tokens", { body: { name: "laptop", member: "eve" } });
    await running.app.database.updateTable("usage").set({ audit_bytes: 33_554_432 }).where("app", "=", "").execute();
    const { token } = made.body;
    for (let i = 0; i < 3; i++) {
      const { id } = (await running.call("POST", "/tokens", { token, body: { name: "x", member: "eve" } })).body;
      await running.call("DELETE", `/tokens/${id}`, { token });
    }
    const actions = (await audit(running)).filter(({ app }) => app === "").map(({ action }) => action);
    expect(actions).toEqual(["create-member", "delete-token"]);
  });

  it("of an app is not made larger than its end by many small entries and few large ones, nor wiped out of its tokens", async () => {
    const running = await startControlPlane();
    const key = Array.from({ length: 8 }, (_, i) => `header:x-${i}`);
    await running.call("PUT", books, { body: { ...onePerSecond, key } });
    const { token } = (await running.call("POST", "/tokens", { body: { name: "eve", app: "default", role: "editor" } }))
      .body;
    const most = 33_554_432;
    const { database } = running.app;
    await database
      .updateTable("usage")
      .set({ audit_bytes: most - 80_000 })
      .where("app", "=", "default")
      .execute();
    const url = "/apps/default/counters";
    const body = { policy: "books", key: key.map(() => "x".repeat(8_000)), units: 1 };
    for (let i = 0; i < 5; i++) {
      await running.call("GET", `${url}?policy=books&${key.map(() => "key=a").join("&")}`, { token });
      expect((await running.call("POST", url, { token, body })).status).toBe(200);
    }
    const actions = (await audit(running)).map(({ action }) => action);
    expect(actions).toEqual(["create-token", "top-up-counter"]);
    const rest = await database.selectFrom("usage").select("audit_bytes").where("app", "=", "default").execute();
    expect(Number(rest[0]?.audit_bytes)).toBeLessThanOrEqual(most);
  });
});

// Consumers: made, changed and deleted one by one, listed by pages, and imported by a file. On every database, ids are what they are to
// their bytes.

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import type { ConsumersHead } from "@sluice/limiter/protocol/push-messages.ts";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  adminToken,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

const nowMs = 1_800_000_000_000;
const changedAt = new Date(nowMs).toISOString();
const consumers = "/apps/shop/consumers";
const burst = (quota: number) => [{ name: "burst", algorithm: "fixed-window", quota, window: "1s" }];

async function start(): Promise<Running & { pass(ms: number): void }> {
  let time = nowMs;
  const running = await startControlPlane({}, { now: () => time });
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  const plans = { free: burst(1), pro: burst(2), max: burst(3) };
  const books = { key: ["header:x-id"], onMissingKey: "deny", plans, planBy: "consumer", defaultPlan: "free" };
  expect((await running.call("PUT", "/apps/shop/policies/books", { body: books })).status).toBe(201);
  const pass = (ms: number) => {
    time += ms;
  };
  return { ...running, pass };
}

const at = (id: string) => `${consumers}/${encodeURIComponent(id)}`;
const lines = (...documents: readonly object[]) => documents.map((one) => `${JSON.stringify(one)}\n`).join("");

function load({ call }: Running, text: string, query = ""): Promise<Answer> {
  return call("PUT", `${consumers}${query}`, { text, type: "application/jsonl" });
}

/** Sends a path that is not resolved. */
async function askAsItIs({ url }: Running, path: string): Promise<{ status: number | undefined; code: string }> {
  const { hostname, port } = new URL(url);
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
  const sent = request({ hostname, port, path: `/api/v1${path}`, method: "PUT", headers }).end('{"plan":"pro"}');
  const [incoming] = (await once(sent, "response")) as [IncomingMessage];
  return { status: incoming.statusCode, code: ((await json(incoming)) as { code: string }).code };
}

async function idsOf({ call }: Running, query = ""): Promise<string[]> {
  const ids: string[] = [];
  for (let after = ""; ; ) {
    const { body } = await call("GET", `${consumers}?limit=2&after=${encodeURIComponent(after)}${query}`);
    for (const { id } of body.consumers) ids.push(id);
    if (body.next === undefined) return ids;
    after = body.next;
  }
}

const audited = async ({ call }: Running) =>
  (await call("GET", "/audit?app=shop&limit=1000")).body.entries.filter(({ action }: { action: string }) =>
    action.endsWith("consumer"),
  );

describe("warnings", () => {
  const month = { name: "burst", algorithm: "fixed-window", quota: 9, window: "month", timezone: "Europe/Berlin" };
  const lifetime = { ...month, window: "lifetime", timezone: undefined };
  const queue = (most: number) => [{ name: "burst", algorithm: "leaky-bucket", quota: 9, window: "1s", burst: most }];
  const bucket = { name: "burst", algorithm: "token-bucket", quota: 9, window: "1s" };
  const cases = [
    [{ plan: "entreprise" }, ["plan"]],
    [{ plan: "pro", overrides: { boks: burst(7) } }, ["overrides.boks"]],
    [{ plan: "pro", overrides: { books: [{ ...burst(7)[0], name: "brst" }] } }, ["overrides.books[0].name"]],
    [{ plan: "pro", overrides: { books: [bucket] } }, ["overrides.books[0].algorithm"]],
    [{ plan: "pro", overrides: { books: [month] } }, ["overrides.books[0].timezone"]],
    [{ plan: "pro", overrides: { books: [{ ...month, timezone: "UTC" }] } }, ["overrides.books[0]"]],
    [{ plan: "pro", overrides: { zoned: [{ ...month, timezone: "Asia/Kolkata" }] } }, undefined],
    [
      { plan: "pro", overrides: { zoned: [{ ...month, window: "day", timezone: "Asia/Kolkata" }] } },
      ["overrides.zoned[0]"],
    ],
    [
      { plan: "fre", overrides: { boks: burst(7), books: [{ ...month, timezone: "UTC" }] } },
      ["plan", "overrides.boks", "overrides.books[0]"],
    ],
    [{ plan: "max", overrides: { books: burst(7) } }, undefined],
    [{ plan: "max", overrides: { books: [lifetime] } }, ["overrides.books[0].window"]],
    [{ plan: "max", overrides: { dear: burst(4) } }, ["overrides.dear[0].quota"]],
    [{ plan: "max", overrides: { dear: burst(5) } }, undefined],
    [{ plan: "max", overrides: { stated: burst(5) } }, ["overrides.stated[0].quota"]],
    [{ plan: "max", overrides: { stated: burst(6) } }, undefined],
    [{ plan: "max", overrides: { queue: queue(3) } }, ["overrides.queue[0].burst"]],
    [{ plan: "max", overrides: { queue: queue(4) } }, undefined],
  ] as const;

  it.each(cases)("%j", async (terms, paths) => {
    const running = await start();
    const ofConsumers = { key: ["ip"], planBy: "consumer", defaultPlan: "free" };
    const policies = {
      dear: { plans: { free: burst(9) }, cost: 5 },
      stated: { plans: { free: burst(9) }, cost: { from: "header:x-cost", max: 6 } },
      queue: { plans: { free: queue(9) }, cost: 5 },
      zoned: { plans: { free: [{ ...month, timezone: "Asia/Calcutta" }] } },
    };
    for (const [name, policy] of Object.entries(policies)) {
      const { status } = await running.call("PUT", `/apps/shop/policies/${name}`, {
        body: { ...ofConsumers, ...policy },
      });
      expect(status).toBe(201);
    }
    const pathsOf = (problems: { path: string }[] | undefined) => problems?.map(({ path }) => path);
    const strict = await running.call("PUT", `${at("ann")}?strict=true`, { body: terms });
    expect([strict.status, pathsOf(strict.body.errors)]).toEqual(paths === undefined ? [201, undefined] : [400, paths]);
    const put = await running.call("PUT", at("ann"), { body: terms });
    expect([put.status, pathsOf(put.body.warnings)]).toEqual([paths === undefined ? 200 : 201, paths]);
    const text = lines({ id: "bob", plan: "pro" }, { id: "cid", ...terms });
    const refused = await load(running, text, "?strict=true");
    expect([refused.status, refused.body.code]).toEqual(
      paths === undefined ? [200, undefined] : [400, "invalid-consumers"],
    );
    expect(pathsOf(refused.body.errors)).toEqual(paths);
    const loaded = await load(running, text);
    expect([loaded.status, pathsOf(loaded.body.warnings)]).toEqual([200, paths]);
    for (const { line } of loaded.body.warnings ?? []) expect(line).toBe(2);
  });

  it("say what there is instead", async () => {
    const { call } = await start();
    const { body } = await call("PUT", at("ann"), { body: { plan: "entreprise" } });
    expect(body.warnings).toEqual([
      {
        path: "plan",
        expected: "a plan of a policy with planBy: consumer, like free, max, pro",
        got: '"entreprise", for which the default plan holds',
      },
    ]);
    await call("DELETE", "/apps/shop/policies/books");
    const without = await call("PUT", at("ann"), { body: { plan: "pro" } });
    expect(without.body.warnings).toMatchObject([{ expected: expect.stringContaining("the app has none") }]);
  });
});

describe("a consumer", () => {
  it("is made, read, changed and deleted, and each is audited", async () => {
    const running = await start();
    const { call } = running;
    const put = await call("PUT", at("ann"), { body: { plan: "free" } });
    expect([put.status, put.body]).toEqual([201, { id: "ann", plan: "free", changedAt, position: 1 }]);
    const own = { plan: "pro", overrides: { books: burst(7) } };
    const changed = await call("PUT", at("ann"), { body: own });
    expect([changed.status, changed.body]).toEqual([200, { id: "ann", ...own, changedAt, position: 2 }]);
    expect((await call("GET", at("ann"))).body).toEqual({ id: "ann", ...own, changedAt, etag: '"2"' });
    // What is there already is no change.
    expect((await call("PUT", at("ann"), { body: own })).body.position).toBe(2);
    expect((await call("DELETE", at("ann"))).body).toEqual({ position: 3 });
    for (const method of ["GET", "DELETE"]) {
      expect((await call(method, at("ann"))).body.code).toBe("consumer-not-found");
    }
    const entries = await audited(running);
    expect(entries).toMatchObject([
      { action: "delete-consumer", subject: "ann", before: own },
      { action: "put-consumer", subject: "ann", before: { plan: "free" }, after: own },
      { action: "put-consumer", subject: "ann", after: { plan: "free" } },
    ]);
  });

  it("is tried out by a dry run, which stores nothing", async () => {
    const running = await start();
    const dry = await running.call("PUT", `${at("ann")}?dryRun=true`, { body: { plan: "free" } });
    expect([dry.status, dry.body]).toMatchObject([200, { id: "ann", plan: "free", dryRun: true }]);
    expect(await idsOf(running)).toEqual([]);
    expect(await audited(running)).toEqual([]);
    expect((await running.call("PUT", at("ann"), { body: { plan: "free" } })).body.position).toBe(1);
  });

  it("has an ETag: it is changed and deleted only if it is still what the sender saw, and added only if there is none", async () => {
    const running = await start();
    const { call } = running;
    const ifMatch = (etag: string) => ({ headers: { "if-match": etag } });
    const ifNone = { headers: { "if-none-match": "*" } };
    const absent = await call("PUT", at("ann"), { body: { plan: "free" }, ...ifMatch("*") });
    expect([absent.status, absent.body.code, absent.headers.get("etag")]).toEqual([412, "precondition-failed", null]);
    expect((await call("DELETE", at("ann"), ifMatch("*"))).body.code).toBe("consumer-not-found");
    expect(await idsOf(running)).toEqual([]);
    const added = await call("PUT", at("ann"), { body: { plan: "free" }, ...ifNone });
    expect([added.status, added.headers.get("etag")]).toEqual([201, '"1"']);
    const again = await call("PUT", at("ann"), { body: { plan: "max" }, ...ifNone });
    expect([again.status, again.body.etag, again.headers.get("etag")]).toEqual([412, '"1"', '"1"']);
    const changed = await call("PUT", at("ann"), { body: { plan: "pro" }, ...ifMatch('"1"') });
    expect([changed.status, changed.headers.get("etag")]).toEqual([200, '"2"']);
    // Terms that are there already are no change, but the sender must have seen them, too.
    for (const plan of ["max", "pro"]) {
      const late = await call("PUT", at("ann"), { body: { plan }, ...ifMatch('"1"') });
      expect([late.status, late.body.etag, late.headers.get("etag")]).toEqual([412, '"2"', '"2"']);
    }
    expect((await call("PUT", `${at("ann")}?dryRun=true`, { body: { plan: "max" }, ...ifMatch('"1"') })).status).toBe(
      412,
    );
    const dry = await call("PUT", `${at("ann")}?dryRun=true`, { body: { plan: "max" }, ...ifMatch('"2"') });
    expect([dry.status, dry.headers.get("etag")]).toEqual([200, null]);
    const lateDelete = await call("DELETE", at("ann"), ifMatch('"1"'));
    expect([lateDelete.status, lateDelete.body.etag]).toEqual([412, '"2"']);
    const read = await call("GET", at("ann"));
    expect([read.body.plan, read.body.etag, read.headers.get("etag")]).toEqual(["pro", '"2"', '"2"']);
    expect((await call("GET", consumers)).body.consumers).toMatchObject([{ id: "ann", etag: '"2"' }]);
    expect((await call("GET", at("ann"), { headers: { "if-none-match": '"2"' } })).status).toBe(304);
    expect((await call("GET", at("ann"), { headers: { "if-none-match": '"1"' } })).status).toBe(200);
    expect((await call("DELETE", at("ann"), ifMatch('"2"'))).status).toBe(200);
    // One that comes back is another one than was deleted.
    expect((await call("PUT", at("ann"), { body: { plan: "pro" }, ...ifMatch('"2"') })).status).toBe(412);
    await load(running, lines({ id: "ann", plan: "pro" }));
    expect((await call("DELETE", at("ann"), ifMatch('"2"'))).body.etag).toBe('"4"');
    expect((await audited(running)).map(({ action }: { action: string }) => action)).toEqual([
      "delete-consumer",
      "put-consumer",
      "put-consumer",
    ]);
  });

  it("has an id of any printable text, which is another one if any of its bytes is", async () => {
    const running = await start();
    const ids = ["a", "A", "a b", "á", "a\u0301", "a/b?c=d", "a%2Fb", "日本", "😀", "ß", "ss", "x".repeat(256)];
    for (const id of ids) expect((await running.call("PUT", at(id), { body: { plan: "pro" } })).status).toBe(201);
    expect((await idsOf(running)).sort()).toEqual([...ids].sort());
    expect((await running.call("DELETE", at("a b"))).status).toBe(200);
    expect((await running.call("GET", at("a"))).body.id).toBe("a");
    const { used } = (await running.call("GET", "/apps/shop")).body;
    expect(used.consumers).toBe(ids.length - 1);
  });

  it.each([
    ["an id of 257 bytes", at("é".repeat(129)), { plan: "pro" }, "consumer"],
    ["an id with a blank before it, which gateways remove", at(" ann"), { plan: "pro" }, "consumer"],
    ["an id with a blank behind it", at("ann\u3000"), { plan: "pro" }, "consumer"],
    ["no plan", at("ann"), {}, "plan"],
    ["a plan that is no name", at("ann"), { plan: "Pro!" }, "plan"],
    ["a field that there is not", at("ann"), { plan: "pro", note: "x" }, "note"],
    ["overrides that are no limits", at("ann"), { plan: "pro", overrides: { books: [{ quota: 0 }] } }, "overrides"],
    [
      "a limit that no policy could have",
      at("ann"),
      { plan: "pro", overrides: { books: [{ name: "x", algorithm: "fixed-window", quota: 1 }] } },
      "overrides.books[0].window",
    ],
    [
      "limits of more than 4,096 bytes",
      at("ann"),
      {
        plan: "pro",
        overrides: Object.fromEntries(
          Array.from({ length: 32 }, (_, i) => [
            `p${i}`,
            [...burst(1), ...burst(2).map((one) => ({ ...one, name: "other" }))],
          ]),
        ),
      },
      "overrides",
    ],
  ])("is refused with %s, and the error names the place", async (_, path, body, place) => {
    const { call } = await start();
    const answer = await call("PUT", path, { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-request"]);
    expect(answer.body.errors[0].path.startsWith(place), answer.body.detail).toBe(true);
  });

  it("counts towards the app's bound, and goes with its app", async () => {
    const running = await start();
    const { call } = running;
    await call("PUT", "/apps/shop", { body: { bounds: { consumers: 1 } } });
    await call("PUT", at("ann"), { body: { plan: "pro" } });
    const { status, body } = await call("PUT", at("bob"), { body: { plan: "pro" } });
    expect([status, body.code]).toEqual([409, "bound-exceeded"]);
    expect(body.bounds).toEqual([{ bound: "consumers", of: "app", used: 1, allowed: 1, wanted: 1 }]);
    expect((await call("PUT", at("ann"), { body: { plan: "free" } })).status).toBe(200);
    expect((await call("DELETE", "/apps/shop/policies/books")).status).toBe(200);
    expect((await call("DELETE", "/apps/shop")).status).toBe(200);
    expect((await call("GET", at("ann"))).body.code).toBe("app-not-found");
    await call("PUT", "/apps/shop", { body: { realm: {} } });
    expect(await idsOf(running)).toEqual([]);
    expect((await call("GET", "/apps/shop")).body.used.consumers).toBe(0);
  });

  it("is found by the beginning of its id, in which no character stands for others, and by its plan", async () => {
    const running = await start();
    await load(
      running,
      lines(
        { id: "a%1", plan: "pro" },
        { id: "a%2", plan: "free" },
        { id: "ab1", plan: "pro" },
        { id: "b", plan: "pro" },
        { id: "b2", plan: "pro" },
      ),
    );
    expect(await idsOf(running)).toEqual(["a%1", "a%2", "ab1", "b", "b2"]);
    expect(await idsOf(running, "&prefix=a%25")).toEqual(["a%1", "a%2"]);
    expect(await idsOf(running, "&prefix=a_")).toEqual([]);
    expect(await idsOf(running, "&plan=pro")).toEqual(["a%1", "ab1", "b", "b2"]);
    expect(await idsOf(running, "&plan=pro&prefix=b")).toEqual(["b", "b2"]);
    expect((await running.call("GET", `${consumers}?limit=1`)).body.count).toBe(5);
    // A plan with a space at its end is another one.
    for (const plan of ["pro%20", "PRO", "pr%C3%B3"])
      expect([plan, await idsOf(running, `&plan=${plan}`)]).toEqual([plan, []]);
    expect(await idsOf(running, "&prefix=b%20")).toEqual([]);
  });

  it("has no blanks around its id, of which gateways know more than JavaScript", async () => {
    const running = await start();
    for (const blank of [" ", "\u00a0", "\u00ad", "\u180e", "\u200b", "\u2060", "\u2800", "\u3164", "\u{e0020}"]) {
      for (const id of [`ann${blank}`, `${blank}ann`]) {
        const put = await running.call("PUT", at(id), { body: { plan: "pro" } });
        expect([id, put.status, put.body.code]).toEqual([id, 400, "invalid-request"]);
        const { status, body } = await load(running, lines({ id, plan: "pro" }));
        expect([id, status, body.code]).toEqual([id, 400, "invalid-consumers"]);
        // GET and DELETE take every id: an earlier version may have stored it.
        for (const method of ["GET", "DELETE"]) expect((await running.call(method, at(id))).status).toBe(404);
      }
    }
    const within = await running.call("PUT", at("an\u200bn"), { body: { plan: "pro" } });
    expect(within.status).toBe(201);
  });

  it("is not named . or .., which clients resolve in URLs, in a file neither", async () => {
    const running = await start();
    for (const id of [".", ".."]) {
      const { status, body } = await load(running, lines({ id, plan: "pro" }));
      expect([status, body.code]).toEqual([400, "invalid-consumers"]);
      expect(body.errors).toEqual([
        {
          line: 1,
          path: "id",
          expected: '1 to 256 bytes without control characters and without blanks around it, and neither "." nor ".."',
          got: JSON.stringify(id),
        },
      ]);
      // Node's client resolves it, this one does not.
      const answer = await askAsItIs(running, `${consumers}/${id.replaceAll(".", "%2e")}`);
      expect([id, answer.status, answer.code]).toEqual([id, 400, "invalid-request"]);
    }
    expect((await load(running, lines({ id: "...", plan: "pro" }, { id: ".a", plan: "pro" }))).status).toBe(200);
    expect((await running.call("GET", at("..."))).body.id).toBe("...");
  });
});

describe("an import", () => {
  it("creates, changes and leaves as they are, and with replace deletes the others; it is one entry of the audit trail", async () => {
    const running = await start();
    const first = await load(
      running,
      lines({ id: "a", plan: "free" }, { id: "b", plan: "free" }, { id: "c", plan: "pro" }),
    );
    expect([first.status, first.body]).toEqual([
      200,
      { done: 3, of: 3, created: 3, changed: 0, unchanged: 0, deleted: 0, position: 3 },
    ]);
    const second = await load(
      running,
      lines({ id: "a", plan: "free" }, { id: "c", plan: "free" }, { id: "d", plan: "pro" }),
      "?replace=true",
    );
    expect(second.body).toEqual({ done: 3, of: 3, created: 1, changed: 1, unchanged: 1, deleted: 1, position: 6 });
    expect(await idsOf(running)).toEqual(["a", "c", "d"]);
    // One that was deleted comes back.
    expect((await load(running, lines({ id: "b", plan: "pro" }))).body).toMatchObject({ created: 1, position: 7 });
    expect((await running.call("GET", "/apps/shop")).body.used.consumers).toBe(4);
    const { entries } = (await running.call("GET", "/audit?app=shop&action=import-consumers")).body;
    expect(entries.map(({ after }: { after: object }) => after)).toEqual([
      { lines: 1, of: 1, created: 1, changed: 0, unchanged: 0, deleted: 0 },
      { lines: 3, of: 3, created: 1, changed: 1, unchanged: 1, deleted: 1 },
      { lines: 3, of: 3, created: 3, changed: 0, unchanged: 0, deleted: 0 },
    ]);
  });

  it("stores nothing if a line is wrong, and names each such line", async () => {
    const running = await start();
    const text = `${lines({ id: "a", plan: "free" })}\n{"id":"b"}\n{"id":"a","plan":"pro"}\n{"id":"c","plan":"X"}\nnonsense\n`;
    const { status, body } = await load(running, text);
    expect([status, body.code]).toEqual([400, "malformed-body"]);
    expect(body.errors.map(({ line, path }: { line: number; path: string }) => [line, path])).toEqual([
      [3, "plan"],
      [4, "id"],
      [5, "plan"],
      [6, ""],
    ]);
    expect(await idsOf(running)).toEqual([]);
    expect((await load(running, lines({ id: "x", plan: "NO" }))).body.code).toBe("invalid-consumers");
  });

  it("refuses ids that no request could match, or no URL could name", async () => {
    const running = await start();
    const ids = [" a", "a\u00a0", ".", ".."];
    const { body } = await load(running, lines(...ids.map((id) => ({ id, plan: "free" }))));
    expect(body.errors.map(({ line, path }: { line: number; path: string }) => [line, path])).toEqual(
      ids.map((_, i) => [i + 1, "id"]),
    );
    const others = ["a b", "...", ".a"].map((id) => ({ id, plan: "free" }));
    expect((await load(running, lines(...others))).body).toMatchObject({ created: others.length });
  });

  it("deletes all only if that is meant", async () => {
    const running = await start();
    await load(running, lines({ id: "a", plan: "free" }));
    expect((await load(running, "", "?replace=true")).body.code).toBe("malformed-body");
    expect(await idsOf(running)).toEqual(["a"]);
    expect((await load(running, "", "?replace=true&allowEmpty=true")).body).toMatchObject({ of: 0, deleted: 1 });
    expect(await idsOf(running)).toEqual([]);
  });

  it("stops at the app's bound, and says so", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop", { body: { bounds: { consumers: 2 } } });
    const three = lines({ id: "a", plan: "free" }, { id: "b", plan: "free" }, { id: "c", plan: "free" });
    expect((await load(running, three)).body.code).toBe("bound-exceeded");
    expect(await idsOf(running)).toEqual([]);
  });

  it("says with progress how far it is, line by line, and is the same in the end", async () => {
    const running = await start();
    const many = Array.from({ length: 1_201 }, (_, i) => ({ id: `c${i}`, plan: i % 2 === 0 ? "pro" : "free" }));
    const response = await fetch(`${running.url}/api/v1${consumers}?progress=true&wait=1s`, {
      method: "PUT",
      body: lines(...many),
      headers: { "content-type": "application/jsonl", authorization: "Bearer test-admin-token-0123456789" },
    });
    expect(response.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
    const told = (await response.text())
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(told.at(-1)).toEqual({
      done: 1_201,
      of: 1_201,
      created: 1_201,
      changed: 0,
      unchanged: 0,
      deleted: 0,
      position: 1_201,
      applied: { gateways: 0, acked: 0 },
    });
    expect((await running.call("GET", `${consumers}?limit=1`)).body.count).toBe(1_201);
  });

  it("lets others be served meanwhile", async () => {
    const running = await start();
    const many = Array.from({ length: 20_000 }, (_, i) => ({ id: `c${i}`, plan: "pro" }));
    let isOver = false;
    const loading = load(running, lines(...many)).finally(() => {
      isOver = true;
    });
    const waits: number[] = [];
    while (!isOver) {
      const beganMs = performance.now();
      await running.call("GET", "/apps/shop");
      waits.push(performance.now() - beganMs);
    }
    expect((await loading).body).toMatchObject({ created: 20_000 });
    expect(waits.length).toBeGreaterThan(5);
  });
});

describe("a gateway", () => {
  it("hears how many consumers every app has, and then how many the apps have that change", async () => {
    const running = await start();
    await running.call("PUT", "/apps/crm", { body: { realm: {} } });
    await running.call("PUT", "/apps/crm/consumers/ann", { body: { plan: "pro" } });
    await load(running, lines(...["a", "b", "c"].map((id) => ({ id, plan: "pro" }))));
    const connect = (id: string, held: { epoch: string; position: number }) =>
      connectGateway(running, id, {
        epoch: "",
        revision: 0,
        protocol: 3,
        consumers: { ...held, count: 0, unstored: 0 },
      });
    const gateway = await connect("one", { epoch: "", position: 0 });
    const next = async (from = gateway) => (await from.next("consumers" as never)) as unknown as ConsumersHead;
    const answer = ({ epoch, to }: ConsumersHead) =>
      gateway.say({ type: "consumers", epoch, position: to, count: 0, unstored: 0 });
    const first = await next();
    expect(first).toMatchObject({ counts: { shop: 3, crm: 1 }, all: true, more: false });
    answer(first);
    await load(running, lines({ id: "d", plan: "pro" }, { id: "e", plan: "pro" }));
    const second = await next();
    expect([second.counts, second.all]).toEqual([{ shop: 5 }, undefined]);
    answer(second);
    await running.call("DELETE", "/apps/crm/consumers/ann");
    const third = await next();
    expect(third.counts).toEqual({ crm: 0 });
    // One that comes back with everything lacks no change, but does not know how many there are.
    const back = await connect("two", { epoch: third.epoch, position: third.to });
    expect(await next(back)).toMatchObject({ from: 7, to: 7, counts: { shop: 5 }, all: true });
  });
});

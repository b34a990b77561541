// Many policies in one body: all of them are stored or none, and the answer says what changed, or what is wrong on which line.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  adminToken,
  type CallOptions,
  perSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

const policies = "/apps/shop/policies";
const jsonl = "application/jsonl";

async function start(environment: Record<string, string> = {}): Promise<Running> {
  const running = await startControlPlane(environment);
  await running.call("PUT", "/apps/shop", { body: { realm: {} } });
  return running;
}

const named = (name: string, quota = 1) => ({ name, ...perSecond(quota) });
const lines = (...documents: readonly object[]) => documents.map((one) => `${JSON.stringify(one)}\n`).join("");

function put({ call }: Running, text: string, query = "", options: CallOptions = {}): Promise<Answer> {
  return call("PUT", `${policies}${query}`, { text, type: jsonl, ...options });
}

async function stored({ call }: Running): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (let after = ""; ; ) {
    const { body } = await call("GET", `${policies}?limit=1000&after=${after}`);
    for (const { name, document } of body.policies) found[name] = document;
    if (body.next === undefined) return found;
    after = body.next;
  }
}

const newest = async ({ call }: Running) => (await call("GET", "/revisions")).body.revisions;
const usedBy = async ({ call }: Running) => (await call("GET", "/apps/shop")).body.used;

describe("a PUT of many policies", () => {
  it("creates, changes and leaves as they are, in one revision, and says how many", async () => {
    const running = await start();
    await running.call("PUT", `${policies}/same`, { body: perSecond(1) });
    await running.call("PUT", `${policies}/other`, { body: perSecond(1) });
    await running.call("PUT", `${policies}/old`, { body: perSecond(1) });
    const answer = await put(running, lines(named("new", 3), named("same"), named("old", 2)));
    expect(answer.body).toEqual({ revision: 5, created: 1, changed: 1, unchanged: 1, deleted: 0 });
    expect([answer.status, answer.headers.get("etag")]).toEqual([200, '"5"']);
    expect(await stored(running)).toEqual({
      new: named("new", 3),
      same: named("same"),
      old: named("old", 2),
      other: named("other"),
    });
    const [entry] = await newest(running);
    expect(entry).toMatchObject({ n: 5, action: "put-policies", app: "shop", subject: "1 created, 1 changed" });
    expect(entry.summary).toBe("put policies of shop (1 created, 1 changed)");
    const { before, after } = (await running.call("GET", "/revisions/5")).body;
    expect(before).toEqual({ policy: { new: null, old: named("old") } });
    expect(after).toEqual({ policy: { new: named("new", 3), old: named("old", 2) } });
    expect(await put(running, lines(named("same")), "?wait=0s")).toMatchObject({ body: { revision: 5, unchanged: 1 } });
    expect(await newest(running)).toHaveLength(5);
  });

  it("takes YAML documents, each with its marker or not, and JSON lines with empty lines", async () => {
    const running = await start();
    const limits = "limits: [{ algorithm: fixed-window, quota: 1, window: 1s }]";
    const yaml = `# all of them\n---\nname: a\n${limits}\n---\n# nothing\n---\nname: b\n${limits}\n...\n`;
    const type = "application/yaml";
    expect((await put(running, yaml, "", { type })).body).toMatchObject({ created: 2 });
    expect((await put(running, `\n\n${lines(named("c"))}\n  \r\n${JSON.stringify(named("d"))}`)).body).toMatchObject({
      created: 2,
    });
    expect(Object.keys(await stored(running))).toEqual(["a", "b", "c", "d"]);
  });

  it("with prune deletes what is not in the body, with the bans of its keys, and its room is free again", async () => {
    const running = await start();
    const keyed = (name: string) => ({ ...named(name), key: ["header:x-user"] });
    await put(running, lines(keyed("a"), keyed("b"), named("c")));
    const used = await usedBy(running);
    await put(running, lines(keyed("d"), keyed("e")));
    for (const policy of ["a", "d", "e"]) {
      await running.call("POST", "/apps/shop/bans", { body: { policy, key: ["eve"], for: "1h" } });
    }
    const { body } = await put(running, lines(keyed("a"), keyed("b"), named("c", 2)), "?prune=true");
    expect(body).toMatchObject({ created: 0, changed: 1, unchanged: 2, deleted: 2 });
    expect(Object.keys(await stored(running))).toEqual(["a", "b", "c"]);
    expect(await usedBy(running)).toMatchObject({ policies: used.policies, bytes: used.bytes, steps: 0, bans: 1 });
    const [last, deleted] = await newest(running);
    expect([last.action, deleted.action, deleted.subject]).toEqual(["put-policies", "delete-policies", "2 deleted"]);
    expect(last.n).toBe(body.revision);
    expect((await running.call("GET", `/revisions/${deleted.n}`)).body.after).toBeNull();
  });

  it("without any policy is refused, and deletes all only if it says so twice", async () => {
    const running = await start();
    await put(running, lines(named("a")));
    for (const query of ["", "?prune=true", "?allowEmpty=true"]) {
      const { status, body } = await put(running, "\n\n", query);
      expect([query, status, body.code]).toEqual([query, 400, "malformed-body"]);
      expect(body.detail).toContain("?prune=true&allowEmpty=true");
    }
    expect((await put(running, "", "?prune=true&allowEmpty=true")).body).toMatchObject({ deleted: 1 });
    expect(await stored(running)).toEqual({});
  });

  it("says every fault with its line, and stores nothing", async () => {
    const running = await start();
    const text = [
      lines(named("good")),
      "\n",
      "{\n",
      lines({ ...named("bad"), limits: [] }),
      lines(perSecond(1)),
      lines(named("good", 2)),
      "[]\n",
      '{"name":"x","name":"y"}\n',
    ].join("");
    const { status, body } = await put(running, text);
    expect([status, body.code]).toEqual([400, "malformed-body"]);
    expect(body.detail).toBe("6 errors in the body, the first on line 3. Nothing was stored.");
    expect(body.errors.map(({ line, policy, path }: Record<string, unknown>) => [line, policy, path])).toEqual([
      [3, undefined, ""],
      [4, "bad", "limits"],
      [5, undefined, "name"],
      [6, "good", "name"],
      [7, undefined, ""],
      [8, undefined, ""],
    ]);
    expect(body.errors[3]).toMatchObject({ expected: "a name that comes once, and line 1 has it too", got: '"good"' });
    expect(body.errors[5].got).toBe('the key "name" comes twice in one object');
    expect(await stored(running)).toEqual({});
    expect((await put(running, lines(named("good"), { ...named("bad"), limits: [] }))).body).toMatchObject({
      code: "invalid-policy",
      detail: '1 error in the body, the first on line 2 (policy "bad"). Nothing was stored.',
    });
  });

  it("says the line of the fault in YAML, also of what follows a document that cannot be read", async () => {
    const running = await start();
    const text = "name: a\nlimits: []\n---\nname: b\nlimits: !!set {}\n---\nlimits: [\n---\n*a\n";
    const { body } = await put(running, text, "", { type: "application/yaml" });
    const found = body.errors.map(({ line, got }: { line: number; got: string }) => `${line}: ${got}`);
    expect(found[0]).toMatch(/^1: /);
    expect(found[1]).toMatch(/^5: line 5: tags are not read/);
    expect(found[2]).toMatch(/^7: line 7: /);
    expect(found[3]).toMatch(/^9: line 9: nothing before it is called &a/);
  });

  it("lists a hundred errors at most, and counts the others", async () => {
    const running = await start();
    const { body } = await put(running, "{\n".repeat(130));
    expect(body.errors).toHaveLength(101);
    expect(body.errors[100].got).toBe("30 more");
    expect(body.detail).toMatch(/^130 errors/);
  });

  it("with more policies than the app may have stops there, and stores nothing", async () => {
    const running = await start();
    const all = (count: number) => lines(...Array.from({ length: count }, (_, i) => named(`p${i}`)));
    const { status, body } = await put(running, all(1_001));
    expect([status, body.code, body.errors[0].line]).toEqual([409, "bound-exceeded", 1_001]);
    await running.call("PUT", "/apps/shop", { body: { bounds: { policies: 3 } } });
    await put(running, all(2));
    // Each of both bodies has few enough, but not together with what is stored.
    const more = await put(running, lines(named("x"), named("y")));
    expect(more.body).toMatchObject({ code: "bound-exceeded", bounds: [{ bound: "policies", used: 2, wanted: 2 }] });
    expect((await put(running, lines(named("x"), named("y")), "?prune=true")).body).toMatchObject({ deleted: 2 });
  });

  it("says in a dry run what would change, and changes nothing", async () => {
    const running = await start();
    await put(running, lines(named("a"), named("b")));
    const before = await newest(running);
    const { body } = await put(running, lines(named("a", 2), named("c")), "?prune=true&dryRun=true");
    expect(body).toMatchObject({ dryRun: true, created: 1, changed: 1, deleted: 1, gateways: [] });
    const changes = body.changes.map(({ name, change }: Record<string, unknown>) => `${name} ${change}`);
    expect(changes).toEqual(["b deleted", "a updated", "c created"]);
    expect([await newest(running), Object.keys(await stored(running))]).toEqual([before, ["a", "b"]]);
  });

  it("is carried out only on the version of the app that If-Match names", async () => {
    const running = await start();
    const first = await put(running, lines(named("a")), "", { headers: { "if-none-match": "*" } });
    const etag = first.headers.get("etag") as string;
    expect(await put(running, lines(named("b")), "", { headers: { "if-none-match": "*" } })).toMatchObject({
      status: 412,
    });
    await running.call("PUT", `${policies}/b`, { body: perSecond(1) });
    await running.call("DELETE", `${policies}/b`);
    const late = await put(running, lines(named("c")), "", { headers: { "if-match": etag } });
    expect([late.status, late.body.etag]).toEqual([412, '"4"']);
    expect((await put(running, lines(named("c")), "", { headers: { "if-match": late.body.etag } })).status).toBe(200);
  });

  it("reaches gateways as one delta, in which only what was deleted is gone", async () => {
    const running = await start();
    await put(running, lines(named("a"), named("b")));
    const gateway = await connectGateway(running, "g", { epoch: "", revision: 0, protocol: 2 });
    gateway.apply(await gateway.next("snapshot"));
    const answer = put(running, lines(named("a", 2), named("c")), "?prune=true&wait=30s");
    const delta = await gateway.next("delta");
    expect(delta.policies.map(({ document }) => (document as { name: string }).name).sort()).toEqual(["a", "c"]);
    expect(delta.gone).toEqual([{ app: "shop", policy: "b" }]);
    gateway.apply(delta);
    expect((await answer).body).toMatchObject({
      revision: delta.revision,
      deleted: 1,
      applied: { gateways: 1, acked: 1, refused: 0 },
    });
    expect(gateway.received.filter(({ type }) => type === "delta")).toHaveLength(1);
  });

  it("takes no other type", async () => {
    const running = await start();
    const { status, body } = await put(running, "{}", "", { type: "application/json" });
    expect([status, body.code]).toEqual([415, "unsupported-media-type"]);
    expect(body.detail).toContain("expected application/jsonl or application/x-ndjson or application/yaml");
  });

  it("of templates' users is validated again if a template changes while the body arrives", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop/templates/polite", { body: { onLimit: { status: 503 } } });
    const document = { ...named("a"), onLimit: { template: "polite" } };
    const { answer, go } = putSlowly(running, lines(document), lines(named("b")));
    // While the body is on its way, others change what they want.
    expect((await running.call("PUT", `${policies}/c`, { body: perSecond(1) })).status).toBe(201);
    await sleep(partComesMs);
    expect((await running.call("DELETE", "/apps/shop/templates/polite")).status).toBe(200);
    go();
    const refused = await answer;
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      code: "invalid-policy",
      errors: [{ line: 1, policy: "a", path: "onLimit.template" }],
    });
    expect(Object.keys(await stored(running))).toEqual(["c"]);
  });

  it("with more bytes than the app may have stops there, while the rest of the body is still to come", async () => {
    const running = await start();
    await running.call("PUT", "/apps/shop", { body: { bounds: { bytes: 350 } } });
    const { answer } = putSlowly(running, lines(...["a", "b", "c", "d", "e", "f"].map((name) => named(name))), "");
    const refused = await answer;
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({
      code: "bound-exceeded",
      errors: [{ line: 5, path: "bounds.bytes", expected: 'at most 350 of the app "shop"', got: "more in the body" }],
    });
    expect(await stored(running)).toEqual({});
  });

  it("may have as many bytes as the app uses, if an admin allowed less later", async () => {
    const running = await start();
    const all = ["a", "b", "c", "d", "e", "f"].map((name) => named(name));
    await put(running, lines(...all));
    await running.call("PUT", "/apps/shop", { body: { bounds: { bytes: 350 } } });
    expect((await put(running, lines(...all.map((one) => ({ ...one, ...perSecond(2) }))))).body).toMatchObject({
      changed: 6,
    });
    expect((await put(running, lines(...all, named("g")))).body).toMatchObject({
      code: "bound-exceeded",
      errors: [{ line: 7 }],
    });
  });

  it("is validated again while others change the database, and is refused if a template has changed twice", async () => {
    const running = await start();
    const template = (status: number) =>
      running.call("PUT", "/apps/shop/templates/polite", { body: { onLimit: { status } } });
    await template(400);
    const overrides = Array.from({ length: 500 }, (_, i) => ({ ...perSecond(1_000 + i), key: [`key ${i}`] }));
    const large = Array.from({ length: 30 }, (_, i) => ({ ...named(`p${i}`), key: ["header:x-user"], overrides }));
    const text = lines({ ...named("a"), onLimit: { template: "polite" } }, ...large);
    const { answer, go } = putSlowly(running, text, lines(named("b")));
    await sleep(partComesMs);
    await template(401);
    go();
    let isOver = false;
    const ended = answer.finally(() => {
      isOver = true;
    });
    for (let n = 0; !isOver; n++) expect((await template(402 + (n % 100))).status).toBe(200);
    const refused = await ended;
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([409, "1"]);
    expect(await refused.json()).toMatchObject({ code: "app-changing" });
    expect(await stored(running)).toEqual({});
    const again = putSlowly(running, text, lines(named("b")));
    await sleep(partComesMs);
    await template(503);
    again.go();
    expect(await (await again.answer).json()).toMatchObject({ created: 32 });
  });

  it("stores nothing if its sender loses the right while the body arrives", async () => {
    const running = await start();
    const { body: editor } = await running.call("POST", "/tokens", {
      body: { name: "x", app: "shop", role: "editor" },
    });
    const { answer, go } = putSlowly(running, lines(named("a")), lines(named("b")), editor.token);
    await sleep(partComesMs);
    expect((await running.call("DELETE", `/tokens/${editor.id}`)).status).toBe(200);
    go();
    expect((await answer).status).toBe(401);
    expect(await stored(running)).toEqual({});
  });
});

/**
 * Within this time the first part of a body is read. If a busy machine reads it later, it is compared with what is so by then, and the
 * answer is the same.
 */
const partComesMs = 200;

/** Sends the second part of the body when `go` is called. */
function putSlowly({ url }: Running, first: string, second: string, token = adminToken) {
  let go: () => void = () => undefined;
  const mayGo = new Promise<void>((resolve) => {
    go = resolve;
  });
  async function* body() {
    yield Buffer.from(first);
    await mayGo;
    yield Buffer.from(second);
  }
  const answer = fetch(`${url}/api/v1${policies}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": jsonl },
    body: ReadableStream.from(body()),
    duplex: "half",
  } as RequestInit);
  return { answer, go };
}

describe("thousands of policies in one body", () => {
  const many = (count: number, quota: number) =>
    Array.from({ length: count }, (_, i) => ({ ...named(`p${i}`, quota), description: "x".repeat(1_000) }));

  it("are a few revisions of bounded size, which can be compared and rolled back", async () => {
    const running = await start();
    const { call } = running;
    await call("PUT", "/apps/shop", { body: { bounds: { policies: 3_000, bytes: 10_000_000 } } });
    const count = 1_800;
    const created = (await put(running, lines(...many(count, 1)))).body;
    expect(created.created).toBe(count);
    const used = await usedBy(running);
    const changed = (await put(running, lines(...many(count, 2)))).body;
    const { revision } = (await put(running, lines(named("only")), "?prune=true")).body;
    const rows = await running.app.database.selectFrom("revisions").selectAll().orderBy("number").execute();
    const sizes = rows.map(({ before, after }) => (before ?? "").length + (after ?? "").length);
    expect(Math.max(...sizes)).toBeLessThan(1_100_000);
    expect(rows.map(({ number }) => Number(number))).toEqual(Array.from({ length: revision }, (_, i) => i + 1));
    expect(rows.filter(({ action }) => action === "put-policies").length).toBeGreaterThan(7);
    const { changes } = (await call("GET", `/revisions/${created.revision}/diff/${changed.revision}`)).body;
    expect(changes).toHaveLength(count);
    expect(changes[0].patch).toEqual([{ op: "replace", path: "/limits/0/quota", value: 2 }]);
    const back = await call("POST", `/revisions/${created.revision}/rollback`, { body: { app: "shop" } });
    expect(back.body.changes).toHaveLength(count + 1);
    const { bytes, policies: left } = await usedBy(running);
    expect({ bytes, left }).toEqual({ bytes: used.bytes, left: count });
    const [last, former] = await newest(running);
    expect([last.action, former.action, last.n]).toEqual(["roll-back", "roll-back", back.body.revision]);
    expect((await call("GET", `${policies}/p7`)).body.limits[0].quota).toBe(1);
  });
});

// Who may not change an app sees no credentials of its clients: neither as ids of consumers nor as values of bans, and cannot find them by
// guesses. Who may change it sees them.

import { describe, expect, it } from "vitest";
import { digestKeyOf, hidden } from "../../../control-plane/src/activity/shown-keys.ts";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const nowMs = 1_800_000_000_000;
const daily = (quota: number) => [{ name: "daily", algorithm: "fixed-window", quota, window: "1d" }];
const ofConsumers = {
  onMissingKey: "deny",
  plans: { free: daily(1), gold: daily(2) },
  planBy: "consumer",
  defaultPlan: "free",
};
const byCredential = { ...ofConsumers, key: ["header:x-api-key"] };
const bySubject = { ...ofConsumers, key: ["jwt:sub"] };
const consumers = "/apps/shop/consumers";
const ids = ["key-1-of-ann", "key-2-of-bob", "key-3-of-cid"];
const [ofAnn = ""] = ids;

interface World extends Running {
  readonly viewer: string;
  readonly editor: string;
  put(name: string, policy: object): Promise<void>;
}

async function start(): Promise<World> {
  const running = await startControlPlane({}, { now: () => nowMs });
  const { call } = running;
  await call("PUT", "/apps/shop", { body: { realm: {} } });
  const tokenOf = async (role: string): Promise<string> =>
    (await call("POST", "/tokens", { body: { name: role, app: "shop", role } })).body.token;
  const put = async (name: string, policy: object) => {
    const { status } = await call("PUT", `/apps/shop/policies/${name}`, { body: policy });
    expect([200, 201]).toContain(status);
  };
  return { ...running, viewer: await tokenOf("viewer"), editor: await tokenOf("editor"), put };
}

async function startWithConsumers(policy: object): Promise<World> {
  const world = await start();
  await world.put("plans", policy);
  for (const id of ids) await world.call("PUT", `${consumers}/${id}`, { body: { plan: "gold" } });
  return world;
}

/** Returns what the control plane shows in place of a value of the app. */
const hiderOf = ({ app }: Running): ((value: string) => string) => {
  const digestKey = digestKeyOf(app.publisher.state.proofKey, "shop");
  return (value) => hidden(value, digestKey);
};

const idsFor = async ({ call }: World, token: string): Promise<string[]> =>
  (await call("GET", consumers, { token })).body.consumers.map(({ id }: { id: string }) => id);

describe("ids of consumers that may be credentials", () => {
  it("are hidden from viewers alone, in each page and in what leads to the next one", async () => {
    const world = await startWithConsumers(byCredential);
    const { call, viewer, editor } = world;
    const seen: string[] = [];
    let text = "";
    for (let after = "", pages = 0; pages < 5; pages++) {
      const { status, body } = await call("GET", `${consumers}?limit=1&after=${after}`, { token: viewer });
      expect([status, body.count, body.idsHidden]).toEqual([200, 3, true]);
      text += JSON.stringify(body);
      seen.push(...body.consumers.map(({ id }: { id: string }) => id));
      if (body.next === undefined) break;
      after = body.next;
    }
    expect(seen).toEqual(ids.map(hiderOf(world)));
    for (const id of ids) {
      for (const encoding of ["utf8", "base64url", "hex"] as const) {
        expect(text).not.toContain(Buffer.from(id).toString(encoding));
      }
    }
    const { body } = await call("GET", `${consumers}?plan=gold&limit=2`, { token: viewer });
    expect(body.consumers.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2).map(hiderOf(world)));
    const forEditor = (await call("GET", `${consumers}?limit=2`, { token: editor })).body;
    expect([forEditor.next, forEditor.idsHidden]).toEqual([ids[1], undefined]);
    expect(await idsFor(world, editor)).toEqual(ids);
  });

  it("are not found by guesses", async () => {
    const { call, viewer, editor } = await startWithConsumers(byCredential);
    for (const path of [`${consumers}/${ofAnn}`, `${consumers}/nobody`, `${consumers}?prefix=key-1`]) {
      const { status, body } = await call("GET", path, { token: viewer });
      expect([path, status, body.code]).toEqual([path, 403, "forbidden"]);
      expect(body.detail).toContain("may be credentials");
    }
    expect((await call("GET", `${consumers}?after=key-1`, { token: viewer })).body).toMatchObject({
      code: "invalid-request",
      errors: [{ path: "after" }],
    });
    expect((await call("GET", `${consumers}/${ofAnn}`, { token: editor })).body.id).toBe(ofAnn);
    expect((await call("GET", `${consumers}?prefix=key-1`, { token: editor })).body.consumers).toHaveLength(1);
  });

  it("have pages of their own app alone", async () => {
    const { call, viewer } = await startWithConsumers(byCredential);
    await call("PUT", "/apps/other", { body: { realm: {} } });
    await call("PUT", "/apps/other/policies/plans", { body: byCredential });
    const { body } = await call("POST", "/members", {
      body: { name: "eve", roles: { shop: "viewer", other: "viewer" } },
    });
    const { token } = (await call("POST", "/tokens", { body: { name: "e", member: body.name } })).body;
    const { next } = (await call("GET", `${consumers}?limit=1`, { token: viewer })).body;
    expect((await call("GET", `${consumers}?after=${next}`, { token })).body.consumers).toHaveLength(2);
    expect((await call("GET", `/apps/other/consumers?after=${next}`, { token })).status).toBe(400);
  });

  it("are hidden by many policies, a roll-back and what a policy says of its key", async () => {
    const world = await startWithConsumers(bySubject);
    const { call, viewer, put } = world;
    expect(await idsFor(world, viewer)).toEqual(ids);
    const { revision } = (await call("GET", "/apps/shop/policies")).body.policies[0];
    await put("plans", { ...bySubject, key: ["header:x-customer"], secret: { "header:x-customer": true } });
    expect(await idsFor(world, viewer)).toEqual(ids.map(hiderOf(world)));
    for (const id of ids) await call("DELETE", `${consumers}/${id}`);
    await call("POST", `/revisions/${revision}/rollback`, { body: { app: "shop" } });
    for (const id of ids) await call("PUT", `${consumers}/${id}`, { body: { plan: "gold" } });
    expect(await idsFor(world, viewer)).toEqual(ids);
    const text = JSON.stringify({ name: "others", ...byCredential });
    await call("PUT", "/apps/shop/policies", { text, type: "application/jsonl" });
    expect(await idsFor(world, viewer)).toEqual(ids.map(hiderOf(world)));
  });

  it("stay hidden when the policy is gone, until the app has no consumers", async () => {
    const world = await startWithConsumers(byCredential);
    const { call, viewer, put } = world;
    await put("plans", bySubject);
    expect(await idsFor(world, viewer)).toEqual(ids.map(hiderOf(world)));
    await call("DELETE", "/apps/shop/policies/plans");
    expect(await idsFor(world, viewer)).toEqual(ids.map(hiderOf(world)));
    const text = `${JSON.stringify({ id: "ann", plan: "gold" })}\n`;
    await call("PUT", `${consumers}?replace=true`, { text, type: "application/jsonl" });
    expect(await idsFor(world, viewer)).toEqual(["ann"]);
    await put("plans", byCredential);
    expect(await idsFor(world, viewer)).toEqual([hiderOf(world)("ann")]);
  });
});

describe("an app without such keys", () => {
  it.each([
    ["the key is no credential", bySubject],
    ["the policy says that the name misleads", { ...byCredential, secret: { "header:x-api-key": false } }],
    ["another part is the credential", { ...byCredential, key: ["jwt:sub", "header:x-api-key"] }],
    ["the plan is in the key", { ...byCredential, planBy: "header:x-api-key" }],
  ])("shows ids to viewers, because %s", async (_, policy) => {
    const { call, viewer } = await startWithConsumers(policy);
    const { body } = await call("GET", `${consumers}?limit=2`, { token: viewer });
    expect(body.consumers.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2));
    expect([body.next, body.idsHidden]).toEqual([ids[1], undefined]);
    expect((await call("GET", `${consumers}/${ofAnn}`, { token: viewer })).body.id).toBe(ofAnn);
    expect((await call("GET", `${consumers}?prefix=key-1`, { token: viewer })).body.consumers).toHaveLength(1);
  });
});

describe("values of bans that may be credentials", () => {
  const byBoth = { ...onePerSecond, key: ["header:x-api-key", "header:x-user-id"] };
  const ofKey = { policy: "books", key: ["key-1-of-ann", "ann"], for: "1h" };

  /** Makes a ban, and says how to read it in each way. */
  async function ban({ call }: World, body: object) {
    const { status, body: made } = await call("POST", "/apps/shop/bans", { body });
    expect(status).toBe(201);
    return async (token: string): Promise<string[]> => {
      const read = async (path: string) => JSON.stringify((await call("GET", path, { token })).body);
      return [
        await read("/apps/shop/bans"),
        await read(`/apps/shop/bans/${made.id}`),
        await read(`/revisions/${made.revision}`),
        await read(`/revisions/${made.revision - 1}/diff/${made.revision}`),
        await read(`/revisions/${made.revision}/diff/${made.revision - 1}`),
      ];
    };
  }

  it("are hidden from viewers alone, in lists, in the history and in diffs, and others are shown", async () => {
    const world = await start();
    await world.put("books", byBoth);
    const read = await ban(world, ofKey);
    for (const text of await read(world.viewer)) {
      expect(text).not.toContain("key-1-of-ann");
      expect(text).toContain(hiderOf(world)("key-1-of-ann"));
      expect(text).toContain("ann");
    }
    for (const text of await read(world.editor)) expect(text).toContain("key-1-of-ann");
  });

  it("are hidden in patterns, but for the pattern of any value", async () => {
    const world = await start();
    await world.put("books", byBoth);
    const read = await ban(world, { policy: "books", keyPattern: ["key-1*", "*"], for: "1h" });
    for (const text of await read(world.viewer)) expect(text).not.toContain("key-1");
    const any = await ban(world, { policy: "books", keyPattern: ["*", "ann"], for: "1h" });
    const { bans } = JSON.parse((await any(world.viewer))[0] ?? "");
    expect(bans.map(({ keyPattern }: { keyPattern: string[] }) => keyPattern)).toEqual([
      [hiderOf(world)("key-1*"), "*"],
      ["*", "ann"],
    ]);
  });

  it("are hidden by the key that the policy had then, and by what it says of its key later", async () => {
    const world = await start();
    await world.put("books", byBoth);
    const readFormer = await ban(world, ofKey);
    await world.put("books", { ...onePerSecond, key: ["header:x-customer", "header:x-user-id"] });
    for (const text of await readFormer(world.viewer)) expect(text).not.toContain("key-1-of-ann");
    const read = await ban(world, { policy: "books", key: ["number-7", "ann"], for: "1h" });
    for (const text of await read(world.viewer)) expect(text).toContain("number-7");
    const secret = { "header:x-customer": true };
    await world.put("books", { ...onePerSecond, key: ["header:x-customer", "header:x-user-id"], secret });
    for (const text of await read(world.viewer)) expect(text).not.toContain("number-7");
  });

  it("stay hidden in the history when the policy is gone", async () => {
    const world = await start();
    await world.put("books", byBoth);
    const { body: made } = await world.call("POST", "/apps/shop/bans", { body: ofKey });
    await world.call("DELETE", `/apps/shop/bans/${made.id}`);
    await world.call("DELETE", "/apps/shop/policies/books");
    for (const [number, side] of [
      [made.revision, "after"],
      [made.revision + 1, "before"],
    ] as const) {
      const { body } = await world.call("GET", `/revisions/${number}`, { token: world.viewer });
      expect(body[side].key).toEqual([hiderOf(world)("key-1-of-ann"), "ann"]);
    }
  });

  it("are shown if the policy's key has no credential, but for those that look like one", async () => {
    const world = await start();
    await world.put("books", { ...onePerSecond, key: ["header:x-user-id"] });
    const read = await ban(world, { policy: "books", key: ["ann"], for: "1h" });
    for (const text of await read(world.viewer)) expect(text).toContain("ann");
    const url = "https://ann:secret@example.com/";
    const readUrl = await ban(world, { policy: "books", key: [url], for: "1h" });
    for (const text of await readUrl(world.viewer)) expect(text).not.toContain("secret@");
  });
});

describe("the counter of a credential", () => {
  it("is refused to viewers, whose guesses it would answer", async () => {
    const { call, viewer, editor, put } = await startWithConsumers(byCredential);
    await put("books", { ...onePerSecond, key: ["header:x-user-id"] });
    const counter = (policy: string, key: string) => `/apps/shop/counters?policy=${policy}&key=${key}`;
    const { status, body } = await call("GET", counter("plans", ofAnn), { token: viewer });
    expect([status, body.code]).toEqual([403, "forbidden"]);
    expect(body.detail).toContain("may be credentials");
    expect((await call("GET", counter("plans", ofAnn), { token: editor })).status).toBe(200);
    expect((await call("GET", counter("books", "ann"), { token: viewer })).status).toBe(200);
  });
});

describe("a warning", () => {
  it("is of a policy by which ids of consumers are credentials", async () => {
    const { call } = await start();
    const put = async (policy: object) =>
      (await call("PUT", "/apps/shop/policies/plans", { body: policy })).body.warnings;
    expect(await put(byCredential)).toMatchObject([
      { path: "key[0]", expected: expect.stringContaining('"jwt:sub"'), got: expect.stringContaining("x-api-key") },
    ]);
    expect(await put(bySubject)).toBeUndefined();
    expect(await put({ ...byCredential, planBy: "jwt:plan" })).toBeUndefined();
  });
});

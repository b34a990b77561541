// Bounds what one app may take of what all share: a change beyond the bound is refused with what is used and what is allowed,
// and never at another app's cost.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { mostConsumers, mostNetworkBytes } from "../../../control-plane/src/bounds/bounds.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  adminToken,
  onePerSecond,
  perSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";

/** @returns a policy of about so many bytes */
const ofBytes = (bytes: number, paths = "/p") => ({
  ...onePerSecond,
  match: {
    paths: Array.from({ length: Math.ceil(bytes / 1_000) }, (_, i) => `${paths}${i}/${"x".repeat(980)}`),
  },
});
const put = (running: Running, app: string, name: string, body: object) =>
  running.call("PUT", `/apps/${app}/policies/${name}`, { body });
const appOf = async (running: Running, name: string) => (await running.call("GET", `/apps/${name}`)).body;

describe("a policy", () => {
  it("of more than 64 KB, as gateways would get it, is refused with how much there may be, and nothing is stored", async () => {
    const running = await startControlPlane();
    const { status, body } = await put(running, "default", "large", ofBytes(70_000));
    expect([status, body.code]).toEqual([409, "bound-exceeded"]);
    expect(body.bounds).toMatchObject([{ bound: "bytes", of: "policy", used: 0, allowed: 65_536 }]);
    expect(body.errors[0]).toMatchObject({ path: "bounds.bytes", expected: "at most 65536 of one policy" });
    expect((await appOf(running, "default")).used).toMatchObject({ policies: 0, bytes: 0 });
    expect((await put(running, "default", "fits", ofBytes(60_000))).status).toBe(201);
  });

  it("is as large as what its template says makes it, also when the template changes afterwards", async () => {
    const running = await startControlPlane();
    const template = (bytes: number) => ({
      body: { onLimit: { action: "reject", status: 429, body: "x".repeat(bytes) } },
    });
    const templates = "/apps/default/templates/t";
    expect((await running.call("PUT", templates, template(10))).status).toBe(201);
    const uses = { ...ofBytes(60_000), onLimit: { template: "t" } };
    expect((await put(running, "default", "p", uses)).status).toBe(201);
    const { bytes } = (await appOf(running, "default")).used;
    const refused = await running.call("PUT", templates, template(8_000));
    expect([refused.status, refused.body.code]).toEqual([409, "bound-exceeded"]);
    expect((await running.call("PUT", templates, template(1_010))).status).toBe(200);
    expect((await appOf(running, "default")).used.bytes).toBe(bytes + 1_000);
  });

  it("of 1 MB is refused before its content is validated", async () => {
    const running = await startControlPlane();
    const { body } = await put(running, "default", "large", { nonsense: "x".repeat(100_000) });
    expect(body.code).toBe("bound-exceeded");
  });
});

describe("an app", () => {
  it("shows its bounds and its use, which grows and shrinks with its policies, templates, bans and tokens", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    const nothing = await appOf(running, "shop");
    expect(nothing.bounds).toEqual({
      policies: 1_000,
      bytes: 2_097_152,
      steps: 25,
      limits: 4_000,
      kinds: 8_000,
      templates: 200,
      templateBytes: 262_144,
      bans: 10_000,
      banBytes: 2_097_152,
      tokens: 1_000,
      consumers: 100_000,
      networkLists: 100,
      networkBytes: 2_097_152,
    });
    expect(new Set(Object.values(nothing.used))).toEqual(new Set([0]));
    expect(Object.keys(nothing.used).sort()).toEqual(Object.keys(nothing.bounds).sort());

    const document = { ...perSecond(1), match: { paths: ["~^/v[0-9]+$", "~^/ü$", "/exact"] } };
    await put(running, "shop", "a", document);
    await put(running, "shop", "b", perSecond(2));
    const template = { onLimit: { action: "reject", status: 429 } };
    await running.call("PUT", "/apps/shop/templates/t", { body: template });
    const ban = await running.call("POST", "/apps/shop/bans", { body: { cidr: "10.0.0.0/8", for: "1h" } });
    const tokens = [];
    for (const role of ["viewer", "caller"]) {
      tokens.push((await running.call("POST", "/tokens", { body: { name: "x", app: "shop", role } })).body);
    }
    const bytesOf = (value: object) => Buffer.byteLength(JSON.stringify(value));
    const bytes = bytesOf({ name: "a", ...document }) + bytesOf({ name: "b", ...perSecond(2) });
    const templateBytes = bytesOf(template);
    const full = { policies: 2, bytes, steps: 2, templates: 1, templateBytes, bans: 1, tokens: 2 };
    expect((await appOf(running, "shop")).used).toMatchObject(full);
    expect((await running.call("GET", "/apps")).body.apps[1].used).toMatchObject(full);

    await put(running, "shop", "a", perSecond(3));
    await running.call("DELETE", "/apps/shop/policies/a");
    await running.call("DELETE", "/apps/shop/policies/b");
    await running.call("DELETE", "/apps/shop/templates/t");
    await running.call("DELETE", `/apps/shop/bans/${ban.body.id}`);
    for (const { id } of tokens) await running.call("DELETE", `/tokens/${id}`);
    expect((await appOf(running, "shop")).used).toEqual(nothing.used);
  });

  it("has the bounds that an admin of all apps sets, by If-Match, until null removes them", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop", { body: { bounds: { policies: 1 } } });
    expect((await appOf(running, "shop")).bounds).toMatchObject({ policies: 1, bytes: 2_097_152 });
    // A field that is not mentioned stays.
    expect((await running.call("PUT", "/apps/shop", { body: {} })).body).toEqual({ revision: 1 });
    const stale = { body: { bounds: { policies: 5 } }, headers: { "if-match": '"7"' } };
    expect((await running.call("PUT", "/apps/shop", stale)).status).toBe(412);
    const changed = await running.call("PUT", "/apps/shop", { ...stale, headers: { "if-match": '"1"' } });
    expect([changed.status, changed.body.revision, changed.headers.get("etag")]).toEqual([200, 2, '"2"']);
    expect((await running.call("PUT", "/apps/shop", { body: { bounds: null } })).body.revision).toBe(3);
    expect((await appOf(running, "shop")).bounds.policies).toBe(1_000);
    const { revisions } = (await running.call("GET", "/revisions")).body;
    expect(revisions.map(({ action }: { action: string }) => action)).toEqual([
      "update-app",
      "update-app",
      "create-app",
    ]);
    const rows = await running.app.database.selectFrom("revisions").select(["before", "after"]).execute();
    expect(rows).toEqual([
      { before: null, after: '{"bounds":{"policies":1}}' },
      { before: '{"bounds":{"policies":1}}', after: '{"bounds":{"policies":5}}' },
      { before: '{"bounds":{"policies":5}}', after: "{}" },
    ]);
  });

  it.each([
    [{ bounds: { policies: -1 } }, ["bounds.policies"]],
    [{ bounds: { policies: 1.5, bytes: "2" } }, ["bounds.bytes", "bounds.policies"]],
    [{ bounds: { polices: 1 } }, ["bounds.polices"]],
    [{ bounds: [] }, ["bounds"]],
    [{ bounds: 7, owner: "me" }, ["bounds", "owner"]],
    [{ owner: null }, ["owner"]],
    [[], [""]],
  ])("is not changed by %j, and each fault is reported", async (body, paths) => {
    const { call } = await startControlPlane();
    const answer = await call("PUT", "/apps/shop", { body });
    expect([answer.status, answer.body.code]).toEqual([400, "invalid-request"]);
    expect(answer.body.errors.map(({ path }: { path: string }) => path).sort()).toEqual(paths);
    expect((await call("GET", "/apps/shop")).status).toBe(404);
  });

  it("cannot set its own bounds, not even with its admin's token", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    const { token } = (await running.call("POST", "/tokens", { body: { name: "x", app: "shop", role: "owner" } })).body;
    const answer = await running.call("PUT", "/apps/shop", { token, body: { bounds: { policies: 9 } } });
    expect([answer.status, answer.body.code]).toEqual([403, "forbidden"]);
  });

  it.each([
    ["policies", { policies: 1 }],
    ["bytes", { bytes: 500 }],
    ["steps", { steps: 1 }],
  ])("that has its %s is refused one more, and told what is used", async (bound, bounds) => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop", { body: { bounds } });
    const policy = { ...onePerSecond, description: "x".repeat(300), match: { paths: ["~^/a+$"] } };
    expect((await put(running, "shop", "a", policy)).status).toBe(201);
    const { status, body } = await put(running, "shop", "b", policy);
    expect([status, body.code]).toEqual([409, "bound-exceeded"]);
    const { used } = await appOf(running, "shop");
    expect(body.bounds).toMatchObject([{ bound, of: "app", used: used[bound], allowed: Object.values(bounds)[0] }]);
    // Another app has its own bounds.
    expect((await put(running, "default", "b", policy)).status).toBe(201);
  });

  it.each([
    ["template", "/templates/b", { onLimit: { action: "reject", status: 429 } }, { templates: 0 }, "bound-exceeded"],
    ["ban", "/bans", { cidr: "10.0.0.0/8", for: "1h" }, { bans: 0 }, "too-many-bans"],
    ["ban of many bytes", "/bans", { cidr: "10.0.0.0/8", for: "1h" }, { banBytes: 50 }, "bound-exceeded"],
  ])("at its bound is refused one more %s", async (_, path, body, bounds, code) => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop", { body: { bounds } });
    const method = path === "/bans" ? "POST" : "PUT";
    const answer = await running.call(method, `/apps/shop${path}`, { body });
    expect([answer.status, answer.body.code]).toEqual([409, code]);
  });

  it("at its bound of tokens is refused one more, until one is deleted", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop", { body: { bounds: { tokens: 1 } } });
    const body = { name: "x", app: "shop", role: "viewer" };
    const { id } = (await running.call("POST", "/tokens", { body })).body;
    expect((await running.call("POST", "/tokens", { body })).body.code).toBe("bound-exceeded");
    await running.call("DELETE", `/tokens/${id}`);
    expect((await running.call("POST", "/tokens", { body })).status).toBe(201);
  });

  it("that is beyond a bound set later keeps what it has, and may have less but not more", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    for (const name of ["a", "b", "c"]) await put(running, "shop", name, { ...onePerSecond, description: "as it was" });
    await running.call("PUT", "/apps/shop", { body: { bounds: { policies: 1, bytes: 100 } } });
    expect((await put(running, "shop", "a", { ...onePerSecond, description: "less" })).status).toBe(200);
    expect((await put(running, "shop", "a", { ...onePerSecond, description: "more of it" })).status).toBe(409);
    expect((await put(running, "shop", "d", onePerSecond)).status).toBe(409);
    expect((await running.call("DELETE", "/apps/shop/policies/a")).status).toBe(200);
  });

  it("is checked against a bound at a cost that does not grow with its policies", async () => {
    const running = await startControlPlane();
    const used = () => appOf(running, "default").then((app) => app.used);
    for (let i = 0; i < 20; i++) await put(running, "default", `p${i}`, onePerSecond);
    const { bytes } = await used();
    // Only the sum is read: in the database, there are now no policies at all.
    const database = new DatabaseSync(join(running.dataDir, "sluice.db"));
    database.exec("delete from policies");
    database.close();
    expect(await used()).toMatchObject({ policies: 20, bytes });
  });
});

describe("all apps together", () => {
  const small = { SLUICE_MAX_SNAPSHOT_BYTES: "400000", SLUICE_MAX_POLICIES: "20", SLUICE_MAX_EXPRESSION_STEPS: "3" };

  it("have no more than gateways can hold, and every app's bans, revocations and deletions find room all the same", async () => {
    const running = await startControlPlane(small);
    const gateway = await connectGateway(running, "g1");
    gateway.socket.on("message", (data) => {
      const message = JSON.parse(data.toString());
      if (message.type === "snapshot") gateway.apply(message);
    });
    for (const app of ["greedy", "shop"]) await running.call("PUT", `/apps/${app}`);
    const caller = { name: "x", app: "shop", role: "caller" };
    const { id } = (await running.call("POST", "/tokens", { body: caller })).body;
    let refused = { status: 0, body: { code: "", bounds: [] as object[] } };
    for (let i = 0; i < 10 && refused.status !== 409; i++)
      refused = await put(running, "greedy", `p${i}`, ofBytes(60_000));
    expect(refused.body.code).toBe("bound-exceeded");
    expect(refused.body.bounds).toMatchObject([{ bound: "bytes", of: "all", allowed: 300_000 }]);
    expect((await put(running, "shop", "other", ofBytes(60_000))).status).toBe(409);

    const done = { gateways: 1, acked: 1, refused: 0 };
    const ban = await running.call("POST", "/apps/shop/bans?wait=30s", { body: { cidr: "10.0.0.0/8", for: "1h" } });
    expect(ban).toMatchObject({ status: 201, body: { applied: done } });
    expect(await running.call("DELETE", `/tokens/${id}?wait=30s`)).toMatchObject({
      status: 200,
      body: { applied: done },
    });
    const deleted = await running.call("DELETE", "/apps/greedy/policies/p0?wait=30s");
    expect(deleted).toMatchObject({ status: 200, body: { applied: done } });
    expect(running.app.publisher.state.bytes).toBeLessThan(400_000);
    expect((await running.call("GET", "readyz")).body.alarms).toEqual([]);
  });

  it("leave room for some bans of each app, where others have used up what there is for bans", async () => {
    const running = await startControlPlane({ SLUICE_MAX_SNAPSHOT_BYTES: "65536" });
    const long = { ...onePerSecond, key: ["ip", "header:a", "header:b"] };
    for (const app of ["greedy", "shop"]) await running.call("PUT", `/apps/${app}`);
    await put(running, "greedy", "p", long);
    const ban = (app: string, body: object) =>
      running.call("POST", `/apps/${app}/bans`, { body: { ...body, for: "1h" } });
    let refused = { status: 0, body: { bounds: [] as object[] } };
    for (let i = 0; i < 120 && refused.status !== 409; i++) {
      const key = ["10.0.0.1", `${i}`.padEnd(200, "x"), "y".repeat(200)];
      refused = await ban("greedy", { policy: "p", key });
    }
    expect(refused.body.bounds).toMatchObject([{ bound: "banBytes", of: "all" }]);
    expect((await ban("shop", { cidr: "10.0.0.0/8" })).status).toBe(201);
    const body = { name: "x", app: "shop", role: "caller" };
    expect((await running.call("POST", "/tokens", { body })).status).toBe(201);
  });

  it.each([
    ["policies", 21, () => onePerSecond],
    ["steps", 4, () => ({ ...onePerSecond, match: { paths: ["~^/a+$"] } })],
  ])("have a bound of %s, whatever the bounds of each", async (bound, first, document) => {
    const running = await startControlPlane(small);
    const answers = [];
    for (let i = 1; i <= first; i++) answers.push(await put(running, "default", `p${i}`, document()));
    expect(answers.map(({ status }) => status)).toEqual([...Array(first - 1).fill(201), 409]);
    expect(answers.at(-1)?.body.bounds).toMatchObject([
      { bound, of: "app" },
      { bound, of: "all" },
    ]);
  });

  it("leave room for some consumers and networks of each app, where others have used up the total", async () => {
    const running = await startControlPlane();
    const allowed = { consumers: mostConsumers, networkBytes: mostNetworkBytes };
    await running.call("PUT", "/apps/shop", { body: { realm: null, bounds: allowed } });
    const used = { consumers: mostConsumers, network_bytes: mostNetworkBytes };
    await running.app.database.updateTable("usage").set(used).where("app", "=", "").execute();
    const consumers = (from: number, count: number) =>
      running.call("PUT", "/apps/shop/consumers", {
        text: Array.from({ length: count }, (_, i) => JSON.stringify({ id: `c${from + i}`, plan: "pro" })).join("\n"),
        type: "application/jsonl",
      });
    expect(await consumers(0, 1_000)).toMatchObject({ status: 200, body: { created: 1_000 } });
    expect(await consumers(1_000, 1)).toMatchObject({
      status: 409,
      body: { code: "bound-exceeded", bounds: [{ bound: "consumers", of: "all", allowed: 1_000_000 }] },
    });
    const networks = (count: number) =>
      running.call("PUT", "/apps/shop/networks/offices", {
        text: Array.from({ length: count }, (_, i) => `10.${i >> 8}.${i & 255}.1`).join("\n"),
        type: "text/plain",
      });
    expect((await networks(1_024)).status).toBe(201);
    expect(await networks(1_025)).toMatchObject({
      status: 409,
      body: { bounds: [{ bound: "networkBytes", of: "all" }] },
    });
  });

  it("may have 10,000 policies of the app default", async () => {
    const running = await startControlPlane();
    const { bounds } = await appOf(running, "default");
    expect(bounds.policies).toBeGreaterThanOrEqual(10_000);
    // The policies of bench/policies.ts have 400 bytes each.
    expect(bounds.bytes).toBeGreaterThan(10_000 * (400 + 100));
  });
});

describe("an editor who puts policies of 1 MB in a loop", () => {
  it("keeps nobody from being answered: p99 of /healthz", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess();
    const call = (method: string, path: string, token: string, body?: string) =>
      fetch(`${url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body }),
      });
    await call("PUT", "/api/v1/apps/greedy", adminToken);
    const asked = JSON.stringify({ name: "x", app: "greedy", role: "editor" });
    const { token } = (await (await call("POST", "/api/v1/tokens", adminToken, asked)).json()) as { token: string };
    // The bodies are made beforehand, so that their cost is not counted as the control plane's.
    const bodies = Array.from({ length: 20 }, (_, i) =>
      JSON.stringify({ ...ofBytes(i % 2 === 0 ? 1_000_000 : 63_000), description: `${i}` }),
    );
    const statuses = new Map<number, number>();
    let stopped = false;
    const attack = async (from: number) => {
      for (let i = from; !stopped; i++) {
        const answer = await call("PUT", `/api/v1/apps/greedy/policies/p${i % 18}`, token, bodies[i % 20]);
        await answer.arrayBuffer();
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      }
    };
    const attacks = [attack(0), attack(1)];
    const took: number[] = [];
    await longestTurnMs();
    const end = performance.now() + 2_000;
    const answered = () => [...statuses.values()].reduce((sum, times) => sum + times, 0);
    while (performance.now() < end || answered() < 2 * bodies.length) {
      const from = performance.now();
      const answer = await call("GET", "/healthz", adminToken);
      await answer.arrayBuffer();
      expect(answer.status).toBe(200);
      took.push(performance.now() - from);
      await sleep(5);
    }
    stopped = true;
    await Promise.all(attacks);
    took.sort((a, b) => a - b);
    const [p50, p99] = [0.5, 0.99].map((share) => took[Math.floor(took.length * share)] as number);
    const puts = [...statuses].map(([status, times]) => `${times} × ${status}`).join(", ");
    const turnMs = await longestTurnMs();
    console.log(
      `/healthz during puts (${puts}): p50 ${p50?.toFixed(1)} ms, p99 ${p99?.toFixed(1)} ms; longest turn ${turnMs.toFixed(0)} ms`,
    );
    // The target for p99 is 50 ms. It also depends on the machine's load, a turn does not.
    expect(turnMs).toBeLessThan(50);
  });
});

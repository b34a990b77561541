// Tests which role may do what, beyond what routes/every-route.test.ts asks of every route. Each test is named after who tries what
// they may not.

import { describe, expect, it } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway, openSocket } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

const template = { onLimit: { status: 503 } };
const ban = { cidr: "203.0.113.0/24", for: "1h" };

/** Starts with the apps shop and bank, whose realms are everything, and one policy in each. */
async function startWithApps(nowMs?: () => number): Promise<Running> {
  const running = await startControlPlane({}, nowMs === undefined ? {} : { now: nowMs });
  for (const app of ["shop", "bank"]) {
    await running.call("PUT", `/apps/${app}`, { body: { realm: {} } });
    await running.call("PUT", `/apps/${app}/policies/books`, { body: onePerSecond });
  }
  return running;
}

async function tokenFor({ call }: Running, role: string, app = "shop", more: object = {}): Promise<string> {
  const { status, body } = await call("POST", "/tokens", { body: { name: `a ${role}`, app, role, ...more } });
  expect(status).toBe(201);
  return body.token;
}

/** Requests for every kind of change within an app that an editor may make. */
const writes: [string, string, object | undefined][] = [
  ["PUT", "policies/films", onePerSecond],
  ["DELETE", "policies/books", undefined],
  ["PUT", "templates/polite", template],
  ["DELETE", "templates/polite", undefined],
  ["POST", "bans", ban],
  ["DELETE", "bans/1", undefined],
  ["DELETE", "counters?policy=books", undefined],
  ["POST", "counters", { policy: "books", units: 1 }],
];

const reads = ["", "/policies", "/policies/books", "/templates", "/templates/polite", "/bans", "/bans/1"];

/** Requests for changes that concern all apps or admit somebody. */
const management: [string, string, object | undefined][] = [
  ["PUT", "/apps/new", undefined],
  ["PUT", "/apps/shop", { realm: { hosts: ["bank.test"] } }],
  ["DELETE", "/apps/shop", undefined],
];

describe("the API refuses", () => {
  it("a viewer who writes", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "viewer");
    const before = (await running.call("GET", "/revisions")).body;
    for (const [method, path, body] of writes) {
      const answer = await running.call(method, `/apps/shop/${path}`, { token, body });
      expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 403, "forbidden"]);
    }
    expect((await running.call("GET", "/revisions")).body).toEqual(before);
  });

  it("a viewer or an editor who makes, lists or deletes tokens", async () => {
    const running = await startWithApps();
    for (const role of ["viewer", "editor"]) {
      const token = await tokenFor(running, role);
      const body = { name: "me", app: "shop", role: "owner" };
      for (const [method, path] of [
        ["POST", "/tokens"],
        ["GET", "/tokens"],
        ["DELETE", "/tokens/1"],
      ] as const) {
        const answer = await running.call(method, path, { token, ...(method === "POST" ? { body } : {}) });
        expect([role, method, answer.status, answer.body.code]).toEqual([role, method, 403, "forbidden"]);
      }
    }
  });

  it("an editor of app A on app B, whether that exists or not", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "editor");
    for (const app of ["bank", "none"]) {
      for (const [method, path, body] of writes) {
        const answer = await running.call(method, `/apps/${app}/${path}`, { token, body });
        expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 403, "forbidden"]);
      }
      for (const path of reads) {
        expect([path, (await running.call("GET", `/apps/${app}${path}`, { token })).status]).toEqual([path, 403]);
      }
    }
  });

  it("an editor of app A who spells app B in another way", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "editor");
    for (const app of ["%62ank", "shop%2f..%2fbank", "shop/../bank", "./bank", "BANK"]) {
      const { status } = await running.call("GET", `/apps/${app}/policies`, { token });
      expect([app, [403, 404].includes(status)]).toEqual([app, true]);
    }
  });

  it("an owner of app A who makes, sees or deletes tokens of app B", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "owner");
    await tokenFor(running, "caller", "bank");
    const made = await running.call("POST", "/tokens", { token, body: { name: "x", app: "bank", role: "viewer" } });
    expect([made.status, made.body.code]).toEqual([403, "forbidden"]);
    const all = (await running.call("GET", "/tokens")).body.tokens;
    expect((await running.call("GET", "/tokens", { token })).body.tokens).toEqual(
      all.filter(({ app }: { app?: string }) => app === "shop"),
    );
    const foreign = all.filter(({ app }: { app?: string }) => app !== "shop");
    expect(foreign.map(({ app }: { app?: string }) => app)).toEqual([undefined, undefined, "bank"]);
    for (const { id } of foreign) {
      expect(await running.call("DELETE", `/tokens/${id}`, { token })).toMatchObject({
        status: 404,
        body: { code: "token-not-found" },
      });
    }
  });

  it("an owner of app A who makes or deletes apps", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "owner");
    for (const [method, path, body] of management) {
      const answer = await running.call(method, path, { token, body });
      expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 403, "forbidden"]);
    }
  });

  it("an expired token", async () => {
    let nowMs = 1_800_000_000_000;
    const running = await startWithApps(() => nowMs);
    const token = await tokenFor(running, "editor", "shop", { expiresIn: "1h" });
    expect((await running.call("GET", "/apps/shop/policies", { token })).status).toBe(200);
    nowMs += 3_600_000;
    for (const path of ["/apps/shop/policies", "/apps/bank/policies", "/tokens"]) {
      const { status, headers, body } = await running.call("GET", path, { token });
      expect([path, status, body.code]).toEqual([path, 401, "unauthorized"]);
      expect(headers.get("www-authenticate")).toBe("Bearer");
    }
  });

  it("a deleted token, from the next request on", async () => {
    const running = await startWithApps();
    const { body } = await running.call("POST", "/tokens", { body: { name: "x", app: "shop", role: "viewer" } });
    expect((await running.call("DELETE", `/tokens/${body.id}`)).status).toBe(200);
    expect((await running.call("GET", "/apps/shop", { token: body.token })).status).toBe(401);
    expect((await running.call("DELETE", `/tokens/${body.id}`)).body.code).toBe("token-not-found");
  });

  it("the token of an app that was deleted and made again", async () => {
    const running = await startControlPlane();
    await running.call("PUT", "/apps/shop");
    const token = await tokenFor(running, "owner");
    await running.call("DELETE", "/apps/shop");
    await running.call("PUT", "/apps/shop");
    expect((await running.call("GET", "/apps/shop", { token })).status).toBe(401);
  });

  it.each(["caller", "viewer", "editor", "owner"])("a token of the role %s on the push socket", async (role) => {
    const running = await startWithApps();
    const headers = { authorization: `Bearer ${await tokenFor(running, role)}` };
    await expect(openSocket(running.url, { headers })).rejects.toThrow("Unexpected server response: 403");
  });

  it("cross-site requests: no other site's page may read or send anything, and no cookie is a token", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "viewer");
    for (const [method, path] of [
      ["OPTIONS", "apps/shop"],
      ["GET", "apps/shop"],
    ]) {
      const headers = { origin: "https://evil.example", authorization: `Bearer ${token}` };
      const answer = await fetch(`${running.url}/api/v1/${path}`, { method: method as string, headers });
      expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
      expect(answer.status).toBe(method === "GET" ? 200 : 405);
    }
    const cookie = { cookie: `token=${token}; authorization=Bearer ${token}` };
    expect((await fetch(`${running.url}/api/v1/apps/shop`, { headers: cookie })).status).toBe(401);
  });
});

describe("the API lets", () => {
  it("a viewer read its app, and only its app's part of what is common", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "viewer");
    await running.call("PUT", "/apps/shop/templates/polite", { body: template });
    const { body } = await running.call("POST", "/apps/shop/bans", { body: ban });
    for (const path of reads) {
      const existing = path.replace("/1", `/${body.id}`);
      expect([path, (await running.call("GET", `/apps/shop${existing}`, { token })).status]).toEqual([path, 200]);
    }
    const apps = (await running.call("GET", "/apps", { token })).body.apps;
    expect(apps.map(({ name }: { name: string }) => name)).toEqual(["shop"]);
    const revisions = (await running.call("GET", "/revisions", { token })).body.revisions;
    expect(new Set(revisions.map(({ app }: { app: string }) => app))).toEqual(new Set(["shop"]));
    expect((await running.call("GET", "/gateways", { token })).status).toBe(200);
    const check = { token, body: onePerSecond };
    expect((await running.call("POST", "/apps/shop/policies/validate", check)).body).toEqual({ valid: true });
  });

  it.each(["editor", "owner"])("an %s change policies, templates and bans of its app", async (role) => {
    const running = await startWithApps();
    const token = await tokenFor(running, role);
    const statuses: number[] = [];
    for (const [method, path, body] of writes.slice(0, 5)) {
      statuses.push((await running.call(method, `/apps/shop/${path}`, { token, body })).status);
    }
    const [{ id }] = (await running.call("GET", "/apps/shop/bans", { token })).body.bans;
    statuses.push((await running.call("DELETE", `/apps/shop/bans/${id}`, { token })).status);
    expect(statuses).toEqual([201, 200, 201, 200, 201, 200]);
    const [newest] = (await running.call("GET", "/revisions")).body.revisions;
    expect(newest).toMatchObject({ action: "delete-ban", who: `shop/a ${role}`, app: "shop", subject: id });
  });

  it("a viewer see that a gateway refused a snapshot, but not the faults of other apps' policies", async () => {
    const running = await startWithApps();
    const gateway = await connectGateway(running, "g1");
    const { epoch, revision } = await gateway.next("snapshot");
    const problems = [{ path: "policies[0].document.cost", expected: "1", got: '"of bank"' }];
    gateway.say({ type: "refused", epoch, revision, problems });
    await untilPasses(async () =>
      expect((await running.call("GET", "/gateways")).body.gateways[0].refused?.errors).toEqual(problems),
    );
    const token = await tokenFor(running, "viewer");
    const [seen] = (await running.call("GET", "/gateways", { token })).body.gateways;
    expect(seen.refused).toMatchObject({ revision, errors: [] });
  });

  it("an admin of an app make and delete tokens of that app", async () => {
    const running = await startWithApps();
    const token = await tokenFor(running, "owner");
    const made = await running.call("POST", "/tokens", { token, body: { name: "x", app: "shop", role: "editor" } });
    expect(made.status).toBe(201);
    expect((await running.call("DELETE", `/tokens/${made.body.id}`, { token })).status).toBe(200);
  });
});

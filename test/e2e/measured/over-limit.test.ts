// Tests every action that a policy may take over the limit, at a real nginx. How long requests wait, and what is refunded when one
// leaves or is refused after all, is in test/gateway/charging/delay_spec.lua.

import { get } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { until } from "../../fixtures/until.ts";

/** The service answers with its path and the mark that reached it. */
const service = `
  content_by_lua_block {
    local headers = ngx.req.get_headers()
    ngx.print(ngx.var.uri, " ", headers["x-mark"] or "unmarked")
  }
  log_by_lua_block { sluice.log() }
}
location @cached {
  content_by_lua_block { ngx.print("cached") }
`;

const edit = (config: string) => config.replace("proxy_pass http://service;", service);

const units = (name: string, quota: number) => ({ name, algorithm: "fixed-window", quota, window: "366d" });

const once = (name: string, onLimit: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  onLimit,
  ...more,
});

const tags = { action: "tag", header: "x-mark: over" };
const tagged = (name: string, more: Record<string, unknown>) => once(name, tags, { key: ["header:x-user"], ...more });

const delayed = (name: string, maxWaiting: number, window: string, paths = [`/${name}`]) => ({
  name,
  match: { paths },
  limits: [{ algorithm: "token-bucket", quota: 1, window, burst: 1 }],
  onLimit: { action: "delay", maxDelay: "60s", maxWaiting, status: 503 },
});

/** Each test has policies of its own, by their paths. */
const policies = [
  once("plain", { status: 503, body: "Later.\n", headers: ["x-reason: busy", "content-type: text/x-later"] }),
  once("lines", { headers: ["x-reason: busy", "link: <a>", "link: <b>"] }),

  once("tagged", tags),
  once("tags-both", tags, { match: { paths: ["/both"] } }),
  once("limits-both", {}, { match: { paths: ["/both"] }, limits: [units("three", 3)] }),
  tagged("exempt", { exempt: { cidrs: ["127.0.0.0/8"] } }),
  tagged("overridden", { overrides: [{ key: ["vip"], mode: "off" }] }),
  tagged("skipped", {}),
  tagged("undecided", { scope: "cluster", onStoreFailure: "allow" }),
  tagged("watched", { mode: "shadow" }),
  once("one-mark", tags, { match: { paths: ["/marks"] } }),
  once("same-mark", tags, { match: { paths: ["/marks"] }, limits: [units("hundred", 100)] }),

  once("full", { action: "degrade", uri: "/cheap" }),
  once("cheap", {}),
  ...["guarded", "guarded-in-fleet"].flatMap((name) => [
    once(name, { action: "degrade", uri: "/cheap-of-all" }, { priority: 9 }),
    once(
      `${name}-by-another`,
      {},
      { match: { paths: [`/${name}`] }, limits: [units("three", 3)], scope: name === "guarded" ? "node" : "cluster" },
    ),
  ]),
  once("to-guarded", { action: "degrade", uri: "/guarded-there" }),
  once("guarded-there", {}, { limits: [units("two", 2)] }),
  once("full-and-marked", { action: "degrade", uri: "/cheap-of-all" }),
  once("mark-of-full", { action: "degrade", header: "x-mark: degraded" }, { match: { paths: ["/full-and-marked"] } }),
  once("self", { action: "degrade", uri: "/self" }),
  once("named", { action: "degrade", location: "@cached" }),
  once("answer", {
    action: "degrade",
    response: { status: 203, body: "{}", headers: ["content-type: application/json"] },
  }),
  once("marked", { action: "degrade", header: "x-mark: degraded" }),
  once("nothing", { action: "degrade", response: { status: 204, body: "x" } }),
  once("reported", { action: "degrade", uri: "/elsewhere" }),
  once("reports", {}, { match: { paths: ["/reported"] }, priority: 1, mode: "shadow" }),

  delayed("delayed", 5, "50ms"),
  delayed("waits", 10, "10s"),
  once("units", {}, { match: { paths: ["/waits", "/units"] }, priority: 1, limits: [units("two", 2)] }),
  once(
    "slots",
    {},
    {
      match: { paths: ["/waits", "/slots"] },
      priority: 1,
      limits: [{ algorithm: "concurrency", quota: 1, ttl: "1h" }],
    },
  ),
];

/** Ninety policies that a request meets, and one more on one of the paths. */
const veryMany = [
  ...Array.from({ length: 90 }, (_, i) => ({
    name: `many-${i}`,
    match: { paths: ["/many", "/without-last"] },
    limits: Array.from({ length: 16 }, (_, limit) => units(`limit-${limit}`, 2)),
    scope: "cluster",
  })),
  { name: "last", match: { paths: ["/many"] }, priority: -1, limits: [units("one", 1)], scope: "cluster" },
];

let redis: RedisServer;
let gateway: LoneGateway;
let fleet: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  [gateway, fleet] = await Promise.all([
    LoneGateway.start({ policies, env: { SLUICE_REDIS_URL: "" }, edit }),
    LoneGateway.start({
      policies: veryMany,
      env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "5000" },
      edit,
    }),
  ]);
});
afterAll(async () => {
  await Promise.all([gateway?.stop(), fleet?.stop()]);
  await redis?.stop();
});

const twice = async (path: string, headers: Record<string, string> = {}) => {
  await ask(`${gateway.url}${path}`, { headers });
  return ask(`${gateway.url}${path}`, { headers });
};

describe("reject", () => {
  it("answers with its own body and header lines", async () => {
    expect(await twice("/plain")).toMatchObject({
      status: 503,
      body: "Later.\n",
      headers: { "x-reason": "busy", "content-type": "text/x-later", ratelimit: expect.stringContaining("r=0") },
    });
    const problem = await twice("/lines");
    expect(problem).toMatchObject({ status: 429, headers: { "x-reason": "busy", link: "<a>, <b>" } });
    expect(JSON.parse(problem.body)).toMatchObject({ status: 429, "violated-policies": ["default"] });
  });
});

describe("tag", () => {
  it("lets the request through, marked, and removes a client's own mark", async () => {
    expect((await ask(`${gateway.url}/tagged`, { headers: { "x-mark": "mine" } })).body).toBe("/tagged unmarked");
    expect(await ask(`${gateway.url}/tagged`)).toMatchObject({
      status: 200,
      body: "/tagged over",
      headers: { ratelimit: expect.stringContaining("r=0") },
    });
  });

  it("charges nothing to other policies of the request, which still refuse", async () => {
    const bodies: string[] = [];
    for (let i = 0; i < 3; i++) bodies.push((await ask(`${gateway.url}/both`)).body);
    expect(bodies).toEqual(["/both unmarked", "/both over", "/both over"]);
    expect((await ask(`${gateway.url}/both`)).status).toBe(429);
  });

  it("removes a client's mark also where the policy does not apply to the request", async () => {
    const body = async (path: string, headers = {}) =>
      (await ask(`${gateway.url}${path}`, { headers: { "x-mark": "mine", ...headers } })).body;
    expect(await body("/exempt")).toBe("/exempt unmarked");
    expect(await body("/overridden", { "x-user": "vip" })).toBe("/overridden unmarked");
    expect(await body("/skipped")).toBe("/skipped unmarked");
    expect(await body("/undecided", { "x-user": "a" })).toBe("/undecided unmarked");
    expect(await body("/watched", { "x-user": "a" }), "a policy in shadow mode changes nothing").toBe("/watched mine");
  });

  it("marks if one of several policies with the same mark does", async () => {
    expect((await twice("/marks")).body).toBe("/marks over");
  });
});

describe("a cluster policy", () => {
  it("is one of very many that a request matches, and all of them limit", async () => {
    const status = async (path: string) => (await ask(`${fleet.url}${path}`)).status;
    // A refusal by the last policy refunds all 1,440 counters of the others.
    expect([await status("/many"), await status("/many"), await status("/many")]).toEqual([200, 429, 429]);
    expect([await status("/without-last"), await status("/without-last")]).toEqual([200, 429]);
  });
});

describe("degrade", () => {
  it("serves another path, where its own policy does not decide it again, and others do", async () => {
    expect(await twice("/full")).toMatchObject({ status: 200, body: "/cheap unmarked" });
    expect((await ask(`${gateway.url}/full`)).status).toBe(429);
    expect((await ask(`${gateway.url}/cheap`)).status).toBe(429);
  });

  it("goes on only if other policies let it: those of its own path and of the other one, of every scope", async () => {
    const statuses = async (path: string) => {
      const seen: number[] = [];
      for (let i = 0; i < 4; i++) seen.push((await ask(`${gateway.url}${path}`)).status);
      return seen;
    };
    expect(await statuses("/guarded")).toEqual([200, 200, 200, 429]);
    expect(await statuses("/guarded-in-fleet")).toEqual([200, 200, 200, 429]);
    // Two of these requests go to /guarded-there, whose limit has two units.
    expect(await statuses("/to-guarded")).toEqual([200, 200, 200, 429]);
    expect((await twice("/full-and-marked")).body).toBe("/cheap-of-all degraded");
  });

  it("does not loop if the other path is its own", async () => {
    expect(await twice("/self")).toMatchObject({ status: 200, body: "/self unmarked" });
  });

  it("serves a named location, an answer of its own, or the same path with a mark", async () => {
    expect(await twice("/named")).toMatchObject({ status: 200, body: "cached" });
    expect(await twice("/answer")).toMatchObject({
      status: 203,
      body: "{}",
      headers: { "content-type": "application/json" },
    });
    expect(await twice("/marked")).toMatchObject({ status: 200, body: "/marked degraded" });
  });

  it("answers 204 without headers that frame a body", async () => {
    const { status, headers } = await twice("/nothing");
    expect([status, headers["content-length"], headers["transfer-encoding"], headers["content-type"]]).toEqual([
      204,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("keeps the report of a policy in shadow mode", async () => {
    await twice("/reported");
    // The line is logged after the response was sent.
    await until("it is reported", () => gateway.log.includes("shadow policy would have refused: default/reports"));
  });
});

describe("delay", () => {
  it("has requests wait for their units, at the limit's rate, refuses those beyond them, and lets others pass meanwhile", async () => {
    const begun = performance.now();
    const ended: number[] = [];
    const waiting = Promise.all(
      Array.from({ length: 10 }, async () => {
        const { status } = await ask(`${gateway.url}/delayed`);
        if (status === 200) ended.push(performance.now() - begun);
        return status;
      }),
    );
    expect((await ask(`${gateway.url}/other`)).status).toBe(200);
    expect((await waiting).toSorted()).toEqual([...Array(6).fill(200), ...Array(4).fill(503)]);
    // The first request passes at once, then one every 50 ms, and never sooner.
    for (const [i, at] of ended.toSorted((a, b) => a - b).entries()) expect(at).toBeGreaterThan(i * 50 - 5);
  });

  it("frees the place of a client that is gone, and refunds what other policies charged for it", async () => {
    const status = async (path: string) => (await ask(gateway.url + path)).status;
    expect(await status("/waits")).toBe(200);
    const gone = get(`${gateway.url}/waits`, { agent: false });
    gone.on("error", () => {});
    await until("it holds its slot while it waits", async () => (await status("/slots")) === 429);
    gone.destroy();
    await until("its slot is free", async () => (await status("/slots")) === 200);
    expect([await status("/units"), await status("/units")]).toEqual([200, 429]);
  });
});

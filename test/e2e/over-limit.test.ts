// Tests every action that a policy may take over the limit, at a real nginx.

import { get } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask } from "../fixtures/requests.ts";
import { until } from "../fixtures/system.ts";

let gateway: LoneGateway;
let redis: RedisServer | undefined;
afterEach(async () => {
  await gateway?.stop();
  await redis?.stop();
  redis = undefined;
});

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

const start = (policies: Record<string, unknown>[]) =>
  LoneGateway.start({ policies, edit: (config) => config.replace("proxy_pass http://service;", service) });

const once = (name: string, onLimit: Record<string, unknown>) => ({
  name,
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
  onLimit,
});

const twice = async (path: string, headers: Record<string, string> = {}) => {
  await ask(`${gateway.url}${path}`, { headers });
  return ask(`${gateway.url}${path}`, { headers });
};

describe("reject", () => {
  it("answers with its own body and header lines", async () => {
    gateway = await start([
      once("plain", { status: 503, body: "Later.\n", headers: ["x-reason: busy", "content-type: text/x-later"] }),
      once("lines", { headers: ["x-reason: busy", "link: <a>", "link: <b>"] }),
    ]);
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
    gateway = await start([once("tagged", { action: "tag", header: "x-mark: over" })]);
    expect((await ask(`${gateway.url}/tagged`, { headers: { "x-mark": "mine" } })).body).toBe("/tagged unmarked");
    expect(await ask(`${gateway.url}/tagged`)).toMatchObject({
      status: 200,
      body: "/tagged over",
      headers: { ratelimit: expect.stringContaining("r=0") },
    });
  });

  it("charges nothing to other policies of the request, which still refuse", async () => {
    const other = {
      ...once("other", {}),
      match: { paths: ["/both"] },
      limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }],
    };
    const tag = { ...once("tag", { action: "tag", header: "x-mark: over" }), match: { paths: ["/both"] } };
    gateway = await start([tag, other]);
    const bodies: string[] = [];
    for (let i = 0; i < 3; i++) bodies.push((await ask(`${gateway.url}/both`)).body);
    expect(bodies).toEqual(["/both unmarked", "/both over", "/both over"]);
    expect((await ask(`${gateway.url}/both`)).status).toBe(429);
  });

  it("removes a client's mark also where the policy does not apply to the request", async () => {
    const tag = (name: string, properties: object) => ({
      ...once(name, { action: "tag", header: "x-mark: over" }),
      key: ["header:x-user"],
      ...properties,
    });
    gateway = await start([
      tag("exempt", { exempt: { cidrs: ["127.0.0.0/8"] } }),
      tag("overridden", { overrides: [{ key: ["vip"], mode: "off" }] }),
      tag("skipped", {}),
      tag("undecided", { scope: "cluster", onStoreFailure: "allow" }),
      tag("watched", { mode: "shadow" }),
    ]);
    const body = async (path: string, headers = {}) =>
      (await ask(`${gateway.url}${path}`, { headers: { "x-mark": "mine", ...headers } })).body;
    expect(await body("/exempt")).toBe("/exempt unmarked");
    expect(await body("/overridden", { "x-user": "vip" })).toBe("/overridden unmarked");
    expect(await body("/skipped")).toBe("/skipped unmarked");
    expect(await body("/undecided", { "x-user": "a" })).toBe("/undecided unmarked");
    expect(await body("/watched", { "x-user": "a" }), "a policy in shadow mode changes nothing").toBe("/watched mine");
  });

  it("marks if one of several policies with the same mark does", async () => {
    const tag = { action: "tag", header: "x-mark: over" };
    const many = [{ algorithm: "fixed-window", quota: 100, window: "366d" }];
    gateway = await start([
      { ...once("a", tag), match: { paths: ["/both"] } },
      { ...once("b", tag), match: { paths: ["/both"] }, limits: many },
    ]);
    expect((await twice("/both")).body).toBe("/both over");
  });
});

const units = (name: string, quota: number) => ({ name, algorithm: "fixed-window", quota, window: "366d" });

describe("a policy that is decided separately", () => {
  it("names all of its limits that refuse", async () => {
    gateway = await start([
      { name: "both", limits: [units("a", 1), units("b", 1)], onLimit: { action: "delay", maxDelay: "1ms" } },
    ]);
    const { status, body } = await twice("/both");
    expect(status).toBe(429);
    expect(JSON.parse(body)["violated-policies"]).toEqual(["a", "b"]);
  });

  it("delays requests by its leaky-bucket, even if its action is to mark them", async () => {
    const leaky = { algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 5 };
    gateway = await start([{ name: "leaky", limits: [leaky], onLimit: { action: "tag", header: "x-mark: over" } }]);
    const begun = performance.now();
    await twice("/leaky");
    expect(performance.now() - begun).toBeGreaterThan(150);
  });

  it("gets its units in Redis refunded when a later policy refuses", async () => {
    redis = new RedisServer(await freePort());
    await redis.start();
    const shared = { name: "shared", priority: 1, scope: "cluster", limits: [units("few", 2)] };
    gateway = await LoneGateway.start({
      policies: [
        { ...shared, onLimit: { action: "delay", maxDelay: "1ms" } },
        { name: "own", match: { paths: ["/both"] }, limits: [units("one", 1)] },
      ],
      env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "5000" },
      edit: (config) => config.replace("proxy_pass http://service;", service),
    });
    const status = async (path: string) => (await ask(`${gateway.url}${path}`)).status;
    expect([await status("/both"), await status("/both"), await status("/both")]).toEqual([200, 429, 429]);
    expect([await status("/alone"), await status("/alone")]).toEqual([200, 429]);
  });
});

describe("a cluster policy", () => {
  const fleet = async (policies: Record<string, unknown>[]) => {
    redis = new RedisServer(await freePort());
    await redis.start();
    gateway = await LoneGateway.start({
      policies,
      env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "5000" },
      edit: (config) => config.replace("proxy_pass http://service;", service),
    });
  };

  it("is one of very many that a request matches, and all of them limit", async () => {
    const limits = Array.from({ length: 16 }, (_, i) => units(`limit-${i}`, 2));
    const last = { name: "last", match: { paths: ["/many"] }, priority: -1, limits: [units("one", 1)] };
    await fleet(
      [...Array.from({ length: 90 }, (_, i) => ({ name: `many-${i}`, limits })), last].map((policy) => ({
        ...policy,
        scope: "cluster",
      })),
    );
    const status = async (path: string) => (await ask(`${gateway.url}${path}`)).status;
    // A refusal by the last policy refunds all 1,440 counters of the others.
    expect([await status("/many"), await status("/many"), await status("/many")]).toEqual([200, 429, 429]);
    expect([await status("/"), await status("/")]).toEqual([200, 429]);
  });

  it("gets refunded what a request waited for, when a later policy refuses it", async () => {
    await fleet([
      {
        name: "waits",
        priority: 1,
        scope: "cluster",
        limits: [{ algorithm: "fixed-window", quota: 1, window: "2s" }],
        onLimit: { action: "delay", maxDelay: "3s" },
      },
      once("own", {}),
    ]);
    expect((await ask(`${gateway.url}/own`)).status).toBe(200);
    const waited = await ask(`${gateway.url}/own`);
    expect(waited.status).toBe(429);
    const begun = performance.now();
    expect((await ask(`${gateway.url}/alone`)).status).toBe(200);
    // The window had just begun: had its unit not been refunded, this request would wait for the next window.
    expect(performance.now() - begun).toBeLessThan(1000);
  });

  it("denies at once if Redis is gone and onStoreFailure is deny, and counts one refusal", async () => {
    const policy = {
      ...once("denied", { action: "delay", maxDelay: "2s" }),
      scope: "cluster",
      onStoreFailure: "deny",
      limits: [{ algorithm: "concurrency", quota: 1 }],
    };
    gateway = await LoneGateway.start({ policies: [policy], env: { SLUICE_REDIS_URL: "" } });
    const begun = performance.now();
    expect((await ask(`${gateway.url}/denied`)).status).toBe(429);
    expect(performance.now() - begun).toBeLessThan(1000);
    const decisions = async (result: string) =>
      new RegExp(`^sluice_decisions_total{.*result="${result}"} (\\d+)$`, "m").exec(
        (await ask(`${gateway.privateUrl}/sluice/metrics`)).body,
      )?.[1];
    await until("it is told", 5000, async () => (await decisions("degraded")) !== undefined);
    expect([await decisions("degraded"), await decisions("refused")]).toEqual(["1", "1"]);
  });

  it("denies a request that finds Redis gone after it has waited", async () => {
    await fleet([
      {
        ...once("denied", { action: "delay", maxDelay: "4s" }),
        scope: "cluster",
        onStoreFailure: "deny",
        limits: [{ algorithm: "token-bucket", quota: 1, window: "1s", burst: 1 }],
      },
    ]);
    await ask(`${gateway.url}/denied`);
    const begun = performance.now();
    const waiting = ask(`${gateway.url}/denied`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await redis?.stop();
    const { status, body } = await waiting;
    expect([status, JSON.parse(body).title]).toEqual([429, "Limit cannot be checked"]);
    expect(performance.now() - begun).toBeLessThan(2000);
  });
});

describe("degrade", () => {
  it("serves another path, without a second decision", async () => {
    gateway = await start([once("full", { action: "degrade", uri: "/cheap" }), once("cheap", {})]);
    expect(await twice("/full")).toMatchObject({ status: 200, body: "/cheap unmarked" });
    expect((await ask(`${gateway.url}/full`)).body).toBe("/cheap unmarked");
    // Requested under its own path, it has its limit.
    expect(await twice("/cheap")).toMatchObject({ status: 429 });
  });

  it("does not loop if the other path is its own", async () => {
    gateway = await start([once("self", { action: "degrade", uri: "/self" })]);
    expect(await twice("/self")).toMatchObject({ status: 200, body: "/self unmarked" });
  });

  it("serves a named location, an answer of its own, or the same path with a mark", async () => {
    gateway = await start([
      once("named", { action: "degrade", location: "@cached" }),
      once("answer", {
        action: "degrade",
        response: { status: 203, body: "{}", headers: ["content-type: application/json"] },
      }),
      once("marked", { action: "degrade", header: "x-mark: degraded" }),
    ]);
    expect(await twice("/named")).toMatchObject({ status: 200, body: "cached" });
    expect(await twice("/answer")).toMatchObject({
      status: 203,
      body: "{}",
      headers: { "content-type": "application/json" },
    });
    expect(await twice("/marked")).toMatchObject({ status: 200, body: "/marked degraded" });
  });

  it("answers 204 without headers that frame a body", async () => {
    gateway = await start([once("nothing", { action: "degrade", response: { status: 204, body: "x" } })]);
    const { status, headers } = await twice("/nothing");
    expect([status, headers["content-length"], headers["transfer-encoding"], headers["content-type"]]).toEqual([
      204,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("keeps the report of a policy in shadow mode", async () => {
    gateway = await start([
      once("full", { action: "degrade", uri: "/cheap" }),
      { ...once("watched", {}), match: { paths: ["/full"] }, priority: 1, mode: "shadow" },
    ]);
    await twice("/full");
    // The line is logged after the response was sent.
    await until("it is reported", 2000, () =>
      gateway.log.includes("shadow policy would have refused: default/watched"),
    );
  });
});

describe("delay", () => {
  const delayed = (maxWaiting: number, maxDelay = "3s") => ({
    name: "delayed",
    match: { paths: ["/delayed"] },
    limits: [{ algorithm: "token-bucket", quota: 20, window: "1s", burst: 1 }],
    onLimit: { action: "delay", maxDelay, maxWaiting, status: 503 },
  });

  it("has requests wait for their units, at the limit's rate, and lets others pass meanwhile", async () => {
    gateway = await start([delayed(100)]);
    const begun = performance.now();
    const ended: number[] = [];
    const waiting = Promise.all(
      Array.from({ length: 21 }, async () => {
        expect((await ask(`${gateway.url}/delayed`)).status).toBe(200);
        ended.push(performance.now() - begun);
      }),
    );
    expect((await ask(`${gateway.url}/other`)).status).toBe(200);
    expect(performance.now() - begun).toBeLessThan(500);
    await waiting;
    // The first request passes at once, then one every 50 ms, and never sooner.
    for (const [i, at] of ended.toSorted((a, b) => a - b).entries()) expect(at).toBeGreaterThan(i * 50 - 5);
  });

  it("refuses requests that would wait too long, or find too many waiting", async () => {
    gateway = await start([delayed(5)]);
    const answers = await Promise.all(Array.from({ length: 10 }, () => ask(`${gateway.url}/delayed`)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(6);
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(4);
    await gateway.stop();
    gateway = await start([delayed(100, "120ms")]);
    const short = await Promise.all(Array.from({ length: 10 }, () => ask(`${gateway.url}/delayed`)));
    expect(short.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(4);
    expect(short.filter(({ status }) => status === 503).length).toBeGreaterThanOrEqual(6);
  });

  it("has requests wait for slots, however long those before them take", async () => {
    const slow = service.replace("local headers", "ngx.sleep(0.05) local headers");
    gateway = await LoneGateway.start({
      policies: [{ ...delayed(100), limits: [{ algorithm: "concurrency", quota: 1 }] }],
      edit: (config) => config.replace("proxy_pass http://service;", slow),
    });
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(`${gateway.url}/delayed`)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
  });

  it("frees the place of a client that is gone", async () => {
    gateway = await start([
      { ...delayed(1, "60s"), limits: [{ algorithm: "token-bucket", quota: 1, window: "10s", burst: 1 }] },
    ]);
    await ask(`${gateway.url}/delayed`);
    const gone = get(`${gateway.url}/delayed`, { agent: false });
    gone.on("error", () => {});
    await until("its place is taken", 5000, async () => (await ask(`${gateway.url}/delayed`)).status === 503);
    gone.destroy();
    const next = get(`${gateway.url}/delayed`, { agent: false });
    let refused = false;
    next.on("error", () => {});
    next.on("response", ({ statusCode }) => {
      refused = statusCode === 503;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(refused).toBe(false);
    next.destroy();
  });

  it("refunds what other policies charged for a client that is gone", async () => {
    const beside = (name: string, algorithm: object) => ({
      name,
      priority: 1,
      match: { paths: ["/delayed", `/${name}`] },
      limits: [algorithm],
    });
    gateway = await start([
      beside("units", { algorithm: "fixed-window", quota: 2, window: "366d" }),
      beside("slots", { algorithm: "concurrency", quota: 1, ttl: "1h" }),
      { ...delayed(10, "60s"), limits: [{ algorithm: "token-bucket", quota: 1, window: "10s", burst: 1 }] },
    ]);
    const status = async (path: string) => (await ask(gateway.url + path)).status;
    expect(await status("/delayed")).toBe(200);
    const gone = get(`${gateway.url}/delayed`, { agent: false });
    gone.on("error", () => {});
    await until("it holds its slot while it waits", 5000, async () => (await status("/slots")) === 429);
    gone.destroy();
    await until("its slot is free", 5000, async () => (await status("/slots")) === 200);
    expect([await status("/units"), await status("/units")]).toEqual([200, 429]);
  });
});

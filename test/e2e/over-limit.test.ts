// What becomes of requests over the limit: every action that a policy may name, at a real nginx.

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

/** The service tells its path and the marks that reached it. */
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
      once("lines", { headers: ["x-reason: busy"] }),
    ]);
    expect(await twice("/plain")).toMatchObject({
      status: 503,
      body: "Later.\n",
      headers: { "x-reason": "busy", "content-type": "text/x-later", ratelimit: expect.stringContaining("r=0") },
    });
    const problem = await twice("/lines");
    expect(problem).toMatchObject({ status: 429, headers: { "x-reason": "busy" } });
    expect(JSON.parse(problem.body)).toMatchObject({ status: 429, "violated-policies": ["default"] });
  });
});

describe("tag", () => {
  it("lets the request through, marked, and believes no client's mark", async () => {
    gateway = await start([once("tagged", { action: "tag", header: "x-mark: over" })]);
    expect((await ask(`${gateway.url}/tagged`, { headers: { "x-mark": "mine" } })).body).toBe("/tagged unmarked");
    expect(await ask(`${gateway.url}/tagged`)).toMatchObject({
      status: 200,
      body: "/tagged over",
      headers: { ratelimit: expect.stringContaining("r=0") },
    });
  });

  it("takes nothing from the policies beside it, which still refuse", async () => {
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
});

describe("a policy that is decided by itself", () => {
  const units = (name: string, quota: number) => ({ name, algorithm: "fixed-window", quota, window: "366d" });

  it("names all of its limits that refuse", async () => {
    gateway = await start([
      { name: "both", limits: [units("a", 1), units("b", 1)], onLimit: { action: "delay", maxDelay: "1ms" } },
    ]);
    const { status, body } = await twice("/both");
    expect(status).toBe(429);
    expect(JSON.parse(body)["violated-policies"]).toEqual(["a", "b"]);
  });

  it("has requests of its leaky-bucket wait, though it would mark them", async () => {
    const leaky = { algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 5 };
    gateway = await start([{ name: "leaky", limits: [leaky], onLimit: { action: "tag", header: "x-mark: over" } }]);
    const begun = performance.now();
    await twice("/leaky");
    expect(performance.now() - begun).toBeGreaterThan(150);
  });

  it("has its units back in Redis when a later policy refuses", async () => {
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

describe("degrade", () => {
  it("serves another path, which is not decided again", async () => {
    gateway = await start([once("full", { action: "degrade", uri: "/cheap" }), once("cheap", {})]);
    expect(await twice("/full")).toMatchObject({ status: 200, body: "/cheap unmarked" });
    expect((await ask(`${gateway.url}/full`)).body).toBe("/cheap unmarked");
    // Asked for by its own name, it has its limit.
    expect(await twice("/cheap")).toMatchObject({ status: 429 });
  });

  it("does not end in a circle where the other path is its own", async () => {
    gateway = await start([once("self", { action: "degrade", uri: "/self" })]);
    expect(await twice("/self")).toMatchObject({ status: 200, body: "/self unmarked" });
  });

  it("serves a named location, an answer of its own, or the same with a mark", async () => {
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
});

describe("delay", () => {
  const delayed = (maxWaiting: number, maxDelay = "3s") => ({
    name: "delayed",
    match: { paths: ["/delayed"] },
    limits: [{ algorithm: "token-bucket", quota: 20, window: "1s", burst: 1 }],
    onLimit: { action: "delay", maxDelay, maxWaiting, status: 503 },
  });

  it("has requests wait for their units, in order of what the limit gives, and others pass meanwhile", async () => {
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
    // The first at once, then one in 50 ms; never sooner.
    for (const [i, at] of ended.toSorted((a, b) => a - b).entries()) expect(at).toBeGreaterThan(i * 50 - 5);
  });

  it("refuses who would wait too long, and who finds too many waiting", async () => {
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

  it("has the place of a client that is gone for another", async () => {
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
});

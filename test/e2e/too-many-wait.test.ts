// More requests would wait than a worker may hold, for units and for their turn: the next one is refused and charged nothing,
// and the others go on.

import { type ClientHttp2Session, connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { auth, callerOf } from "../fixtures/check-api-client.ts";
import { freePorts } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { until } from "../fixtures/system.ts";

const mostWaiting = 20;

const shop = { app: "default", token: "a-token-of-the-shop" };

const leaky = (name: string, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "leaky-bucket", quota: 1, window: "60s", burst: 20, maxDelay: "1h" }],
  ...more,
});
const delayed = (name: string, window: string) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-client"],
  limits: [{ algorithm: "token-bucket", quota: 1, window }],
  onLimit: { action: "delay", maxDelay: "2m", maxWaiting: 1000, status: 503 },
});
const policies = [
  leaky("leaky"),
  leaky("cluster", { scope: "cluster" }),
  leaky("several"),
  {
    name: "beside",
    match: { paths: ["/several"] },
    limits: [{ algorithm: "fixed-window", quota: 1000, window: "1d" }],
  },
  leaky("marked", { onLimit: { action: "tag", header: "x-mark: over" } }),
  leaky("degraded", { onLimit: { action: "degrade", response: { status: 200, body: "cheaper" } } }),
  delayed("delayed", "60s"),
  delayed("quick", "1s"),
];

interface Answer {
  readonly status: number;
  readonly retryAfter: number;
  readonly body: string;
}

let redis: RedisServer;
let gateway: LoneGateway;
let url = "";
let session: ClientHttp2Session;

beforeAll(async () => {
  const [port] = (await freePorts(1)) as [number];
  redis = new RedisServer(port);
  await redis.start();
});
afterAll(() => redis?.stop());
afterEach(async () => {
  session?.destroy();
  await gateway?.stop();
});

async function start(workers: number, edit = (config: string) => config): Promise<void> {
  const [port] = (await freePorts(1)) as [number];
  url = `http://127.0.0.1:${port}`;
  gateway = await LoneGateway.start({
    policies,
    callers: [callerOf(shop)],
    workers,
    env: { SLUICE_MAX_WAITING: `${mostWaiting}`, SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "2000" },
    edit: (config) =>
      edit(config)
        .replace(/(listen [^;]*);/, `$1; listen 127.0.0.1:${port} http2;`)
        .replace(
          "proxy_pass http://service;",
          `content_by_lua_block { ngx.print(ngx.req.get_headers()["x-mark"] or "served") }`,
        ),
  });
  session = open();
}

/** Opens one connection, and so reaches one worker. */
const open = () => connect(url).on("error", () => {});

function ask(path: string, client: string, over = session): Promise<Answer> {
  return new Promise((resolve) => {
    const stream = over.request({ ":path": path, "x-client": client });
    let [status, retryAfter, body] = [0, 0, ""];
    stream.on("response", (headers) => {
      status = Number(headers[":status"]);
      retryAfter = Number(headers["retry-after"] ?? 0);
    });
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      body += text;
    });
    stream.on("error", () => {}).on("close", () => resolve({ status, retryAfter, body }));
    stream.end();
  });
}

/** Makes as many requests wait as may, by two policies. */
async function fill(over = session): Promise<void> {
  for (let i = 0; i < mostWaiting; i++) {
    const path = i % 2 === 0 ? "/leaky" : "/delayed";
    expect((await ask(path, `filler-${i}`, over)).status).toBe(200);
    void ask(path, `filler-${i}`, over);
  }
}

/** @returns the answer to the next request that would wait, or "waits" after two seconds */
const atOnce = (path: string, client: string) =>
  Promise.race([ask(path, client), sleep(2000).then(() => "waits" as const)]);

describe.each([1, 2])("with %d workers, beyond the bound of waiting requests,", (workers) => {
  it("a request is refused as its policy says and charged nothing, and requests that need not wait are served", async () => {
    await start(workers);
    await fill();
    for (const [path, status] of [
      ["/leaky", 429],
      ["/several", 429],
      ["/cluster", 429],
      ["/delayed", 503],
    ] as const) {
      // Redis has the counters of more than one gateway.
      const client = `late-${workers}`;
      expect((await ask(path, client)).status, path).toBe(200);
      for (let i = 0; i < 6; i++) {
        const answer = await atOnce(path, client);
        expect(answer, path).toMatchObject({ status });
        expect((answer as Answer).retryAfter).toBeGreaterThan(50);
        // Refused requests hold no place in the bucket; each would add a minute.
        expect((answer as Answer).retryAfter, `${path}: ${i + 1} were refused`).toBeLessThanOrEqual(60);
        // With several workers, a timer makes the refund.
        await sleep(100);
      }
    }
    await expect.poll(() => gateway.metric("sluice_waiting_refusals_total"), { timeout: 5000 }).toBe(24);
    expect(gateway.log).toMatch(/requests are refused, because too many wait already: default\/leaky/);
  });
});

it("beyond the bound of waiting requests, a request gets its policy's mark or something cheaper", async () => {
  await start(1);
  await fill();
  for (const [path, body] of [
    ["/marked", "over"],
    ["/degraded", "cheaper"],
  ] as const) {
    expect((await ask(path, "late")).body).toBe("served");
    for (let i = 0; i < 3; i++) expect(await atOnce(path, "late")).toMatchObject({ status: 200, body });
  }
});

it("beyond the bound of waiting requests, a check is refused and charged nothing, and does not wait", async () => {
  await start(1);
  await fill();
  const asked = () => auth(gateway.privateUrl, shop, "policy=leaky&key=late");
  expect((await asked()).status).toBe(204);
  for (let i = 0; i < 6; i++) {
    const { status, headers } = await asked();
    expect(status).toBe(429);
    expect(Number(headers["retry-after"]), `${i + 1} were refused`).toBeGreaterThan(50);
    expect(Number(headers["retry-after"]), `${i + 1} were refused`).toBeLessThanOrEqual(60);
  }
});

describe.each([
  ["with sluice.log()", (config: string) => config],
  ["without sluice.log()", (config: string) => config.replace(/log_by_lua_block \{\s*sluice\.log\(\)\s*\}/, "")],
])("%s, clients that go away while they wait", (_, edit) => {
  beforeEach(() => start(1, edit));

  it("are no longer counted", async () => {
    const leaving = open();
    await fill(leaving);
    expect((await ask("/leaky", "late")).status).toBe(200);
    expect(await atOnce("/leaky", "late")).toMatchObject({ status: 429 });
    leaving.destroy();
    await until("others may wait", 5000, async () => (await atOnce("/leaky", "late")) === "waits");
    // As many may wait as before.
    for (let i = 1; i < mostWaiting; i++) void ask("/leaky", "late");
    await sleep(200);
    expect((await ask("/delayed", "late")).status).toBe(200);
    expect(await atOnce("/delayed", "late")).toMatchObject({ status: 503 });
  });

  it("free their turn for those behind them", async () => {
    expect((await ask("/quick", "one")).status).toBe(200);
    const begun = performance.now();
    const leaving = open();
    void ask("/quick", "one", leaving);
    await sleep(100);
    const behind = ask("/quick", "one");
    await sleep(100);
    leaving.destroy();
    expect(await Promise.race([behind, sleep(10_000)])).toMatchObject({ status: 200 });
    expect(performance.now() - begun).toBeGreaterThan(500);
  });
});

// A client that sends the secret learns how its request was decided; other clients do not.

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

const secret = "a secret of the operator";
const limits = (quota: number) => [{ name: "few", algorithm: "fixed-window", quota, window: "366d" }];
const service = `content_by_lua_block { ngx.print(ngx.req.get_headers()["x-sluice-debug"] or "no secret") }`;
const withService = (config: string) => config.replace("proxy_pass http://service;", service);

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      { name: "first", priority: 2, key: ["header:x-user"], limits: limits(9), onMissingKey: "deny" },
      { name: "watching", priority: 1, mode: "shadow", limits: limits(1) },
      { name: "posts", match: { methods: ["POST"] }, limits: limits(1) },
      { name: "second", match: { paths: ["/few"] }, limits: limits(1) },
    ],
    env: { SLUICE_DEBUG_SECRET: secret },
    edit: withService,
  });
});
afterAll(() => gateway?.stop());

const reported = async (path: string, headers: Record<string, string>, { url } = gateway) => {
  const answer = await ask(`${url}${path}`, { headers });
  return { ...answer, lines: (answer.headers["x-sluice-debug"] ?? "").split(", ") };
};

it("names the matching policies, the keys that were charged, and the limit that refused", async () => {
  const headers = { "x-user": "ann\u00e9;", "x-sluice-debug": secret };
  const first = await reported("/few", headers);
  expect(first).toMatchObject({ status: 200, body: "no secret" });
  expect(first.lines).toEqual([
    "default/first; enforce; node; key=1%3Aann%E9%3B; charged",
    "default/watching; shadow; node; key=0%3A; allowed",
    "default/second; enforce; node; key=0%3A; charged",
    "allowed; nearest default/second few; remaining 0 of 1",
  ]);
  const refused = await reported("/few", headers);
  expect(refused.status).toBe(429);
  expect(refused.lines.slice(1, 3)).toEqual([
    "default/watching; shadow; node; key=0%3A; shadow-refused",
    "default/second; enforce; node; key=0%3A; refused",
  ]);
  expect(refused.lines[3]).toMatch(
    /^refused by few; retry after [\d.]+ s; nearest default\/second few; remaining 0 of 1$/,
  );
});

it("says by which policy an attribute was missing", async () => {
  expect(await reported("/any", { "x-sluice-debug": secret })).toMatchObject({
    status: 403,
    lines: ["default/first; enforce; node; key-missing", "refused by default/first; key-missing"],
  });
});

it("shows nothing without the secret, and removes the header with the secret before the service", async () => {
  for (const shown of ["", "a", "a secret of the operato", `${secret}r`]) {
    const answer = await reported("/any", { "x-user": "bob", "x-sluice-debug": shown });
    expect(answer.headers).not.toHaveProperty("x-sluice-debug");
    expect(answer.body).not.toContain(secret.slice(0, 5));
  }
});

describe("the debug header of a cluster policy says what decided", () => {
  const cluster = (name: string, more: object = {}) => ({
    name,
    scope: "cluster",
    match: { paths: [`/${name}`] },
    limits: limits(2),
    ...more,
  });
  const hot = [{ name: "few", algorithm: "fixed-window", quota: 1000, window: "366d" }];
  const policies = [
    cluster("local"),
    cluster("allow", { onStoreFailure: "allow" }),
    cluster("deny", { onStoreFailure: "deny", onLimit: { status: 503 } }),
    cluster("tagged", { limits: limits(1), onLimit: { action: "tag", header: "x-over: 1" } }),
    cluster("leased", { consistency: "leased", limits: hot, cost: { from: "header:x-cost", default: 1, max: 1000 } }),
    cluster("sent", { cost: { from: "response-bytes" }, limits: hot }),
    cluster("pair-a", { match: { paths: ["/pair"] } }),
    cluster("pair-b", { match: { paths: ["/pair"] }, limits: limits(1) }),
  ];
  let redis: RedisServer;
  let asking: LoneGateway | undefined;
  afterEach(async () => {
    await asking?.stop();
    asking = undefined;
    await redis?.stop();
  });

  async function start(): Promise<void> {
    redis = new RedisServer(await freePort());
    await redis.start();
    asking = await LoneGateway.start({
      policies,
      env: { SLUICE_DEBUG_SECRET: secret, SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "500" },
      edit: withService,
    });
  }

  /** @returns the status, what follows each policy's key, and the line for the whole request */
  async function outcomes(path: string, headers: Record<string, string> = {}) {
    const { status, lines } = await reported(path, { "x-sluice-debug": secret, ...headers }, asking);
    return [status, ...lines.map((line) => line.replace(/^.*; key=[^;]*; /, "").replace(/; retry after.*/, ""))];
  }

  it("while Redis answers", async () => {
    await start();
    expect(await outcomes("/local")).toEqual([
      200,
      "charged in Redis",
      "allowed; nearest default/local few; remaining 1 of 2",
    ]);
    await outcomes("/local");
    expect(await outcomes("/local")).toEqual([429, "refused by Redis", "refused by few"]);
    expect(await outcomes("/local")).toEqual([429, "refused as before", "refused by few"]);
    expect((await outcomes("/tagged"))[1]).toBe("charged in Redis");
    expect((await outcomes("/tagged")).slice(0, 2)).toEqual([200, "refused by Redis; went on"]);
    expect((await outcomes("/sent"))[1]).toBe("its response will be charged in Redis");
    expect((await outcomes("/pair")).slice(0, 3)).toEqual([200, "charged in Redis", "charged in Redis"]);
    expect((await outcomes("/pair")).slice(0, 3)).toEqual([429, "not charged", "refused by Redis"]);
  });

  it("while a lease has the units, and after Redis has said that there are none", async () => {
    await start();
    await ask(`${asking?.url}/leased`, { headers: { "x-cost": "50" } });
    const seen: unknown[] = [];
    for (let i = 0; i < 300; i++) seen.push((await outcomes("/leased"))[1]);
    expect(new Set(seen)).toEqual(new Set(["charged in Redis", "charged to a lease"]));
    expect(await outcomes("/leased", { "x-cost": "1000" })).toEqual([429, "refused by Redis", "refused by few"]);
    // A request for so much makes the gateway request a lease as well, and may be refused by what that reply says.
    const again = [];
    for (let i = 0; i < 5; i++) again.push(await outcomes("/leased", { "x-cost": "1000" }));
    expect(again).toContainEqual([429, "refused as before", "refused by few"]);
  });

  it("while Redis is unreachable", async () => {
    await start();
    await outcomes("/local");
    await redis.stop();
    const nearest = "nearest default/local few";
    expect(await outcomes("/local")).toEqual([
      200,
      "without Redis: charged to this gateway's share",
      `allowed; ${nearest}; remaining 1 of 2`,
    ]);
    await outcomes("/local");
    expect(await outcomes("/local")).toEqual([429, "without Redis: refused by this gateway's share", "refused by few"]);
    expect(await outcomes("/allow")).toEqual([200, "without Redis: allowed by onStoreFailure", "allowed"]);
    expect(await outcomes("/deny")).toEqual([
      503,
      "without Redis: refused by onStoreFailure",
      "refused by default/deny; onStoreFailure",
    ]);
    await outcomes("/tagged");
    expect((await outcomes("/tagged")).slice(0, 2)).toEqual([
      200,
      "without Redis: refused by this gateway's share; went on",
    ]);
  });
});

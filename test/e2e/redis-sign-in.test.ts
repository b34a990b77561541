// Tests what the gateway logs and does if the Redis at SLUICE_REDIS_URL is not as it needs it.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

import { TcpProxy } from "../fixtures/servers/tcp-proxy.ts";
import { until } from "../fixtures/until.ts";

const rights = rightsOf("one Redis");
const users = {
  sluice: rights,
  "no-scripts": rights.filter((rule) => rule !== "+evalsha"),
  "no-writes": rights.filter((rule) => rule !== "+set"),
  "other-keys": ["~other:*", ...rights.filter((rule) => !rule.startsWith("~"))],
};
/** The leaky bucket has a short window, because its requests wait. */
const windows: Record<string, object> = { "leaky-bucket": { window: "1s" }, concurrency: {} };
const policies = ["token-bucket", "fixed-window", "sliding-window", "sliding-log", "leaky-bucket", "concurrency"].map(
  (algorithm) => ({
    name: algorithm,
    scope: "cluster",
    onStoreFailure: "deny",
    // Nothing else answers with this status, which is also that of requests that Redis did not decide.
    onLimit: { status: 409 },
    match: { paths: [`/${algorithm}`] },
    limits: [
      { name: "a", algorithm, quota: 40, ...(windows[algorithm] ?? { window: "1h" }) },
      { name: "b", algorithm: "fixed-window", quota: 1000, window: "366d" },
    ],
  }),
);

let redis: RedisServer;
let gateway: LoneGateway | undefined;
beforeAll(async () => {
  const args = Object.entries(users).flatMap(([name, rules]) => ["--user", name, "on", ">s3cret", ...rules]);
  redis = new RedisServer(await freePort(), {}, args);
  await redis.start();
});
afterAll(async () => {
  await redis?.stop();
});
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  await redis.command("FLUSHALL");
});

const start = (signIn: string, { port } = redis as { port: number }, deadlineMs = 5000) =>
  LoneGateway.start({
    policies,
    env: { SLUICE_REDIS_URL: `redis://${signIn}@127.0.0.1:${port}/3`, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` },
  });

it.each(policies.map(({ name }) => name))("needs no more rights than docs/cluster.md lists for a %s", async (name) => {
  gateway = await start("sluice:s3cret");
  const statuses = await askAtOnce([`${gateway.url}/${name}`], 80);
  // What a leaky bucket or concurrency admits depends on when requests come.
  if (name === "leaky-bucket" || name === "concurrency") expect(statuses[404]).toBeGreaterThan(0);
  else expect(statuses).toEqual({ 404: 40, 409: 40 });
  expect(gateway.log).not.toMatch(/Redis did not decide|were not renewed|stay charged/);
});

it.each([
  ["no-scripts", /NOPERM .*'evalsha' command.*\(the rights that Sluice's user needs are in docs\/cluster.md\)/],
  [
    "no-writes",
    /The user executing the script can't run this command.*\(the rights that Sluice's user needs are in docs\/cluster.md\)/,
  ],
  ["other-keys", /NOPERM .*key.*\(the rights that Sluice's user needs are in docs\/cluster.md\)/],
])("logs what the user %s lacks rights for", async (user, message) => {
  gateway = await start(`${user}:s3cret`);
  expect((await ask(`${gateway.url}/fixed-window`)).status).toBe(409);
  expect(gateway.log).toMatch(message);
});

it("logs that a password is wrong, without the password", async () => {
  gateway = await start("sluice:not-the-s3cret");
  expect((await ask(`${gateway.url}/fixed-window`)).status).toBe(409);
  expect(gateway.log).toContain("Redis did not decide: auth: WRONGPASS");
  expect(gateway.log).not.toContain("s3cret");
});

it.each([
  ["a wrong password", () => `sluice:nothing@127.0.0.1:${redis.port}/3`, "auth: WRONGPASS"],
  ["a database that there is not", () => `sluice:s3cret@127.0.0.1:${redis.port}/999`, "select: ERR DB index"],
  ["a port where nobody listens", () => "sluice:s3cret@127.0.0.1:1/3", "connect: connection refused"],
  ["rights to other keys", () => `other-keys:s3cret@127.0.0.1:${redis.port}/3`, "NOPERM"],
])("logs once, before the first request, a Redis with %s", async (_, where, message) => {
  gateway = await LoneGateway.start({ policies, workers: 2, env: { SLUICE_REDIS_URL: `redis://${where()}` } });
  const lines = () =>
    gateway?.log.split("\n").filter((line) => line.includes("Redis did not answer at the start")) ?? [];
  await until("it is said", () => lines().length > 0);
  // Another line would come soon after. A busy machine only writes fewer.
  await sleep(100);
  expect(lines()).toEqual([expect.stringContaining(`[error]`)]);
  expect(lines()[0]).toContain(`Redis did not answer at the start: ${message}`);
  expect(gateway.log).not.toContain("s3cret");
  // The failure at the start opens no breaker.
  expect(await gateway.metric('sluice_redis_breakers_open{worker="0"}')).toBe(0);
});

it("logs nothing at the start if Redis answers", async () => {
  gateway = await start("sluice:s3cret");
  expect((await ask(`${gateway.url}/fixed-window`)).status).toBe(404);
  // A line would come soon. A busy machine only writes fewer.
  await sleep(200);
  expect(gateway.log).not.toContain("Redis did not answer at the start");
});

it.each([
  ["redis://sluice:s3cret@h/x", "SLUICE_REDIS_URL: expected /DATABASE"],
  ["redis+sentinel://sluice:s3cret@a,b", "SLUICE_REDIS_URL: expected /NAME"],
  ["redis+cluster://sluice:s3cret@a,b/1", "SLUICE_REDIS_URL: expected no database"],
])("does not start with %s, and does not show the password", async (url, message) => {
  const started = LoneGateway.start({ policies, env: { SLUICE_REDIS_URL: url } });
  const failure = String(await started.catch((error: Error) => error.message));
  expect(failure).toContain(message);
  expect(failure).not.toContain("s3cret");
});

it("waits a deadline for each step of a new connection: a Redis that is far away decides the first request", async () => {
  const far = await TcpProxy.start(redis.port);
  // A round trip takes 660 of 1000 ms: AUTH, SELECT and the script do not fit into one deadline.
  far.delayMs = 330;
  try {
    gateway = await start("sluice:s3cret", far, 1000);
    const url = `${gateway.url}/fixed-window`;
    const { status, headers } = await ask(url);
    expect(status).toBe(404);
    expect(headers["x-ratelimit-limit"]).toBeDefined();
  } finally {
    await far.refuse();
  }
});

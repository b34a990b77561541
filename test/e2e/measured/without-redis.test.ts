// Decides without a real Redis: one that hangs, one that is gone. test/gateway/stores/redis/without-redis_spec.lua and the specs beside it
// play in virtual time when the gateway waits, what it decides alone, and what it reports to Redis afterwards.

import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, askAtOnce } from "../../fixtures/clients/requests.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

const quota = 100;
const deadlineMs = 200;
/** The status of requests that pass: nginx's own answer, since nothing is behind the gateway. */
const passed = 404;

let redis: RedisServer;
let one: LoneGateway;
/** With two workers. */
let two: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  const env = { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` };
  const policies = ["hanging", "gone"].map((name) => ({
    name,
    scope: "cluster",
    match: { paths: [`/${name}`] },
    limits: [{ algorithm: "fixed-window", quota, window: "1d" }],
  }));
  await redis.start();
  [one, two] = await Promise.all([
    LoneGateway.start({ policies, env }),
    LoneGateway.start({ policies, env, workers: 2 }),
  ]);
});
afterAll(async () => {
  redis?.goOn();
  await Promise.all([one?.stop(), two?.stop(), redis?.stop("SIGKILL")]);
});

const counted = async () =>
  (await redis.countOf("sluice:s3:{default:hanging:0:}:default:fixed-window:86400000000")) ?? 0;

it("admits its quota once over a Redis that was silent for longer than the deadline and then went on", async () => {
  const url = `${one.url}/hanging`;
  expect(await askAtOnce([url], 20)).toEqual({ [passed]: 20 });
  redis.hang();
  const startedAtMs = performance.now();
  // The share of a lone gateway is the whole limit, since no worker knew what Redis had left.
  expect(await askAtOnce([url], 60)).toEqual({ [passed]: 60 });
  expect(performance.now() - startedAtMs).toBeGreaterThan(deadlineMs * 0.75);
  redis.goOn();
  await until("Redis decides again", async () => (await one.metric('sluice_redis_breakers_open{worker="0"}')) === 0);
  await until("Redis has counted who passed", async () => (await counted()) === 80);
  expect(await askAtOnce([url], 50)).toEqual({ [passed]: 20, 429: 30 });
});

it("ends within two seconds of QUIT while Redis hangs", async () => {
  redis.hang();
  try {
    await askAtOnce([`${one.url}/gone`], 10);
    const startedAtMs = performance.now();
    process.kill(one.pid, "SIGQUIT");
    await until("nginx has ended", () => one.ended);
    expect(performance.now() - startedAtMs).toBeLessThan(2000);
  } finally {
    redis.goOn();
  }
  await redis.command("FLUSHALL");
});

it("keeps a limit used up that Redis reported to one worker, also for the others and after a reload", async () => {
  const url = `${two.url}/gone`;
  await until("Redis decides", async () => (await ask(url)).headers["x-ratelimit-remaining"] !== undefined);
  await redis.command("FLUSHALL");
  expect(await askAtOnce([url], quota)).toEqual({ [passed]: quota });
  // One request reaches one worker.
  expect((await ask(url)).status).toBe(429);
  await redis.stop("SIGKILL");
  expect(await askAtOnce([url], 60)).toEqual({ 429: 60 });
  const { pid } = two;
  const before = childrenOf(pid);
  process.kill(pid, "SIGHUP");
  await until("other workers answer", () => !childrenOf(pid).some((worker) => before.includes(worker)));
  expect(await askAtOnce([url], 60)).toEqual({ 429: 60 });
});

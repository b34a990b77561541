// What a gateway decides while Redis does not: it waits for a Redis that answers, however late; it decides alone where Redis is
// silent; and Redis is told afterwards what was taken meanwhile, so that a stutter is not worth a second quota.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const quota = 100;
const deadlineMs = 200;
/** nginx's own answer for what is behind the gateway: nothing is. */
const passed = 404;

let redis: RedisServer;
let way: TcpProxy;
let gateway: LoneGateway | undefined;

beforeEach(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  way = await TcpProxy.start(redis.port);
});
afterEach(async () => {
  redis.goOn();
  await gateway?.stop();
  gateway = undefined;
  await way.refuse();
  await redis.stop("SIGKILL");
});

interface Policy {
  readonly onStoreFailure?: "local" | "allow" | "deny";
  readonly maxStoreWait?: string;
  readonly algorithm?: string;
}

async function start(policy: Policy, silenceMs = deadlineMs): Promise<LoneGateway> {
  const { algorithm = "fixed-window", ...rest } = policy;
  gateway = await LoneGateway.start({
    policies: [{ name: "limited", scope: "cluster", ...rest, limits: [{ algorithm, quota, window: "1d" }] }],
    env: { SLUICE_REDIS_URL: way.url, SLUICE_REDIS_DEADLINE_MS: `${silenceMs}` },
  });
  return gateway;
}

const key = (algorithm: string) => `sluice:s3:{default:limited:0:}:default:${algorithm}:86400000000`;

/** What Redis has counted of the limit. */
const counted = async () => (await redis.countOf(key("fixed-window"))) ?? 0;

async function untilDecidedByRedis({ privateUrl }: LoneGateway): Promise<void> {
  await until("Redis decides again", 5000, async () => {
    const { body } = await ask(`${privateUrl}/sluice/metrics`);
    return /^sluice_redis_breakers_open 0$/m.test(body);
  });
}

it("waits for a Redis that answers after three quarters of the deadline: every request is decided by it", async () => {
  // The proxy shares its processor with the crowd of clients.
  const started = await start({}, 800);
  way.delayMs = 300;
  expect(await askAtOnce([started.url], 300)).toEqual({ [passed]: quota, 429: 200 });
  expect(await counted()).toBe(quota);
  expect(await started.metric("sluice_redis_breakers_open")).toBe(0);
});

it("admits its quota once over a Redis that was silent for longer than the deadline, and then went on", async () => {
  const started = await start({});
  expect(await askAtOnce([started.url], 20)).toEqual({ [passed]: 20 });
  redis.hang();
  const meanwhile = askAtOnce([started.url], 60);
  await sleep(3 * deadlineMs);
  redis.goOn();
  // The share of a lone gateway is the whole limit: nobody knew what Redis had left.
  expect(await meanwhile).toEqual({ [passed]: 60 });
  await untilDecidedByRedis(started);
  await until("Redis has counted who passed", 3000, async () => (await counted()) === 80);
  expect(await askAtOnce([started.url], 50)).toEqual({ [passed]: 20, 429: 30 });
});

it.each(["token-bucket", "sliding-window", "sliding-log"])(
  "tells Redis afterwards what passed while it was away: %s",
  async (algorithm) => {
    const started = await start({ algorithm });
    expect(await askAtOnce([started.url], 20)).toEqual({ [passed]: 20 });
    await way.refuse();
    expect(await askAtOnce([started.url], 60)).toEqual({ [passed]: 60 });
    await way.accept();
    await untilDecidedByRedis(started);
    await until("Redis was told", 3000, async () => (await started.metric("sluice_redis_late_units_total")) === 60);
    expect(await askAtOnce([started.url], 50)).toEqual({ [passed]: 20, 429: 30 });
  },
);

it("tells Redis what passed by `onStoreFailure: allow`, up to the whole limit", async () => {
  const started = await start({ onStoreFailure: "allow" });
  await way.refuse();
  expect(await askAtOnce([started.url], 150)).toEqual({ [passed]: 150 });
  await way.accept();
  await untilDecidedByRedis(started);
  await until("Redis was told", 3000, async () => (await counted()) === quota);
  expect((await ask(started.url)).status).toBe(429);
});

it("gives back what a late reply charged for a request that was denied meanwhile", async () => {
  const started = await start({ onStoreFailure: "deny" });
  await askAtOnce([started.url], 2);
  redis.hang();
  const meanwhile = askAtOnce([started.url], 10);
  await sleep(3 * deadlineMs);
  redis.goOn();
  expect(await meanwhile).toEqual({ 429: 10 });
  await until("nobody is charged but who passed", 3000, async () => {
    // The first called Redis itself, and nobody hears what became of it.
    return (await counted()) <= 3;
  });
});

it("waits no longer than the policy's maxStoreWait, and Redis counts each request once all the same", async () => {
  const started = await start({ maxStoreWait: "50ms" });
  await askAtOnce([started.url], 1);
  way.delayMs = 75;
  const startedAtMs = performance.now();
  expect(await askAtOnce([started.url], 30)).toEqual({ [passed]: 30 });
  expect(performance.now() - startedAtMs).toBeLessThan(deadlineMs);
  await until("each is counted once", 3000, async () => (await counted()) === 31);
  await sleep(500);
  expect(await counted()).toBe(31);
  expect(await started.metric("sluice_redis_breakers_open")).toBe(0);
});

it("makes nobody wait for a Redis that is silent, once one deadline has passed", async () => {
  const started = await start({});
  await askAtOnce([started.url], 2);
  redis.hang();
  const first = performance.now();
  await Promise.all([ask(started.url), ask(started.url), ask(started.url)]);
  const firstMs = performance.now() - first;
  const second = performance.now();
  await askAtOnce([started.url], 20);
  const secondMs = performance.now() - second;
  expect(firstMs).toBeGreaterThan(deadlineMs * 0.75);
  expect(firstMs).toBeLessThan(deadlineMs * 3);
  expect(secondMs).toBeLessThan(deadlineMs * 0.75);
});

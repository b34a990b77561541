// Tests decisions while Redis makes none: the gateway waits for a Redis that answers, however late, decides alone if Redis is
// silent, and afterwards reports to Redis what was taken meanwhile, so that a short outage does not give a second quota.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { childrenOf, until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const quota = 100;
const deadlineMs = 200;
/** The status of requests that pass: nginx's own answer, since nothing is behind the gateway. */
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

/** @param policies policies of app default */
async function startAll(
  policies: readonly Record<string, unknown>[],
  env: NodeJS.ProcessEnv = {},
): Promise<LoneGateway> {
  gateway = await LoneGateway.start({ policies, env: { SLUICE_REDIS_URL: way.url, ...env } });
  return gateway;
}

async function msTaken(url: string): Promise<number> {
  const startedAtMs = performance.now();
  await ask(url);
  return performance.now() - startedAtMs;
}

interface Policy {
  readonly onStoreFailure?: "local" | "allow" | "deny";
  readonly maxStoreWait?: string;
  readonly algorithm?: string;
}

async function start(policy: Policy, silenceMs = deadlineMs): Promise<LoneGateway> {
  const { algorithm = "fixed-window", ...rest } = policy;
  const limits = [{ algorithm, quota, window: "1d" }];
  return startAll([{ name: "limited", scope: "cluster", ...rest, limits }], {
    SLUICE_REDIS_DEADLINE_MS: `${silenceMs}`,
  });
}

const key = (algorithm: string) => `sluice:s3:{default:limited:0:}:default:${algorithm}:86400000000`;

/** @returns what Redis has counted of the limit */
const counted = async () => (await redis.countOf(key("fixed-window"))) ?? 0;

async function untilDecidedByRedis({ privateUrl }: LoneGateway): Promise<void> {
  await until("Redis decides again", 5000, async () => {
    const { body } = await ask(`${privateUrl}/sluice/metrics`);
    return /^sluice_redis_breakers_open 0$/m.test(body);
  });
}

it("waits for a Redis that answers after three quarters of the deadline, which decides every request", async () => {
  // The proxy shares its processor with the clients, so the deadline is long.
  const started = await start({}, 800);
  way.delayMs = 300;
  expect(await askAtOnce([started.url], 300)).toEqual({ [passed]: quota, 429: 200 });
  expect(await counted()).toBe(quota);
  expect(await started.metric("sluice_redis_breakers_open")).toBe(0);
});

it("admits its quota once over a Redis that was silent for longer than the deadline and then went on", async () => {
  const started = await start({});
  expect(await askAtOnce([started.url], 20)).toEqual({ [passed]: 20 });
  redis.hang();
  const meanwhile = askAtOnce([started.url], 60);
  await sleep(3 * deadlineMs);
  redis.goOn();
  // The share of a lone gateway is the whole limit, since no worker knew what Redis had left.
  expect(await meanwhile).toEqual({ [passed]: 60 });
  await untilDecidedByRedis(started);
  await until("Redis has counted who passed", 3000, async () => (await counted()) === 80);
  expect(await askAtOnce([started.url], 50)).toEqual({ [passed]: 20, 429: 30 });
});

it.each(["token-bucket", "sliding-window", "sliding-log"])(
  "reports to Redis afterwards what passed while it was unreachable: %s",
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

it("reports to Redis what passed by `onStoreFailure: allow`, up to the whole limit", async () => {
  const started = await start({ onStoreFailure: "allow" });
  await way.refuse();
  expect(await askAtOnce([started.url], 150)).toEqual({ [passed]: 150 });
  await way.accept();
  await untilDecidedByRedis(started);
  await until("Redis was told", 3000, async () => (await counted()) === quota);
  expect((await ask(started.url)).status).toBe(429);
});

it("keeps a limit used up that Redis reported to one worker, also for the others and after a reload", async () => {
  gateway = await LoneGateway.start({
    policies: [{ name: "limited", scope: "cluster", limits: [{ algorithm: "fixed-window", quota, window: "1d" }] }],
    env: { SLUICE_REDIS_URL: way.url },
    workers: 2,
  });
  expect(await askAtOnce([gateway.url], quota)).toEqual({ [passed]: quota });
  // One request reaches one worker.
  expect((await ask(gateway.url)).status).toBe(429);
  await redis.stop("SIGKILL");
  expect(await askAtOnce([gateway.url], 60)).toEqual({ 429: 60 });
  const { pid } = gateway;
  const before = childrenOf(pid);
  process.kill(pid, "SIGHUP");
  await until("other workers answer", 10_000, () => !childrenOf(pid).some((worker) => before.includes(worker)));
  expect(await askAtOnce([gateway.url], 60)).toEqual({ 429: 60 });
});

it("refunds what a late reply charged for a request that was denied meanwhile", async () => {
  const started = await start({ onStoreFailure: "deny" });
  await askAtOnce([started.url], 2);
  redis.hang();
  const meanwhile = askAtOnce([started.url], 10);
  await sleep(3 * deadlineMs);
  redis.goOn();
  expect(await meanwhile).toEqual({ 429: 10 });
  await until("nobody is charged but who passed", 3000, async () => {
    // The first request called Redis itself, and nothing learns the outcome of that call.
    return (await counted()) <= 3;
  });
});

it("waits no longer than the policy's maxStoreWait, and Redis still counts each request once", async () => {
  const started = await start({ maxStoreWait: "50ms" });
  await askAtOnce([started.url], 1);
  way.delayMs = 75;
  // One request is timed alone: what thirty at once take in addition is the machine's doing.
  const startedAtMs = performance.now();
  await ask(started.url);
  expect(performance.now() - startedAtMs).toBeLessThan(deadlineMs);
  expect(await askAtOnce([started.url], 29)).toEqual({ [passed]: 29 });
  await until("each is counted once", 3000, async () => (await counted()) === 31);
  await sleep(500);
  expect(await counted()).toBe(31);
  expect(await started.metric("sluice_redis_breakers_open")).toBe(0);
});

it("makes no request wait for a silent Redis once one deadline has passed", async () => {
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

it("releases all requests that wait for a silent Redis at the same moment, also the latest", async () => {
  const started = await start({}, 600);
  await askAtOnce([started.url], 5);
  redis.hang();
  const waits: Promise<number>[] = [];
  for (let i = 0; i < 8; i++) {
    waits.push(msTaken(started.url));
    await sleep(50);
  }
  const all = await Promise.all(waits);
  // The last request came 350 ms after the first.
  expect(all[7]).toBeLessThan((all[0] as number) - 200);
});

it("delays a lone request no longer than the deadline, however long that is", async () => {
  const started = await start({}, 2000);
  await ask(started.url);
  redis.hang();
  const waitedMs = await msTaken(started.url);
  expect(waitedMs).toBeGreaterThan(1500);
  expect(waitedMs).toBeLessThan(3500);
});

it.each(["local", "allow"])(
  "frees slots that Redis gave to requests which went on without it: %s",
  async (onStoreFailure) => {
    const limits = [{ algorithm: "concurrency", quota: 5, ttl: "1m" }];
    const started = await startAll([{ name: "slots", scope: "cluster", onStoreFailure, limits }]);
    expect(await askAtOnce([started.url], 3)).toEqual({ [passed]: 3 });
    // A call that frees slots is not repeated if it is lost with its connection.
    await sleep(200);
    redis.hang();
    const meanwhile = askAtOnce([started.url], 5);
    await sleep(3 * deadlineMs);
    redis.goOn();
    expect(await meanwhile).toEqual({ [passed]: 5 });
    await untilDecidedByRedis(started);
    await until("every slot is back", 3000, async () => {
      const statuses = await askAtOnce([started.url], 3);
      return statuses[passed] === 3;
    });
  },
);

it("charges a leased policy once if Redis goes away before it decides another policy of the request", async () => {
  const limits = [{ name: "a", algorithm: "fixed-window", quota: 1000, window: "1d" }];
  const both = ["leased", "exact"].map((name, i) => ({
    name,
    scope: "cluster",
    consistency: name,
    priority: -i,
    key: ["header:x-key"],
    limits,
  }));
  const started = await startAll(both);
  const askAs = async (key: string) => (await ask(started.url, { headers: { "x-key": key } })).status;
  for (const key of ["w1", "w2", "w3"]) expect(await askAs(key)).toBe(passed);
  await sleep(300);
  let replies = 0;
  way.losesReply = () => {
    replies += 1;
    if (replies === 1) return false;
    void way.refuse();
    return true;
  };
  expect(await askAs("b")).toBe(passed);
  way.losesReply = () => false;
  await sleep(300);
  await way.accept();
  await untilDecidedByRedis(started);
  await sleep(500);
  const keys = ((await redis.command("KEYS", "sluice:s3:{default:leased:*b}:a:*")) as string[]) ?? [];
  expect(keys).toHaveLength(1);
  expect(await redis.countOf(keys[0] as string)).toBe(1);
});

it("waits no longer than maxStoreWait if a policy is charged by the response or leased, and does not count it as a failure", async () => {
  const limits = [{ algorithm: "token-bucket", quota: 1_000_000, window: "1s", burst: 1_000_000 }];
  const policy = { scope: "cluster", maxStoreWait: "50ms", limits };
  const started = await startAll([
    { ...policy, name: "bytes", match: { paths: ["/bytes"] }, cost: { from: "response-bytes" } },
    { ...policy, name: "leased", match: { paths: ["/leased"] }, consistency: "leased" },
  ]);
  for (const path of ["/bytes", "/leased"]) await ask(`${started.url}${path}`);
  way.delayMs = 80;
  for (const path of ["/bytes", "/leased", "/bytes", "/leased", "/bytes", "/leased"]) {
    expect(await msTaken(`${started.url}${path}`)).toBeLessThan(130);
    await sleep(400);
  }
  expect(await started.metric("sluice_redis_breakers_open")).toBe(0);
});

it("forgets nothing of many keys whose units have long been refilled", async () => {
  const limits = [{ algorithm: "token-bucket", quota: 10, window: "100ms", burst: 1 }];
  const started = await startAll([{ name: "many", scope: "cluster", key: ["header:x-key"], limits }]);
  await way.refuse();
  for (let round = 0; round < 55; round++) {
    const keys = Array.from({ length: 200 }, (_, i) => `${round}-${i}`);
    await Promise.all(keys.map((key) => ask(started.url, { headers: { "x-key": key } })));
  }
  await sleep(300);
  expect(await started.metric("sluice_redis_forgotten_units_total")).toBe(0);
});

it("counts the units of a worker that ends during the outage as forgotten", async () => {
  const started = await start({});
  await ask(started.url);
  await way.refuse();
  expect(await askAtOnce([started.url], 30)).toEqual({ [passed]: 30 });
  process.kill(started.pid, "SIGHUP");
  await until(
    "they are counted",
    5000,
    async () => (await started.metric("sluice_redis_forgotten_units_total")) === 30,
  );
});

it("ends within two seconds of QUIT while Redis hangs", async () => {
  const started = await start({});
  await askAtOnce([started.url], 5);
  redis.hang();
  await askAtOnce([started.url], 10);
  const startedAtMs = performance.now();
  process.kill(started.pid, "SIGQUIT");
  await until("nginx has ended", 10_000, () => {
    try {
      process.kill(started.pid, 0);
      return false;
    } catch {
      return true;
    }
  });
  expect(performance.now() - startedAtMs).toBeLessThan(2000);
});

it("answers quickly while thousands of keys are owed to an unreachable Redis Cluster", async () => {
  const limits = [{ algorithm: "fixed-window", quota, window: "1d" }];
  const started = await startAll([{ name: "many", scope: "cluster", key: ["header:x-key"], limits }], {
    SLUICE_REDIS_URL: `redis+cluster://127.0.0.1:${await freePort()}`,
  });
  for (let round = 0; round < 30; round++) {
    const keys = Array.from({ length: 100 }, (_, i) => `${round}-${i}`);
    await Promise.all(keys.map((key) => ask(started.url, { headers: { "x-key": key } })));
  }
  const took: number[] = [];
  for (let i = 0; i < 20; i++) {
    took.push(await msTaken(`${started.privateUrl}/sluice/healthz`));
    await sleep(13);
  }
  // Each request took 80 ms when everything owed was scanned every 10 ms.
  expect(took.sort((a, b) => a - b)[10]).toBeLessThan(20);
});

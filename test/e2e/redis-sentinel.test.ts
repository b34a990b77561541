// With redis+sentinel://, counters are on the sentinels' primary and nowhere else.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Admission } from "../fixtures/bound.ts";
import { rightsOf } from "../fixtures/documented-rights.ts";
import { freePort, freePorts } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { primaryName, RedisSentinel, sentinelPassword } from "../fixtures/redis-sentinel.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAndLeave, askAtOnce, slowestOf } from "../fixtures/requests.ts";
import { excess } from "../fixtures/steady-load.ts";
import { until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const user = ["sluice", "on", ">s3cret/", ...rightsOf("Sentinel")];

const policy = (name: string, onStoreFailure: string, quota: number) => ({
  name,
  scope: "cluster",
  onStoreFailure,
  // Nothing else answers with this status.
  onLimit: { status: 409 },
  match: { paths: [`/${name}`] },
  limits: [{ algorithm: "fixed-window", quota, window: "366d" }],
});

const leasedLimit = { algorithm: "token-bucket", quota: 100, window: "1s" };

let redis: RedisSentinel;
const gateways: LoneGateway[] = [];
beforeAll(async () => {
  redis = await RedisSentinel.start(user);
});
afterAll(() => redis?.stop());
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.stop();
});

const url = (ports: readonly number[], signIn = `:${sentinelPassword}`) =>
  `redis+sentinel://sluice:s3cret%2F@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/${primaryName}/1?sentinel=${signIn}`;
const startGateway = async (redisUrl: string, workers = 2, deadlineMs = 5000) => {
  const gateway = await LoneGateway.start({
    policies: [
      policy("few", "deny", 30),
      policy("many", "deny", 1_000_000),
      policy("local", "local", 1_000_000),
      { ...policy("leased", "deny", 0), consistency: "leased", limits: [leasedLimit] },
    ],
    env: { SLUICE_REDIS_URL: redisUrl, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` },
    workers,
  });
  gateways.push(gateway);
  return gateway;
};

describe("with a primary, a replica and three sentinels", () => {
  const ports = () => redis.sentinels.map(({ port }) => port);

  it("two gateways count as one, in the primary's database, with only the rights that docs/cluster.md lists", async () => {
    const [a, b] = [await startGateway(url(ports())), await startGateway(url(ports()))];
    // The upstream of this test answers 404.
    expect(await askAtOnce([`${a.url}/few`, `${b.url}/few`], 200)).toEqual({ 404: 30, 409: 170 });
    const info = String(await redis.command(await redis.primaryOf(ports()[0] as number), "INFO", "keyspace"));
    // The keys are the counter, and the epoch by which gateways recognize this Redis.
    expect(info).toMatch(/^db1:keys=[12],/m);
    expect(info).not.toMatch(/^db0:/m);
  });

  it("logs that the sentinels' own password is wrong", async () => {
    const gateway = await startGateway(url(ports(), ":another"));
    expect((await ask(`${gateway.url}/many`)).status).toBe(409);
    expect(gateway.log).toMatch(/Redis did not decide: sentinel: 127\.0\.0\.1:\d+: auth: WRONGPASS/);
    expect(gateway.log).not.toContain("s3cret");
  });

  it("does not write to a replica that a sentinel calls the primary, and queries another sentinel", async () => {
    const primary = await redis.primaryOf(ports()[0] as number);
    const replica = redis.servers.find(({ port }) => port !== primary)?.port as number;
    const port = await freePort();
    const misled = await redis.runSentinel(port, replica);
    try {
      const lost = await startGateway(url([port]));
      expect((await ask(`${lost.url}/many`)).status).toBe(409);
      expect(lost.log).toContain("role: expected a primary, got a slave");
      const found = await startGateway(url([port, ...ports()]), 1);
      await ask(`${found.url}/many`);
      await sleep(150);
      expect((await ask(`${found.url}/many`)).status).toBe(404);
    } finally {
      await misled.stop("SIGKILL");
    }
  });

  it("finds the primary though the client whose request first needed the sentinels has left", async () => {
    const late = await TcpProxy.start(ports()[0] as number);
    late.delayMs = 150;
    try {
      const gateway = await startGateway(url([late.port]), 1);
      await askAndLeave(`${gateway.url}/many`, 100);
      late.delayMs = 0;
      await sleep(700);
      expect((await ask(`${gateway.url}/many`)).status).toBe(404);
    } finally {
      await late.refuse();
    }
  });

  it("queries the next sentinel if the first never answers", async () => {
    const hanging = await TcpProxy.start(ports()[0] as number);
    hanging.delayMs = 10_000;
    try {
      const gateway = await startGateway(url([hanging.port, ...ports().slice(1)]), 1, 300);
      expect(await slowestOf(`${gateway.url}/many`, 1)).toBeLessThan(500);
      await sleep(500);
      expect((await ask(`${gateway.url}/many`)).status).toBe(404);
    } finally {
      await hanging.refuse();
    }
  });

  it("lets no request wait while no sentinel answers, and retries until one does", async () => {
    const hanging = await Promise.all(ports().map((port) => TcpProxy.start(port)));
    for (const proxy of hanging) proxy.delayMs = 10_000;
    try {
      const gateway = await startGateway(url(hanging.map(({ port }) => port)), 1, 300);
      expect(await slowestOf(`${gateway.url}/many`, 1)).toBeLessThan(500);
      await sleep(900);
      expect(await slowestOf(`${gateway.url}/many`, 20)).toBeLessThan(200);
      for (const proxy of hanging) proxy.delayMs = 0;
      await sleep(1500);
      expect((await ask(`${gateway.url}/many`)).status).toBe(404);
    } finally {
      await Promise.all(hanging.map((proxy) => proxy.refuse()));
    }
  });

  it("lets no request wait while neither the primary nor the first sentinel answers, and no other primary is named", async () => {
    const [port, lonePort] = (await freePorts(2)) as [number, number];
    const lone = new RedisServer(port, {}, ["--user", ...user]);
    await lone.start();
    // Alone, this sentinel cannot agree with others on another primary.
    const sentinel = await redis.runSentinel(lonePort, port);
    const hanging = await TcpProxy.start(lonePort);
    try {
      const gateway = await startGateway(url([hanging.port, lonePort]), 1, 300);
      expect((await ask(`${gateway.url}/many`)).status).toBe(404);
      hanging.delayMs = 10_000;
      lone.hang();
      await until("the breaker is open", 10_000, async () => {
        await ask(`${gateway.url}/many`);
        return (await gateway.metric("sluice_redis_breakers_open")) === 1;
      });
      expect(await slowestOf(`${gateway.url}/many`, 300)).toBeLessThan(200);
    } finally {
      lone.goOn();
      await Promise.all([hanging.refuse(), sentinel.stop("SIGKILL"), lone.stop()]);
    }
  });

  it("follows a failover as soon as the sentinels agree on it, without an error from the gateway to any client", async () => {
    const gateway = await startGateway(url(ports()));
    const primary = await redis.primaryOf(ports()[0] as number);
    expect((await ask(`${gateway.url}/many`)).status).toBe(404);
    const statuses = new Set<number>();
    let done = false;
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!done) statuses.add((await ask(`${gateway.url}/local`)).status);
      }),
    );
    const leased: Admission[] = [];
    const leasing = (async () => {
      while (!done) {
        const sentAtMs = performance.now();
        if ((await ask(`${gateway.url}/leased`)).status === 404)
          leased.push({ sentAtMs, answeredAtMs: performance.now() });
      }
    })();
    await sleep(300);
    await redis.kill(primary);
    const successor = redis.servers.find(({ port }) => port !== primary)?.port as number;
    for (const { port } of redis.sentinels) {
      await until(
        "the sentinels agree on the other one",
        30_000,
        async () => (await redis.primaryOf(port)) === successor,
      );
    }
    const agreedAtMs = performance.now();
    // After eight decided answers in a row, every worker has found the new primary.
    let decided = 0;
    while (decided < 8 && performance.now() - agreedAtMs < 20_000) {
      decided = (await ask(`${gateway.url}/many`)).status === 404 ? decided + 1 : 0;
      if (decided === 0) await sleep(10);
    }
    const tookMs = performance.now() - agreedAtMs;
    const grants = await gateway.metric("sluice_lease_grants_total");
    await until("leases are had of the new one", 3000, async () => {
      return (await gateway.metric("sluice_lease_grants_total")) > grants + 5;
    });
    done = true;
    await load;
    await leasing;
    // At most one limit is admitted again, since the new primary lacks the last writes and leases were out.
    expect(excess(leased, 100, 100)).toBeLessThanOrEqual(2 * 100);
    expect(leased.length).toBeGreaterThan(100);
    expect(decided).toBe(8);
    expect(tookMs).toBeLessThan(1000);
    expect([...statuses]).toEqual([404]);
    const keyspace = String(await redis.command(successor, "INFO", "keyspace"));
    expect(keyspace).toMatch(/^db1:keys=[1-9]/m);
    // The breaker of the dead server is gone in whichever worker answers: none keeps probing its old address.
    let forgotten = 0;
    await until("the dead one is forgotten", 15_000, async () => {
      forgotten = (await gateway.metric("sluice_redis_breakers_open")) === 0 ? forgotten + 1 : 0;
      return forgotten === 12;
    });
    await redis.startAgain(primary);
    expect((await ask(`${gateway.url}/many`)).status).toBe(404);
  });
});

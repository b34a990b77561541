// Two gateways that are told at which p99 Redis is overloaded, and a Redis that becomes slow and quick again. All else is in
// test/gateway/stores/redis/overload_spec.lua.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { Load } from "../../fixtures/clients/load.ts";
import { ask } from "../../fixtures/clients/requests.ts";
import { mostAtOnce } from "../../fixtures/measures/bound.ts";
import { readPrometheusText } from "../../fixtures/measures/prometheus-text.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { System } from "../../fixtures/servers/system.ts";
import { TcpProxy } from "../../fixtures/servers/tcp-proxy.ts";
import { until } from "../../fixtures/until.ts";

/** Units a second, and units of the burst. */
const quota = 100;
const perSecond = 400;
const slowSeconds = 5;
/** nginx's clock advances in steps, and Redis may have charged what it was not heard of. */
const tolerance = 10;

it("two gateways decide by their shares at once while Redis is slow, within the bound, and return when it is quick", async () => {
  const redis = new RedisServer(await freePort());
  await redis.start();
  const proxy = await TcpProxy.start(redis.port);
  const system = await System.start({
    gateways: 2,
    env: { SLUICE_REDIS_URL: proxy.url, SLUICE_OVERLOAD_REDIS_P99_MS: "50" },
  });
  const metric = async (gateway: number, name: string) => {
    const { body } = await ask(`${system.gateways[gateway]?.privateUrl}/sluice/metrics`);
    return readPrometheusText(body)[name]?.samples[0]?.value;
  };
  const states = () => Promise.all([0, 1].map((gateway) => metric(gateway, "sluice_overloaded")));
  const byShares = async () => {
    const counts = await Promise.all([0, 1].map((gateway) => metric(gateway, "sluice_overload_decisions_total")));
    return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  };
  const load = new Load(
    system.gateways.map(({ url }) => `${url}/a`),
    perSecond,
    ["k"],
  );
  try {
    await system.put({
      name: "a",
      scope: "cluster",
      match: { paths: ["/a"] },
      key: ["header:x-key"],
      limits: [{ algorithm: "token-bucket", quota, window: "1s" }],
    });
    load.start();
    await sleep(2000);
    // A busy machine makes Redis slow, too.
    await until("neither gateway is overloaded", async () => (await states()).every((state) => state === 0));

    const slowFromMs = performance.now();
    proxy.delayMs = 60;
    await until("both gateways are overloaded", async () => (await states()).every((state) => state === 1));
    const overloadedFromMs = performance.now();
    const byShares0 = await byShares();
    await sleep(slowSeconds * 1000 - (overloadedFromMs - slowFromMs));
    const decidedByShares = (await byShares()) - byShares0;
    const quickFromMs = performance.now();
    proxy.delayMs = 0;
    const ready = await ask(`${system.gateways[0]?.privateUrl}/sluice/healthz`);
    expect(ready.status).toBe(200);
    await until("both gateways have returned", async () => (await states()).every((state) => state === 0));
    const returnedAtMs = performance.now();
    await sleep(2000);
    await load.stop();

    expect(returnedAtMs - quickFromMs).toBeGreaterThan(4000);
    expect(returnedAtMs - quickFromMs).toBeLessThan(15_000);
    const admissions = load.served.filter(({ status }) => status === 200);
    expect(load.served.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);

    // Nearly all are decided at once: only four probes in a second wait for Redis. How long one of them waits, overload_spec.lua says.
    const during = load.served.filter(({ sentAtMs }) => sentAtMs > overloadedFromMs && sentAtMs < quickFromMs);
    expect(during.length).toBeGreaterThan(perSecond);
    expect(decidedByShares).toBeGreaterThan(0.8 * during.length);

    // B + rt, and in addition rt while the shares decided.
    const shareSeconds = (returnedAtMs - slowFromMs) / 1000;
    expect(mostAtOnce(admissions, quota)).toBeLessThanOrEqual(quota + quota * shareSeconds + tolerance);
    const afterwards = admissions.filter(({ sentAtMs }) => sentAtMs > returnedAtMs);
    expect(afterwards.length).toBeGreaterThan(0);
    expect(mostAtOnce(afterwards, quota)).toBeLessThanOrEqual(quota + tolerance);

    for (const gateway of [0, 1]) {
      expect(await metric(gateway, "sluice_overload_decisions_total")).toBeGreaterThan(0);
      expect(await metric(gateway, "sluice_redis_late_units_total")).toBeGreaterThan(0);
    }
  } finally {
    await load.stop();
    await system.stop();
    await proxy.refuse();
    await redis.stop("SIGKILL");
  }
});

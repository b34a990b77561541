// With redis+sentinel://, counters are on the sentinels' primary and nowhere else. test/gateway/redis/redis-sentinel_spec.lua plays
// in virtual time what sentinels do wrong.

import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, askAtOnce } from "../../fixtures/clients/requests.ts";
import { excess } from "../../fixtures/clients/steady-load.ts";
import { rightsOf } from "../../fixtures/documents/documented-rights.ts";
import type { Admission } from "../../fixtures/measures/bound.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { primaryName, RedisSentinel, sentinelPassword } from "../../fixtures/servers/redis-sentinel.ts";
import { until } from "../../fixtures/until.ts";

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
let gateways: LoneGateway[] = [];
beforeAll(async () => {
  redis = await RedisSentinel.start(user);
  const signIns = [sentinelPassword, sentinelPassword, "another"];
  gateways = await Promise.all(signIns.map((password) => startGateway(url(ports(), `:${password}`))));
});
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  await redis?.stop();
});

const ports = () => redis.sentinels.map(({ port }) => port);
const url = (sentinelPorts: readonly number[], signIn: string) =>
  `redis+sentinel://sluice:s3cret%2F@${sentinelPorts.map((port) => `127.0.0.1:${port}`).join(",")}/${primaryName}/1?sentinel=${signIn}`;
const startGateway = (redisUrl: string) =>
  LoneGateway.start({
    policies: [
      policy("few", "deny", 30),
      policy("many", "deny", 1_000_000),
      policy("local", "local", 1_000_000),
      { ...policy("leased", "deny", 0), consistency: "leased", limits: [leasedLimit] },
    ],
    env: { SLUICE_REDIS_URL: redisUrl, SLUICE_REDIS_DEADLINE_MS: "5000" },
    workers: 2,
  });

it("two gateways count as one, in the primary's database, with only the rights that docs/cluster.md lists", async () => {
  const [a, b] = gateways as [LoneGateway, LoneGateway];
  // The upstream of this test answers 404.
  expect(await askAtOnce([`${a.url}/few`, `${b.url}/few`], 200)).toEqual({ 404: 30, 409: 170 });
  const info = String(await redis.command(await redis.primaryOf(ports()[0] as number), "INFO", "keyspace"));
  // The keys are the counter, and the epoch by which gateways recognize this Redis.
  expect(info).toMatch(/^db1:keys=[12],/m);
  expect(info).not.toMatch(/^db0:/m);
});

it("logs that the sentinels' own password is wrong", async () => {
  const gateway = gateways[2] as LoneGateway;
  expect((await ask(`${gateway.url}/many`)).status).toBe(409);
  expect(gateway.log).toMatch(/Redis did not decide: sentinel: 127\.0\.0\.1:\d+: auth: WRONGPASS/);
  expect(gateway.log).not.toContain("s3cret");
});

it("follows a failover as soon as the sentinels agree on it, without an error from the gateway to any client", async () => {
  const [gateway] = gateways as [LoneGateway];
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
  await until("leases are had", () => leased.length > 100);
  await redis.kill(primary);
  const successor = redis.servers.find(({ port }) => port !== primary)?.port as number;
  for (const { port } of redis.sentinels) {
    await until("the sentinels agree on the other one", async () => (await redis.primaryOf(port)) === successor);
  }
  const agreedAtMs = performance.now();
  // After eight decided answers in a row, every worker has found the new primary.
  let decided = 0;
  while (decided < 8 && performance.now() - agreedAtMs < 20_000) {
    decided = (await ask(`${gateway.url}/many`)).status === 404 ? decided + 1 : 0;
  }
  const tookMs = performance.now() - agreedAtMs;
  const grants = await gateway.metric("sluice_lease_grants_total");
  await until("leases are had of the new one", async () => {
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
  await redis.startAgain(primary);
  expect((await ask(`${gateway.url}/many`)).status).toBe(404);
});

// The name in SLUICE_REDIS_URL moves to another server while the old one still answers.
// test/gateway/redis/connection-age_spec.lua plays in virtual time what may go wrong meanwhile.

import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { gatewayToken, startControlPlane } from "../fixtures/servers/control-plane-under-test.ts";
import { DnsServer } from "../fixtures/servers/dns-server.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { onFinished } from "../fixtures/side-by-side.ts";
import { until, untilPasses, untilWithin } from "../fixtures/until.ts";

/** Connections become 30 s old at most. A busy machine may take a while to see what follows. */
const renewedWithinMs = 180_000;

const name = "redis.test";
/** Redis decides each request, or it is answered 503. */
const counted = {
  name: "counted",
  scope: "cluster",
  onStoreFailure: "deny",
  onLimit: { status: 503 },
  match: { paths: ["/counted"] },
  limits: [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }],
};
const counterKey = "sluice:s3:{default:counted:0:}:default:fixed-window:31622400000000";
/** The upstream of lone gateways answers with it. */
const admitted = 404;

async function startDns(address: string): Promise<DnsServer> {
  const dns = await DnsServer.start(1);
  onFinished(() => dns.stop());
  dns.lead(name, address);
  return dns;
}

async function startRedis(port: number, host: string): Promise<RedisServer> {
  const redis = new RedisServer(port, {}, [], host);
  onFinished(() => redis.stop());
  await redis.start();
  return redis;
}

async function startGateway(dns: DnsServer, port: number, env: NodeJS.ProcessEnv = {}): Promise<LoneGateway> {
  const gateway = await LoneGateway.start({
    policies: [counted],
    workers: 2,
    env: { SLUICE_REDIS_URL: `redis://${name}:${port}`, SLUICE_REDIS_DEADLINE_MS: "5000", ...env },
    edit: (config) =>
      config.replace(/resolver [^;]*;|(?=resolver_timeout)/, `resolver 127.0.0.1:${dns.port} ipv6=off;\n  `),
  });
  onFinished(() => gateway.stop());
  return gateway;
}

/**
 * Asks all the time, a little at once: a worker that needs no further connection makes none.
 *
 * @returns the number of answers by status
 */
async function askDuring(url: string, meanwhile: () => Promise<void>): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  let done = false;
  const all = Array.from({ length: 2 }, async () => {
    const agent = new Agent({ keepAlive: true });
    while (!done) {
      const { status } = await ask(url, { agent });
      statuses[status] = (statuses[status] ?? 0) + 1;
      await sleep(10);
    }
    agent.destroy();
  });
  try {
    await meanwhile();
  } finally {
    done = true;
    await Promise.all(all);
  }
  return statuses;
}

it("every worker goes to the new address by itself, under load, and each request is charged once", async () => {
  const port = await freePort();
  const [old, other] = await Promise.all([startRedis(port, "127.0.0.1"), startRedis(port, "127.0.0.2")]);
  const dns = await startDns("127.0.0.1");
  const gateway = await startGateway(dns, port);
  const statuses = await askDuring(`${gateway.url}/counted`, async () => {
    await until("the old server counts", async () => ((await old.countOf(counterKey)) ?? 0) > 50);
    dns.lead(name, "127.0.0.2");
    await untilWithin("only the new server counts", renewedWithinMs, async () => {
      const before = await old.countOf(counterKey);
      await sleep(3_000);
      return (await old.countOf(counterKey)) === before && (await other.countOf(counterKey)) !== undefined;
    });
  });
  const countedByOld = await old.countOf(counterKey);
  const countedByNew = (await other.countOf(counterKey)) ?? 0;
  expect(countedByNew).toBeGreaterThan(0);
  expect(statuses).toEqual({ [admitted]: (countedByOld ?? 0) + countedByNew });
  await untilPasses(async () => {
    const id = await other.command("GET", "sluice:epoch");
    expect(id).not.toBeNull();
    const health = JSON.parse((await ask(`${gateway.privateUrl}/sluice/healthz`)).body);
    expect(health).toMatchObject({ status: "ok", redis: [id] });
    const { body: metrics } = await ask(`${gateway.privateUrl}/sluice/metrics`);
    expect(metrics).toContain(`\nsluice_redis_workers{redis="${id}"} 2\n`);
  });
  expect(gateway.log.match(/Redis is another one now/g)).toHaveLength(1);
});

it("a fleet of which one gateway still finds the old address is an alarm, until the name has moved there too", async () => {
  const port = await freePort();
  const [, other] = await Promise.all([startRedis(port, "127.0.0.1"), startRedis(port, "127.0.0.2")]);
  const plane = await startControlPlane({ SLUICE_REDIS_URL: other.url, SLUICE_LOG_LEVEL: "fatal" });
  const [moved, stale] = await Promise.all([startDns("127.0.0.2"), startDns("127.0.0.1")]);
  const env = { SLUICE_CONTROL_URL: plane.url, SLUICE_GATEWAY_TOKEN: gatewayToken };
  await Promise.all([
    startGateway(moved, port, { ...env, SLUICE_GATEWAY_ID: "moved" }),
    startGateway(stale, port, { ...env, SLUICE_GATEWAY_ID: "stale" }),
  ]);
  const alarms = async () => {
    const { gateways } = (await plane.call("GET", "/gateways")).body;
    return Object.fromEntries(gateways.map(({ id, alarm }: { id: string; alarm: string | null }) => [id, alarm]));
  };
  await untilWithin("the alarm", renewedWithinMs, async () => (await alarms())["stale"] === "another-redis");
  expect(await alarms()).toEqual({ moved: null, stale: "another-redis" });
  stale.lead(name, "127.0.0.2");
  await untilWithin("the end of the alarm", renewedWithinMs, async () => (await alarms())["stale"] === null);
});

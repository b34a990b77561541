// Tests consistency: leased with real gateways and a real Redis, as far as only these can show it. All gateways together never admit more than the limit,
// admit hardly less, and call Redis seldom, also when workers are killed and replies are lost. Everything else about leases is in
// test/gateway/stores/lease/leases_spec.lua.

import { createServer, type Server, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { ask } from "../../fixtures/clients/requests.ts";
import { admitted, excess, load } from "../../fixtures/clients/steady-load.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { until } from "../../fixtures/until.ts";

const perSecond = 150;

const policy = (name: string, limit: object, more: object = {}) => ({
  name,
  scope: "cluster",
  consistency: "leased",
  match: { paths: [`/${name}`] },
  limits: [limit],
  ...more,
});
const bucket = { algorithm: "token-bucket", quota: perSecond, window: "1s", burst: perSecond };

let redis: RedisServer | undefined;
let proxy: ReplyProxy | undefined;
let gateways: LoneGateway[] = [];
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  gateways = [];
  await proxy?.stop();
  proxy = undefined;
  await redis?.stop();
  redis = undefined;
});

async function startRedis(): Promise<RedisServer> {
  redis = new RedisServer(await freePort());
  await redis.start();
  return redis;
}

/** Starts two gateways of two workers. */
async function startGateways(policies: readonly Record<string, unknown>[], env: NodeJS.ProcessEnv) {
  // Gateways that have started are stopped even if another does not start.
  const begun = Array.from({ length: 2 }, () => LoneGateway.start({ policies, env, workers: 2 }));
  for (const one of await Promise.allSettled(begun)) if (one.status === "fulfilled") gateways.push(one.value);
  await Promise.all(begun);
}

const urls = (name: string) => gateways.map(({ url }) => `${url}/${name}`);

async function scriptCalls(): Promise<number> {
  const info = `${await redis?.command("INFO", "commandstats")}`;
  return ["evalsha", "eval"].reduce(
    (sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0),
    0,
  );
}

/** Waits until idle units are returned: then each granted unit is spent, returned or expired, by the gateway's own metrics. */
async function expectEveryUnitAccounted(gateway: LoneGateway): Promise<void> {
  await until("no units are out", async () => (await gateway.metric("sluice_lease_units_out")) === 0);
  const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
  const unitsOf = (state: string) =>
    Number(new RegExp(`^sluice_lease_units_total{state="${state}"} (\\S+)$`, "m").exec(body)?.[1]);
  expect(unitsOf("granted")).toBeGreaterThan(perSecond);
  expect(unitsOf("granted")).toBe(unitsOf("spent") + unitsOf("returned") + unitsOf("expired"));
  // This counts requests, and not the cell's units: a unit lost to a race of workers is spent without admitting a request.
  const taken = await gateway.metric("sluice_lease_admitted_units_total");
  expect(taken).toBeLessThanOrEqual(unitsOf("spent"));
  expect(taken).toBeGreaterThan(unitsOf("spent") * 0.9);
  expect(await gateway.metric("sluice_lease_excess_units")).toBe(0);
}

it("two gateways of two workers saturate a token bucket and a fixed window: all that they have is admitted, and no more", async () => {
  const { url } = await startRedis();
  const window = { algorithm: "fixed-window", quota: perSecond, window: "1s" };
  await startGateways([policy("bucket", bucket), policy("window", window)], { SLUICE_REDIS_URL: url });
  const seconds = 3.5;
  const steadySeconds = 2;
  const calls = sleep((seconds - steadySeconds) * 1000).then(scriptCalls);
  const [ofBucket, ofWindow] = await Promise.all([
    load(urls("bucket"), perSecond, seconds),
    load(urls("window"), perSecond, seconds),
  ]);
  const callsPerLease = ((await scriptCalls()) - (await calls)) / steadySeconds / 4;
  expect(callsPerLease).toBeLessThanOrEqual(25);
  for (const { admissions, statuses, startedMs } of [ofBucket, ofWindow]) {
    expect(Object.keys(statuses).sort()).toEqual([`${admitted}`, "429"]);
    const steadyFromMs = startedMs + (seconds - steadySeconds) * 1000;
    const steady = admissions.filter(({ answeredAtMs }) => answeredAtMs >= steadyFromMs).length / steadySeconds;
    expect(steady).toBeGreaterThanOrEqual(0.95 * perSecond);
  }
  expect(excess(ofBucket.admissions, perSecond, perSecond)).toBeLessThanOrEqual(0);
  const windowOf = (ms: number) => Math.floor((performance.timeOrigin + ms) / 1000);
  const certain = new Map<number, number>();
  for (const { sentAtMs, answeredAtMs } of ofWindow.admissions) {
    const number = windowOf(sentAtMs);
    if (number === windowOf(answeredAtMs)) certain.set(number, (certain.get(number) ?? 0) + 1);
  }
  expect(Math.max(...certain.values())).toBeLessThanOrEqual(perSecond);
  await Promise.all(gateways.map(expectEveryUnitAccounted));
});

it("workers that are killed during an exchange are replaced, and lost replies admit nothing beyond the limit", async () => {
  const { port } = await startRedis();
  proxy = await ReplyProxy.start(port);
  // An exchange takes most of the time until the next one, so most workers are killed in the middle of one.
  proxy.delayMs = 25;
  const denying = policy("bucket", bucket, { onStoreFailure: "deny", onLimit: { status: 503 } });
  await startGateways([denying], {
    SLUICE_REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
    SLUICE_REDIS_DEADLINE_MS: "60",
  });
  const faults = (async () => {
    await sleep(600);
    for (const gateway of [...gateways, ...gateways]) {
      const [worker] = childrenOf(gateway.pid);
      process.kill(worker as number, "SIGKILL");
      await sleep(200);
      if (proxy !== undefined) proxy.loses += 1;
      await sleep(200);
    }
  })();
  const { admissions, startedMs } = await load(urls("bucket"), 1.5 * perSecond, 4);
  await faults;
  expect(proxy.lost).toBe(4);
  let counted = 0;
  for (const gateway of gateways) counted += await gateway.metric("sluice_lease_lost_replies_total");
  expect(counted).toBeGreaterThanOrEqual(2);
  expect(excess(admissions, perSecond, perSecond)).toBeLessThanOrEqual(0);
  const after = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 3000).length;
  expect(after).toBeGreaterThanOrEqual(0.95 * perSecond);
});

/** Stands between gateways and Redis: delays replies, and drops as many as `loses` says. */
class ReplyProxy {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  loses = 0;
  lost = 0;
  delayMs = 0;

  private constructor(port: number, server: Server) {
    this.port = port;
    this.#server = server;
  }

  static async start(redisPort: number): Promise<ReplyProxy> {
    const server = createServer();
    const proxy = new ReplyProxy(await freePort(), server);
    server.on("connection", (client) => {
      const upstream = new Socket().connect(redisPort, "127.0.0.1");
      for (const socket of [client, upstream]) proxy.#sockets.add(socket.on("error", () => undefined).setNoDelay());
      client.on("data", (data) => upstream.write(data)).on("close", () => upstream.destroy());
      upstream.on("close", () => client.destroy());
      upstream.on("data", (data) => {
        if (proxy.loses > 0) {
          proxy.loses -= 1;
          proxy.lost += 1;
        } else {
          setTimeout(() => client.destroyed || client.write(data), proxy.delayMs);
        }
      });
    });
    await new Promise<void>((listening) => server.listen(proxy.port, "127.0.0.1", listening));
    return proxy;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((closed) => this.#server.close(closed));
  }
}

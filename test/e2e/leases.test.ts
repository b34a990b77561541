// Tests consistency: leased with real gateways and a real Redis: all gateways together never admit more than the limit, admit
// hardly less, and call Redis seldom.

import { createServer, type Server, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway, type LoneGatewayOptions } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask } from "../fixtures/requests.ts";
import { admitted, excess, load } from "../fixtures/steady-load.ts";
import { childrenOf, type Gateway, System, until } from "../fixtures/system.ts";

const bucket = { name: "burst", algorithm: "token-bucket", quota: 400, window: "1s", burst: 400 };

const policy = (limit: object, more: object = {}) => ({
  name: "hot",
  scope: "cluster",
  consistency: "leased",
  match: { paths: ["/hot"] },
  limits: [limit],
  ...more,
});

/** Here only leases and Redis admit: onStoreFailure denies. */
const denying = policy(bucket, { onStoreFailure: "deny", onLimit: { status: 503 } });

let redis: RedisServer | undefined;
let gateways: LoneGateway[] = [];
let system: System | undefined;
afterEach(async () => {
  await system?.stop();
  system = undefined;
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  gateways = [];
  await redis?.stop();
  redis = undefined;
});

async function start(
  count: number,
  policies: readonly Record<string, unknown>[],
  options: Partial<LoneGatewayOptions> = {},
) {
  redis = new RedisServer(await freePort());
  await redis.start();
  const env = { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "200", ...options.env };
  // Gateways that have started are stopped even if another does not start.
  const begun = Array.from({ length: count }, () => LoneGateway.start({ policies, ...options, env }));
  for (const one of await Promise.allSettled(begun)) if (one.status === "fulfilled") gateways.push(one.value);
  await Promise.all(begun);
}

async function scriptCalls(): Promise<number> {
  const info = `${await redis?.command("INFO", "commandstats")}`;
  return ["evalsha", "eval"].reduce(
    (sum, name) => sum + Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0),
    0,
  );
}

const urls = () => gateways.map(({ url }) => `${url}/hot`);

describe("gateways that saturate one limit", () => {
  for (const [count, workers] of [
    [2, 2],
    [4, 1],
  ] as const) {
    it(`${count} gateways of ${workers} workers: a token bucket`, async () => {
      await start(count, [policy(bucket)], { workers });
      const seconds = 6;
      const calls = sleep(1000).then(scriptCalls);
      const { admissions, statuses, startedMs } = await load(urls(), 1000 / count, seconds);
      const callsPerGateway = ((await scriptCalls()) - (await calls)) / (seconds - 1) / count;
      expect(Object.keys(statuses).sort()).toEqual([`${admitted}`, "429"]);
      expect(excess(admissions, 400, 400)).toBeLessThanOrEqual(0);
      const steady = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 2000).length / (seconds - 2);
      expect(steady).toBeGreaterThanOrEqual(0.98 * 400);
      expect(callsPerGateway).toBeLessThanOrEqual(25);
    });
  }

  it("4 gateways: a fixed window, never above its quota", async () => {
    await start(4, [policy({ name: "each", algorithm: "fixed-window", quota: 400, window: "1s" })]);
    await sleep(1000 - (Date.now() % 1000));
    const seconds = 6;
    const calls = await scriptCalls();
    const { admissions } = await load(urls(), 200, seconds);
    const callsPerGateway = ((await scriptCalls()) - calls) / seconds / 4;
    const windowOf = (ms: number) => Math.floor((performance.timeOrigin + ms) / 1000);
    const certain = new Map<number, number>();
    for (const { sentAtMs, answeredAtMs } of admissions) {
      const window = windowOf(sentAtMs);
      if (window === windowOf(answeredAtMs)) certain.set(window, (certain.get(window) ?? 0) + 1);
    }
    expect(Math.max(...certain.values())).toBeLessThanOrEqual(400);
    expect(admissions.length).toBeGreaterThanOrEqual(0.98 * 400 * (seconds - 1));
    expect(callsPerGateway).toBeLessThanOrEqual(25);
  });

  it("a gateway that is killed takes its units with it, and the others get the whole limit again", async () => {
    await start(3, [policy(bucket)]);
    const killed = sleep(2500).then(() => kill(gateways[0] as LoneGateway));
    const { admissions, startedMs } = await load(urls(), 350, 6);
    await killed;
    expect(excess(admissions, 400, 400)).toBeLessThanOrEqual(0);
    const after = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 3500).length / 2.5;
    expect(after).toBeGreaterThanOrEqual(0.97 * 400);
  });

  it("a worker that is killed during an exchange is replaced by another", async () => {
    redis = new RedisServer(await freePort());
    await redis.start();
    const proxy = await ReplyProxy.start(redis.port);
    // An exchange takes most of the time until the next one, so most workers are killed in the middle of one.
    proxy.delayMs = 25;
    try {
      const env = { SLUICE_REDIS_URL: `redis://127.0.0.1:${proxy.port}`, SLUICE_REDIS_DEADLINE_MS: "60" };
      for (let i = 0; i < 2; i++) {
        gateways.push(await LoneGateway.start({ policies: [denying], env, workers: 2 }));
      }
      const kills = (async () => {
        for (let i = 0; i < 8; i++) {
          await sleep(500);
          const [worker] = childrenOf((gateways[i % 2] as LoneGateway).pid);
          process.kill(worker as number, "SIGKILL");
        }
      })();
      const { admissions, startedMs } = await load(urls(), 500, 7);
      await kills;
      expect(excess(admissions, 400, 400)).toBeLessThanOrEqual(0);
      const after = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 5000).length / 2;
      expect(after).toBeGreaterThanOrEqual(0.95 * 400);
    } finally {
      await proxy.stop();
    }
  });

  it("lost replies admit nothing beyond the limit", async () => {
    redis = new RedisServer(await freePort());
    await redis.start();
    const proxy = await ReplyProxy.start(redis.port);
    try {
      const env = { SLUICE_REDIS_URL: `redis://127.0.0.1:${proxy.port}`, SLUICE_REDIS_DEADLINE_MS: "50" };
      for (let i = 0; i < 2; i++) gateways.push(await LoneGateway.start({ policies: [denying], env }));
      const losses = (async () => {
        await sleep(1500);
        for (let i = 0; i < 6; i++) {
          proxy.loses += i < 3 ? 1 : 2;
          await sleep(400);
        }
      })();
      const { admissions, startedMs } = await load(urls(), 500, 6);
      await losses;
      expect(proxy.lost).toBe(9);
      let counted = 0;
      for (const gateway of gateways) counted += await gateway.metric("sluice_lease_lost_replies_total");
      expect(counted).toBeGreaterThanOrEqual(7);
      expect(excess(admissions, 400, 400)).toBeLessThanOrEqual(0);
      const after = admissions.filter(({ answeredAtMs }) => answeredAtMs >= startedMs + 4500).length / 1.5;
      expect(after).toBeGreaterThanOrEqual(0.97 * 400);
    } finally {
      await proxy.stop();
    }
  });

  it("after FLUSHALL the limit begins anew, and only what gateways held is spent besides", async () => {
    await start(2, [policy(bucket)]);
    const flushed = sleep(2000).then(() => redis?.command("FLUSHALL"));
    const { admissions } = await load(urls(), 500, 4);
    await flushed;
    // Two buckets are spent one after the other, and at most what 800 requests a second may need within a horizon.
    expect(excess(admissions, 400, 800 + 100)).toBeLessThanOrEqual(0);
    expect(excess(admissions, 400, 400)).toBeGreaterThan(200);
  });
});

describe("a leased policy", () => {
  it("is spent from the lease while Redis is gone, then decided by onStoreFailure, and leased again afterwards", async () => {
    await start(1, [policy(bucket, { onStoreFailure: "deny", onLimit: { status: 503 } })], {
      env: { SLUICE_REDIS_DEADLINE_MS: "50" },
    });
    await load(urls(), 200, 1);
    redis?.hang();
    const { statuses } = await load(urls(), 200, 2);
    redis?.goOn();
    expect(statuses[admitted]).toBeGreaterThan(3);
    expect(statuses[503]).toBeGreaterThan(200);
    await sleep(500);
    await load(urls(), 200, 0.5);
    expect(Object.keys((await load(urls(), 200, 1)).statuses)).toEqual([`${admitted}`]);
  });

  it("waits one deadline at most while Redis hangs", async () => {
    await start(1, [denying], { env: { SLUICE_REDIS_DEADLINE_MS: "400" } });
    await load(urls(), 300, 1);
    const loaded = load(urls(), 300, 3);
    await sleep(1000);
    redis?.hang();
    const { statuses, slowestMs } = await loaded;
    redis?.goOn();
    expect(statuses[503]).toBeGreaterThan(100);
    expect(slowestMs).toBeLessThan(600);
  });

  it("is charged once for a request that goes on although Redis does not decide another policy of it", async () => {
    const limit = { algorithm: "fixed-window", quota: 100, window: "366d" };
    const both = ["decided", "undecided"].map((name, i) => ({
      ...policy(limit, { onStoreFailure: "allow", priority: -i }),
      name,
    }));
    redis = new RedisServer(await freePort());
    await redis.start();
    // This user has no rights on the keys of the other policy.
    await redis.command(
      "ACL",
      "SETUSER",
      "half",
      "on",
      ">s3cret",
      "+@all",
      "~*{default:decided:*",
      "~sluice:epoch",
      "~sluice:probe",
    );
    const url = redis.url.replace("redis://", "redis://half:s3cret@");
    gateways = [await LoneGateway.start({ policies: both, env: { SLUICE_REDIS_URL: url } })];
    const keys = async () => (await redis?.command("KEYS", "*{default:decided:*")) as string[];
    for (let i = 0; i < 3; i++) {
      expect((await ask(urls()[0] as string)).status).toBe(admitted);
      await sleep(300);
    }
    const counters = (await keys()).filter((key) => !key.includes("leases"));
    expect(counters).toHaveLength(1);
    expect(await redis.countOf(counters[0] as string)).toBe(3);
  });

  it("does not wait where Redis refuses connections", async () => {
    await start(1, [denying], { env: { SLUICE_REDIS_DEADLINE_MS: "1000" } });
    for (let round = 0; round < 4; round++) {
      await load(urls(), 600, 0.6);
      // What was left of the lease has been returned, and the gateway needs Redis for more.
      await sleep(210 + round * 5);
      await redis?.stop();
      const { statuses, slowestMs } = await load(urls(), 100, 0.5);
      expect(statuses[503]).toBeGreaterThan(20);
      expect(slowestMs).toBeLessThan(500);
      await redis?.start();
    }
  });

  it("returns idle units, and accounts for every unit", async () => {
    await start(1, [policy(bucket)]);
    await load(urls(), 300, 2);
    await sleep(1200);
    const gateway = gateways[0] as LoneGateway;
    expect(await gateway.metric("sluice_lease_units_out")).toBe(0);
    const units = Object.fromEntries(
      await Promise.all(
        ["granted", "spent", "returned", "expired"].map(async (state) => [state, await unitsOf(gateway, state)]),
      ),
    );
    expect(units["granted"]).toBe(units["spent"] + units["returned"] + units["expired"]);
    expect(units["returned"]).toBeGreaterThan(0);
    expect(units["spent"]).toBeGreaterThan(400);
    expect(units["spent"]).toBeLessThanOrEqual(610);
    // This counts requests, and not the cell's units: a unit lost to a race of workers is spent without admitting a request.
    const taken = await gateway.metric("sluice_lease_admitted_units_total");
    expect(taken).toBeLessThanOrEqual(units["spent"]);
    expect(taken).toBeGreaterThan(units["spent"] * 0.95);
    expect(await gateway.metric("sluice_lease_excess_units")).toBe(0);
  });

  it("gets back the units of requests that another policy refused", async () => {
    const few = {
      name: "few",
      scope: "cluster",
      match: { paths: ["/hot"] },
      limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }],
    };
    await start(1, [policy(bucket), few]);
    const { statuses } = await load(urls(), 300, 3);
    expect(statuses[admitted]).toBe(3);
    await sleep(1200);
    expect(await unitsOf(gateways[0] as LoneGateway, "spent")).toBeLessThan(150);
  });

  it("reports what remains, and when to come again", async () => {
    await start(1, [policy({ name: "all", algorithm: "fixed-window", quota: 200, window: "366d" })]);
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    for (let i = 0; i < 210; i++) answers.push(await ask(urls()[0] as string));
    const left = answers.map(({ headers }) => Number(headers["x-ratelimit-remaining"]));
    expect(left).toEqual(Array.from({ length: 210 }, (_, i) => Math.max(199 - i, 0)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map((_, i) => (i < 200 ? admitted : 429)));
    // Workers report their counts ten times a second.
    await until("units were on lease", 2000, async () => (await unitsOf(gateways[0] as LoneGateway, "granted")) > 0);
    // Right after the last unit, a gateway that has called Redis often pauses for a moment, and reports that wait.
    const { headers } = await ask(urls()[0] as string);
    expect(headers["x-ratelimit-limit"]).toBe("200");
    expect(Number(headers["retry-after"])).toBeGreaterThanOrEqual(1);
    expect(Math.abs(Number(headers["retry-after"]) - Number(headers["x-ratelimit-reset"]))).toBeLessThanOrEqual(1);
  });

  it("tries again within two seconds after a refusal until the window's end, because units may be there again", async () => {
    await start(1, [policy({ name: "all", algorithm: "fixed-window", quota: 200, window: "366d" })]);
    expect((await load(urls(), 400, 1)).statuses[admitted]).toBe(200);
    const { headers } = await ask(urls()[0] as string);
    expect(Number(headers["retry-after"])).toBeGreaterThan(3600);
    const calls = await scriptCalls();
    await load(urls(), 100, 3);
    expect((await scriptCalls()) - calls).toBeLessThanOrEqual(4);
    await redis?.command("FLUSHALL");
    expect((await load(urls(), 100, 3)).statuses[admitted]).toBeGreaterThan(50);
  });

  it("is exact if it cannot be leased, or if a request costs more than a lease brings", async () => {
    const log = { name: "log", algorithm: "sliding-log", quota: 20, window: "1h" };
    const dear = policy({ ...bucket, quota: 1, window: "1h", burst: 1000 }, { cost: 100 });
    await start(2, [policy(log), { ...dear, name: "dear", match: { paths: ["/dear"] } }]);
    for (const [path, most, perSecond] of [
      ["hot", 20, 50],
      ["dear", 10, 8],
    ] as const) {
      const { statuses } = await load(
        gateways.map(({ url }) => `${url}/${path}`),
        perSecond,
        2,
      );
      expect(statuses[admitted]).toBe(most);
    }
  });
});

describe("an idle gateway returns the units that it holds", () => {
  it("after a reset by hand, and takes nothing from the others", async () => {
    system = await System.start({ gateways: 2, redis: true });
    await system.put(policy({ name: "all", algorithm: "fixed-window", quota: 300, window: "366d" }));
    const [idle, busy] = system.gateways as [Gateway, Gateway];
    for (let round = 0; round < 3; round++) {
      await load([`${idle.url}/hot`], 1500, 0.5);
      await system.api("DELETE", "/apps/default/counters?policy=hot");
      const { statuses } = await load([`${busy.url}/hot`], 1000, 1);
      expect(statuses[200]).toBeGreaterThan(270);
      expect(statuses[200]).toBeLessThanOrEqual(300);
      await system.api("DELETE", "/apps/default/counters?policy=hot");
    }
    // Only a machine that is busy otherwise leaves no time to return units.
    expect(await unitsOf(idle, "expired")).toBeLessThan(30);
  });

  it("though its policy was edited, with the same limits", async () => {
    system = await System.start({ redis: true });
    await system.put(policy(bucket));
    const url = `${system.gateway.url}/hot`;
    for (let round = 0; round < 4; round++) {
      await load([url], 300, 0.5);
      await system.put(policy(bucket, { onLimit: { status: 430 + round } }));
      await ask(url);
      await sleep(500);
    }
    expect(await unitsOf(system.gateway, "expired")).toBeLessThan(20);
    expect(await unitsOf(system.gateway, "returned")).toBeGreaterThan(20);
  });
});

/** @returns the units in this state */
async function unitsOf(gateway: Pick<LoneGateway, "privateUrl">, state: string): Promise<number> {
  const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
  return Number(new RegExp(`^sluice_lease_units_total{state="${state}"} (\\S+)$`, "m").exec(body)?.[1]);
}

/** Ends nginx like a crash of its machine. */
function kill(gateway: LoneGateway): void {
  for (const worker of childrenOf(gateway.pid)) process.kill(worker, "SIGSTOP");
  const workers = childrenOf(gateway.pid);
  process.kill(gateway.pid, "SIGKILL");
  for (const worker of workers) process.kill(worker, "SIGKILL");
}

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

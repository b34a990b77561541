// While Redis is unreachable, a gateway limits by its share. The share does not start anew with units that the gateway knows
// to be in use. The tests have real gateways, and a Redis that hangs.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask } from "../fixtures/requests.ts";
import { admitted, excess, load } from "../fixtures/steady-load.ts";
import { System, until } from "../fixtures/system.ts";

/** Units per second, and units of the burst. A share that started anew would admit two more seconds' worth. */
const perSecond = 200;
const burst = 400;
/** Covers the steps of nginx's clock, which are 1 ms, and what Redis charged although its reply never arrived. */
const tolerance = 10;

let redis: RedisServer | undefined;
let gateway: LoneGateway | undefined;
afterEach(async () => {
  redis?.goOn();
  await gateway?.stop();
  gateway = undefined;
  await redis?.stop("SIGKILL");
  redis = undefined;
});

async function start(consistency: string, limit: object, more: object = {}) {
  redis = new RedisServer(await freePort());
  await redis.start();
  const policy = { name: "all", scope: "cluster", consistency, key: ["header:x-user"], onMissingKey: "shared" };
  gateway = await LoneGateway.start({
    policies: [{ ...policy, match: { paths: ["/all"] }, limits: [limit], ...more }],
    env: { SLUICE_REDIS_URL: redis.url },
  });
}

const bucket = { algorithm: "token-bucket", quota: perSecond, window: "1s", burst };
const url = () => `${gateway?.url}/all`;

describe.each(["exact", "leased"])("with a bucket that Redis has just emptied, consistency %s,", (consistency) => {
  it("a share admits what refills since Redis last replied", async () => {
    await start(consistency, bucket);
    const hung = sleep(2500).then(() => redis?.hang());
    const { admissions, startedMs } = await load([url()], 600, 5);
    await hung;
    expect(excess(admissions, perSecond, burst)).toBeLessThanOrEqual(tolerance);
    const during = admissions.filter(({ sentAtMs }) => sentAtMs >= startedMs + 3000).length / 2;
    expect(during).toBeGreaterThanOrEqual(0.9 * perSecond);
    expect(during).toBeLessThanOrEqual(1.1 * perSecond);
  });

  it("ten outages in a row admit no more than what refills during them", async () => {
    await start(consistency, bucket);
    let awayMs = 0;
    const outages = (async () => {
      await sleep(2000);
      for (let outage = 0; outage < 10; outage++) {
        const hungMs = performance.now();
        redis?.hang();
        await sleep(200);
        redis?.goOn();
        // By then a probe has been answered.
        await sleep(300);
        awayMs += performance.now() - hungMs;
      }
    })();
    const { admissions } = await load([url()], 600, 7.5);
    await outages;
    expect(excess(admissions, perSecond, burst)).toBeLessThanOrEqual((perSecond * awayMs) / 1000 + tolerance);
  });
});

it("a key that the gateway knows nothing about has its whole share", async () => {
  await start("exact", bucket);
  await load([url()], 600, 1.5);
  redis?.hang();
  const headers = { "x-user": "cold" };
  const statuses = [];
  for (let i = 0; i < 100; i++) statuses.push((await ask(url(), { headers })).status);
  expect(new Set(statuses)).toEqual(new Set([admitted]));
});

it.each(["exact", "leased"])("a used-up fixed window leaves nothing to the share: %s", async (consistency) => {
  await start(consistency, { algorithm: "fixed-window", quota: 50, window: "366d" });
  expect((await load([url()], 200, 1)).statuses[admitted]).toBe(50);
  redis?.hang();
  expect((await load([url()], 200, 3)).statuses[admitted]).toBeUndefined();
});

it.each(["exact", "leased"])("a fixed window that ends during the outage refills: %s", async (consistency) => {
  const windowMs = 4000;
  const perSecond = 100;
  await start(consistency, { algorithm: "fixed-window", quota: (perSecond * windowMs) / 1000, window: "4s" });
  // The load starts 1.5 s before the window's end, and uses the window up within 0.7 s.
  await sleep(windowMs - ((Date.now() + 1500) % windowMs));
  let hungMs = 0;
  const hung = sleep(1000).then(() => {
    redis?.hang();
    hungMs = performance.now();
  });
  const { admissions } = await load([url()], 600, 3);
  await hung;
  const during = admissions.filter(({ sentAtMs }) => sentAtMs >= hungMs).length;
  expect(during).toBeLessThanOrEqual(1.5 * perSecond + tolerance);
  expect(during).toBeGreaterThanOrEqual(1.2 * perSecond);
});

it("what Redis refused right after the start is still known when it goes away", async () => {
  await start("exact", { algorithm: "token-bucket", quota: 10, window: "366d" });
  const statusesOf = async (requests: number) => {
    const statuses = [];
    for (let i = 0; i < requests; i++) statuses.push((await ask(url())).status);
    return statuses;
  };
  expect((await statusesOf(13)).filter((status) => status === admitted)).toHaveLength(10);
  // This is longer than a worker takes until it first checks whether Redis is another one.
  await sleep(3000);
  await redis?.stop("SIGKILL");
  expect(await statusesOf(3)).toEqual([429, 429, 429]);
});

it("a limit that did not refuse does not count as used up because another one refused", async () => {
  const daily = { name: "daily", algorithm: "fixed-window", quota: 1000, window: "366d" };
  await start("exact", daily, {
    limits: [{ name: "burst", algorithm: "token-bucket", quota: 20, window: "1s" }, daily],
  });
  const { statuses } = await load([url()], 100, 1);
  expect(statuses[429]).toBeGreaterThan(0);
  redis?.hang();
  const during = (await load([url()], 100, 2)).statuses[admitted];
  expect(during).toBeGreaterThanOrEqual(30);
  expect(during).toBeLessThanOrEqual(2 * 20 + 2);
});

it("a gateway that starts while control plane and Redis are down has its share, not the whole", async () => {
  const system = await System.start({ gateways: 2, redis: true });
  try {
    const limit = { algorithm: "token-bucket", quota: 10, window: "366d" };
    await system.put({ name: "all", scope: "cluster", match: { paths: ["/all"] }, limits: [limit] });
    const { gateway } = system;
    const restart = async () => {
      await gateway.program.stop();
      await system.startGatewayAgain(gateway);
    };
    const limitReported = async () => (await ask(`${gateway.url}/all`)).headers["x-ratelimit-limit"];
    const log = () => readFileSync(join(gateway.directory, "error.log"), "utf8");
    const file = join(gateway.directory, "workers", "live-gateways");
    await until("both are told of each other", 5000, () => readFileSync(file, "utf8") === "2\n");
    await system.killControlPlane();
    await system.redis?.stop("SIGKILL");
    await restart();
    expect(await limitReported()).toBe("5");

    expect(log()).not.toContain("live-gateways is damaged");
    writeFileSync(file, "0\n");
    await restart();
    expect(await limitReported()).toBe("10");
    expect(log().split("live-gateways is damaged")).toHaveLength(2);
  } finally {
    await system.stop();
  }
});

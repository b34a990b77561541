// Two gateways count in one Redis: the fleet has one limit, not one per gateway.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { readPrometheusText } from "../fixtures/prometheus-text.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { System, until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

let system: System;
/** One gateway with a shorter deadline, which is 20 ms away from its Redis. */
let prompt: System;
const deadlineMs = 1000;
let distant: RedisServer;
let way: TcpProxy;
beforeAll(async () => {
  // This deadline is longer than Redis hangs in any of the tests with this system.
  system = await System.start({ gateways: 2, workers: 2, redis: true, env: { SLUICE_REDIS_DEADLINE_MS: "5000" } });
  distant = new RedisServer(await freePort());
  await distant.start();
  way = await TcpProxy.start(distant.port);
  way.delayMs = 10;
  prompt = await System.start({ env: { SLUICE_REDIS_URL: way.url, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` } });
});
afterAll(async () => {
  await system?.stop();
  await prompt?.stop();
  await way?.refuse();
  await distant?.stop();
});

/** Starts Redis again, and waits until every worker has probed it, which happens at least four times a second. */
async function redisIsBack(): Promise<void> {
  await system.redis?.start();
  await sleep(700);
}

async function sumOfPrompt(metric: string): Promise<number> {
  const families = readPrometheusText((await ask(`${prompt.gateway.privateUrl}/sluice/metrics`)).body);
  return families[metric]?.samples.reduce((sum, { value }) => sum + value, 0) ?? Number.NaN;
}

async function failuresOfPrompt(): Promise<number> {
  // Workers report their counts ten times a second.
  await sleep(300);
  return sumOfPrompt("sluice_redis_failures_total");
}

const urls = (path: string) => system.gateways.map(({ url }) => url + path);

describe("a fleet of two gateways", () => {
  it("admits exactly 200 of 1,000 concurrent requests, also after Redis came back without its scripts", async () => {
    await system.put({
      name: "two-hundred",
      scope: "cluster",
      match: { paths: ["/two-hundred"] },
      limits: [{ algorithm: "fixed-window", quota: 200, window: "1d" }],
    });
    expect(await askAtOnce(urls("/two-hundred"), 1000)).toEqual({ 200: 200, 429: 800 });
    await system.redis?.stop();
    await redisIsBack();
    // What the former Redis had refused is remembered until the gateway notices that its epoch is gone.
    await sleep(1500);
    expect(await askAtOnce(urls("/two-hundred"), 1000)).toEqual({ 200: 200, 429: 800 });
  });

  it("shows no client an error while Redis restarts under load, nor while it is down", async () => {
    await system.put({
      name: "restart",
      scope: "cluster",
      match: { paths: ["/restart"] },
      limits: [{ algorithm: "token-bucket", quota: 100, window: "1s" }],
    });
    const statuses = new Set<number>();
    let done = false;
    const offer = async (url: string) => {
      while (!done) statuses.add((await ask(url)).status);
    };
    const load = Promise.all([...urls("/restart"), ...urls("/restart")].map(offer));
    await sleep(500);
    await system.redis?.stop("SIGKILL");
    await sleep(1000);
    await redisIsBack();
    await sleep(500);
    done = true;
    await load;
    expect([...statuses].sort()).toEqual([200, 429]);
  });

  it("decides on each node by its share while Redis is down: 100 of 200 on each of two", async () => {
    await system.put({
      name: "share",
      scope: "cluster",
      match: { paths: ["/share"] },
      limits: [{ algorithm: "fixed-window", quota: 200, window: "1d" }],
    });
    await system.redis?.stop();
    expect(await askAtOnce(urls("/share").slice(0, 1), 300)).toEqual({ 200: 100, 429: 200 });
    expect(await askAtOnce(urls("/share").slice(1), 300)).toEqual({ 200: 100, 429: 200 });
    await redisIsBack();
  });

  it("allows or denies while Redis is down if the policy says so", async () => {
    const policy = (name: string, onStoreFailure: string) => ({
      name,
      scope: "cluster",
      onStoreFailure,
      match: { paths: [`/${name}`] },
      limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }],
    });
    await system.put(policy("open", "allow"));
    await system.put(policy("shut", "deny"));
    await system.redis?.stop();
    expect(await askAtOnce(urls("/open"), 10)).toEqual({ 200: 10 });
    expect(await askAtOnce(urls("/shut"), 10)).toEqual({ 429: 10 });
    await redisIsBack();
  });

  it("waits for a hanging Redis no longer than the deadline, then decides by the node's share", async () => {
    await prompt.put({
      name: "hang",
      scope: "cluster",
      match: { paths: ["/hang"] },
      limits: [{ algorithm: "fixed-window", quota: 20, window: "366d" }],
    });
    const url = `${prompt.gateway.url}/hang`;
    await ask(url);
    distant.hang();
    try {
      const startedAtMs = performance.now();
      expect(await askAtOnce([url], 30)).toEqual({ 200: 20, 429: 10 });
      // The rest is what this machine may be slow by.
      expect(performance.now() - startedAtMs).toBeLessThan(deadlineMs + 800);
    } finally {
      distant.goOn();
    }
  });

  // Sent to Redis one after the other, the 200 that are admitted would wait for four seconds; together they wait for a few replies.
  it("does not take a burst for an outage: admits exactly 200 of 500 at once, each well within the deadline", async () => {
    await prompt.put({
      name: "burst",
      scope: "cluster",
      match: { paths: ["/burst"] },
      limits: [{ algorithm: "fixed-window", quota: 200, window: "366d" }],
    });
    await until("what hung before is over", 5000, async () => (await sumOfPrompt("sluice_redis_breakers_open")) === 0);
    const failuresBefore = await failuresOfPrompt();
    expect(await askAtOnce([`${prompt.gateway.url}/burst`], 500)).toEqual({ 200: 200, 429: 300 });
    expect(await failuresOfPrompt()).toBe(failuresBefore);
  });

  it("leaves room for one request in a node's share, whatever it costs", async () => {
    await system.put({
      name: "dear",
      scope: "cluster",
      match: { paths: ["/dear"] },
      cost: 5,
      limits: [{ algorithm: "fixed-window", quota: 8, window: "366d" }],
    });
    await system.redis?.stop();
    expect(await askAtOnce(urls("/dear").slice(0, 1), 5)).toEqual({ 200: 1, 429: 4 });
    await redisIsBack();
  });

  it("refunds to a node counter only what belongs to its current window", async () => {
    const windowMs = 3000;
    await system.put({
      name: "first",
      priority: 1,
      match: { paths: ["/border"] },
      limits: [{ algorithm: "fixed-window", quota: 30, window: `${windowMs}ms` }],
    });
    await system.put({
      name: "second",
      scope: "cluster",
      match: { paths: ["/border"] },
      limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
    });
    const url = `${system.gateway.url}/border`;
    expect((await ask(url)).status).toBe(200);
    // Twenty requests are charged at the node just before the border, and refused by Redis just behind it.
    await sleep(windowMs - (Date.now() % windowMs) + windowMs - 400);
    system.redis?.hang();
    const before = askAtOnce([url], 20);
    await sleep(800);
    // This request opens the next window, so that a wrong refund would take from it.
    const behind = askAtOnce([url], 1);
    await sleep(100);
    system.redis?.goOn();
    expect([await before, await behind]).toEqual([{ 429: 20 }, { 429: 1 }]);
    await system.api("DELETE", "/apps/default/policies/second?wait=5s");
    expect(await askAtOnce([url], 60)).toEqual({ 200: 30, 429: 30 });
  });

  describe("where a counter's key in Redis holds something else, in calls shared with other keys,", () => {
    const quota = 4;
    const algorithms = ["fixed-window", "token-bucket", "sliding-window", "sliding-log"];
    it.each(algorithms.flatMap((algorithm) => [1, 2].map((limits) => [algorithm, limits] as const)))(
      "a %s counts as if it were new: %d limits",
      async (algorithm, count) => {
        const name = `foreign-${algorithm}-${count}`;
        const limits = ["a", "b"]
          .slice(0, count)
          .map((each) => ({ name: each, algorithm, quota, window: "366d", burst: quota }));
        if (!algorithm.endsWith("bucket")) for (const limit of limits) delete (limit as { burst?: number }).burst;
        await system.put({ name, scope: "cluster", key: ["header:x-user"], match: { paths: [`/${name}`] }, limits });
        const keyOf = (user: string) =>
          `sluice:s3:{default:${name}:1:${user}}:a:${algorithm}:31622400000000${algorithm === "sliding-window" ? "/3162240000000" : ""}`;
        await system.redis?.command("SET", keyOf("text"), "not a counter");
        await system.redis?.command("LPUSH", keyOf("list"), "not even a text");
        const users = ["text", "list", "innocent"];
        const ask = async (user: string) => [
          user,
          await askAtOnce(urls(`/${name}`), 20, { headers: { "x-user": user } }),
        ];
        const reported = Object.fromEntries(await Promise.all(users.map(ask)));
        for (const user of users) expect(reported[user], user).toEqual({ 200: quota, 429: 16 });
        for (const user of users) expect(await system.redis?.command("TYPE", keyOf(user)), user).toBe("string");
      },
    );
  });

  it("charges all cluster policies of a request or none", async () => {
    const policy = (name: string, quota: number) => ({
      name,
      scope: "cluster",
      match: { paths: ["/both"] },
      limits: [{ name, algorithm: "fixed-window", quota, window: "1d" }],
    });
    await system.put(policy("narrow", 5));
    await system.put(policy("wide", 100));
    expect(await askAtOnce(urls("/both"), 50)).toEqual({ 200: 5, 429: 45 });
    await system.api("DELETE", "/apps/default/policies/narrow?wait=5s");
    const { headers } = await ask(urls("/both")[0] as string);
    expect(headers["x-ratelimit-remaining"]).toBe("94");
  });
});

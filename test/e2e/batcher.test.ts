// Tests what a gateway spares Redis: requests that come together share a call, a refusal is remembered instead of requested
// again, and a Redis that fails is left alone until it is back.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { readPrometheusText } from "../fixtures/prometheus-text.ts";
import { ask, askAtOnce } from "../fixtures/requests.ts";
import { System, until } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ redis: true, env: { SLUICE_REDIS_DEADLINE_MS: "1000", SLUICE_WORKERS: "1" } });
});
afterAll(async () => {
  await system?.stop();
});

/** @returns calls of scripts by gateways, as Redis counts them; the control plane's look at its rights each second is EVAL */
async function scriptCalls(): Promise<number> {
  const stats = String(await system.redis?.command("INFO", "commandstats"));
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
}

async function metric(name: string): Promise<number> {
  const families = readPrometheusText((await ask(`${system.gateway.privateUrl}/sluice/metrics`)).body);
  return families[name]?.samples[0]?.value ?? Number.NaN;
}

const at = (path: string) => [`${system.gateway.url}${path}`];

describe("requests that come together", () => {
  it.each(["token-bucket", "fixed-window", "sliding-window", "sliding-log"])(
    "are decided exactly, by few calls: %s",
    async (algorithm) => {
      await system.put({
        name: `together-${algorithm}`,
        scope: "cluster",
        match: { paths: [`/together/${algorithm}`] },
        limits: [{ algorithm, quota: 50, window: "1h" }],
      });
      const before = await scriptCalls();
      expect(await askAtOnce(at(`/together/${algorithm}`), 500)).toEqual({ 200: 50, 429: 450 });
      expect((await scriptCalls()) - before).toBeLessThan(100);
    },
  );

  it("are charged by all limits or none where a policy has several, and alongside policies of one limit", async () => {
    const limits = [
      { name: "few", algorithm: "fixed-window", quota: 20, window: "1h" },
      { name: "many", algorithm: "token-bucket", quota: 40, window: "1h" },
    ];
    await system.put({ name: "several", scope: "cluster", match: { paths: ["/several"] }, limits });
    await system.put({ name: "single", scope: "cluster", match: { paths: ["/single"] }, limits: limits.slice(1) });
    const before = await scriptCalls();
    const [several, single] = await Promise.all([askAtOnce(at("/several"), 200), askAtOnce(at("/single"), 200)]);
    expect([several, single]).toEqual([
      { 200: 20, 429: 180 },
      { 200: 40, 429: 160 },
    ]);
    // Each limit of a policy with several is a call of its own, but the calls share the round trip.
    expect((await scriptCalls()) - before).toBeLessThan(390);
    expect(await metric("sluice_redis_batched_counters_total")).toBeGreaterThan(
      2 * (await metric("sluice_redis_batches_total")),
    );
    await system.put({ name: "several", scope: "cluster", match: { paths: ["/several"] }, limits: limits.slice(1) });
    // The second limit was not charged for what the first refused.
    expect(await askAtOnce(at("/several"), 60)).toEqual({ 200: 20, 429: 40 });
  });

  it("leave no slot taken when a client goes away while it waits for Redis", async () => {
    await system.put({
      name: "slots",
      scope: "cluster",
      match: { paths: ["/slots"] },
      limits: [{ algorithm: "concurrency", quota: 3, ttl: "1m" }],
    });
    const waiting = askAtOnce(at("/slots"), 2);
    await waiting;
    system.redis?.hang();
    const gone = Array.from({ length: 6 }, () =>
      fetch(`${system.gateway.url}/slots`, { signal: AbortSignal.timeout(300) }).catch(() => undefined),
    );
    await Promise.all(gone);
    await sleep(100);
    system.redis?.goOn();
    await until("all slots are back", 3000, async () => {
      const key = "sluice:s3:{default:slots:0:}:default:concurrency:60000000";
      return ((await system.redis?.countOf(key)) ?? 0) === 0;
    });
  });
});

describe("a refusal", () => {
  const daily = (quota: number) => ({
    name: "daily",
    scope: "cluster",
    match: { paths: ["/daily"] },
    limits: [{ algorithm: "fixed-window", quota, window: "1d" }],
  });

  it("is remembered: a flood over the limit sends nothing to Redis and gets the same answer", async () => {
    await system.put(daily(5));
    expect(await askAtOnce(at("/daily"), 20)).toEqual({ 200: 5, 429: 15 });
    const before = await scriptCalls();
    const first = await ask(at("/daily")[0] as string);
    // The wait lasts until midnight UTC, which is longer than a gateway remembers a refusal.
    const untilMidnight = 86_400 - ((Date.now() / 1000) % 86_400);
    if (untilMidnight > 120) expect(Number(first.headers["retry-after"])).toBeGreaterThan(untilMidnight - 5);
    await sleep(1100);
    const later = await ask(at("/daily")[0] as string);
    expect(await askAtOnce(at("/daily"), 500)).toEqual({ 429: 500 });
    expect((await scriptCalls()) - before).toBe(0);
    await until("502 are counted as remembered", 2000, async () => {
      const { body } = await ask(`${system.gateway.privateUrl}/sluice/metrics`);
      return Number(/^sluice_redis_refusals_remembered_total (\d+)/m.exec(body)?.[1]) >= 502;
    });
    expect(first.status).toBe(429);
    for (const field of ["type", "violated-policies"]) {
      expect(JSON.parse(later.body)[field]).toEqual(JSON.parse(first.body)[field]);
    }
    expect(later.headers["x-ratelimit-limit"]).toBe("5");
    expect(later.headers["x-ratelimit-remaining"]).toBe("0");
    const waited = Number(first.headers["retry-after"]) - Number(later.headers["retry-after"]);
    expect(waited).toBeGreaterThanOrEqual(1);
    expect(waited).toBeLessThanOrEqual(2);
  });

  it("is forgotten when the policy is edited", async () => {
    await system.put(daily(8));
    expect(await askAtOnce(at("/daily"), 20)).toEqual({ 200: 3, 429: 17 });
  });

  it("is forgotten within two seconds after Redis was emptied", async () => {
    await sleep(1500);
    await system.redis?.command("FLUSHALL");
    await until("Redis is asked again", 2500, async () => (await ask(at("/daily")[0] as string)).status === 200);
  });

  it("is remembered no longer than it holds: a bucket of 20 a second is fully used", async () => {
    await system.put({
      name: "steady",
      scope: "cluster",
      match: { paths: ["/steady"] },
      limits: [{ algorithm: "token-bucket", quota: 20, window: "1s", burst: 1 }],
    });
    const startedAtMs = performance.now();
    let admitted = 0;
    while (performance.now() - startedAtMs < 3000) {
      if ((await ask(at("/steady")[0] as string)).status === 200) admitted += 1;
    }
    expect(admitted).toBeGreaterThanOrEqual(54);
    expect(admitted).toBeLessThanOrEqual(62);
  });
});

describe("a Redis that fails", () => {
  it("is left alone after some failed calls, so that no request waits for it, and tried again within half a second", async () => {
    await system.put({
      name: "local",
      scope: "cluster",
      match: { paths: ["/local"] },
      limits: [{ algorithm: "fixed-window", quota: 100_000, window: "1d" }],
    });
    const url = at("/local")[0] as string;
    await ask(url);
    system.redis?.hang();
    await askAtOnce([url], 10);
    await until("the breaker is open", 5000, async () => {
      await ask(url);
      return (await metric("sluice_redis_breakers_open")) === 1;
    });
    const startedAtMs = performance.now();
    for (let i = 0; i < 50; i++) expect((await ask(url)).status).toBe(200);
    // The deadline is a second: none of the fifty waited for it.
    expect(performance.now() - startedAtMs).toBeLessThan(900);
    system.redis?.goOn();
    await until("the breaker is closed", 2000, async () => (await metric("sluice_redis_breakers_open")) === 0);
    // Requests that passed meanwhile have been charged by then.
    await sleep(300);
    const before = await scriptCalls();
    await ask(url);
    expect((await scriptCalls()) - before).toBe(1);
  });

  it("is left alone too when it refuses every call of a batch", async () => {
    const urls: string[] = [];
    for (const name of ["refused-a", "refused-b"]) {
      await system.put({
        name,
        scope: "cluster",
        match: { paths: [`/${name}`] },
        limits: [{ algorithm: "fixed-window", quota: 100_000, window: "1d" }],
      });
      urls.push(...at(`/${name}`));
    }
    const [a, b] = urls as [string, string];
    await askAtOnce(urls, 4);
    // By now no call is under way.
    await sleep(200);
    await system.redis?.command("CONFIG", "SET", "maxmemory", "1");
    try {
      const before = await scriptCalls();
      system.redis?.hang();
      const asked: Promise<unknown>[] = [];
      // The first request is sent by itself, the second in the first batch, and the others together in the next.
      for (const url of [a, a, a, b]) {
        asked.push(ask(url));
        await sleep(30);
      }
      system.redis?.goOn();
      await Promise.all(asked);
      // After the third failure, no request is tried once more by itself.
      expect((await scriptCalls()) - before).toBe(4);
    } finally {
      system.redis?.goOn();
      await system.redis?.command("CONFIG", "SET", "maxmemory", "0");
    }
  });
});

describe("a Redis that takes long", () => {
  const deadlineMs = 400;
  const key = "sluice:s3:{default:far:0:}:default:fixed-window:86400000000";
  const hurriedKey = key.replace("far", "hurried");
  const far = {
    scope: "cluster",
    onStoreFailure: "deny",
    onLimit: { status: 409 },
    limits: [{ algorithm: "fixed-window", quota: 100_000, window: "1d" }],
  };
  let way: TcpProxy;
  let gateway: LoneGateway;
  beforeAll(async () => {
    const redis = system.redis;
    if (redis === undefined) throw new Error("there is no Redis");
    way = await TcpProxy.start(redis.port);
    gateway = await LoneGateway.start({
      policies: [
        { ...far, name: "far", match: { paths: ["/"] } },
        { ...far, name: "hurried", match: { paths: ["/hurried"] }, maxStoreWait: "100ms" },
      ],
      env: { SLUICE_REDIS_URL: way.url, SLUICE_REDIS_DEADLINE_MS: `${deadlineMs}` },
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    await way?.refuse();
  });

  /** Sends some 200 requests a second. @returns answers by status; 404 means passed, as nothing is behind the gateway */
  async function offer(forMs: number, path = "/"): Promise<Record<number, number>> {
    const answers: Promise<{ status: number }>[] = [];
    const endAtMs = performance.now() + forMs;
    while (performance.now() < endAtMs) {
      answers.push(ask(`${gateway.url}${path}`));
      await sleep(5);
    }
    const statuses: Record<number, number> = {};
    for (const { status } of await Promise.all(answers)) statuses[status] = (statuses[status] ?? 0) + 1;
    return statuses;
  }

  it("still decides, up to three quarters of the deadline: no request waits for the replies to others as well", async () => {
    way.delayMs = 120;
    const statuses = await offer(2000);
    expect(Object.keys(statuses)).toEqual(["404"]);
    expect(await system.redis?.countOf(key)).toBe(statuses[404]);
  });

  it("still decides when its replies wait for one another, each longer than a deadline", async () => {
    way.delayMs = 170;
    const before = (await system.redis?.countOf(key)) ?? 0;
    const statuses = await offer(2000);
    expect(Object.keys(statuses)).toEqual(["404"]);
    expect(await system.redis?.countOf(key)).toBe(before + (statuses[404] ?? 0));
  });

  it("refunds what it charged too late for a policy with a shorter wait, and the metrics count it", async () => {
    const before = (await system.redis?.countOf(hurriedKey)) ?? 0;
    const { 404: decided = 0, 409: late = 0 } = await offer(2000, "/hurried");
    expect(late).toBeGreaterThan(50);
    await until("nobody is charged but who passed", 3000, async () => {
      return ((await system.redis?.countOf(hurriedKey)) ?? 0) === before + decided;
    });
    await until("who was late is counted", 2000, async () => {
      const { body } = await ask(`${gateway.privateUrl}/sluice/metrics`);
      return body.includes(`sluice_redis_failures_total{kind="late"} ${late}`);
    });
  });
});

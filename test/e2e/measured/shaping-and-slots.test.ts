// Two algorithms do more than allow or refuse: a leaky-bucket has requests wait for their turn, and concurrency counts the
// requests that are still running, wherever they are counted and however they end. Their schedules are played in
// test/gateway/virtual (delay_spec.lua, slots_spec.lua); real nginx, Redis and sockets show here that they do the same.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ask, countStatuses } from "../../fixtures/clients/requests.ts";
import { freePort } from "../../fixtures/servers/free-ports.ts";
import { HeldService } from "../../fixtures/servers/held-service.ts";
import { LoneGateway } from "../../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../../fixtures/servers/redis-server.ts";
import { childrenOf } from "../../fixtures/servers/system.ts";
import { TcpProxy } from "../../fixtures/servers/tcp-proxy.ts";
import { until, untilPasses } from "../../fixtures/until.ts";

const shapes = { algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 5 };
/** The same limits once in shared memory and once in Redis. */
const inBoth = (name: string, limits: object[]) => [
  { name, match: { paths: [`/${name}`] }, limits },
  { name: `${name}-fleet`, match: { paths: [`/${name}-fleet`] }, scope: "cluster", limits },
];
const policies = [
  ...inBoth("shaped", [shapes]),
  {
    name: "swift",
    match: { paths: ["/swift"] },
    scope: "cluster",
    key: ["header:x-key"],
    limits: [{ algorithm: "leaky-bucket", quota: 200, window: "1s", burst: 5 }],
  },
  ...inBoth("slots", [{ algorithm: "concurrency", quota: 3 }]),
  ...inBoth("short", [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "1s" }]),
];

let service: HeldService;
let redis: RedisServer;
let gateway: LoneGateway;
let proxy: TcpProxy;
/** Has one worker and a Redis 40 ms away. */
let distant: LoneGateway;

beforeAll(async () => {
  service = await HeldService.start();
  redis = new RedisServer(await freePort());
  await redis.start();
  proxy = await TcpProxy.start(redis.port);
  proxy.delayMs = 20;
  // A busy machine may be slow with hundreds of requests at once, and Redis must decide each of them.
  const env = { SLUICE_UPSTREAM: service.url, SLUICE_REDIS_DEADLINE_MS: "10000" };
  [gateway, distant] = await Promise.all([
    LoneGateway.start({
      policies,
      workers: 2,
      env: { ...env, SLUICE_REDIS_URL: redis.url },
      edit: (config) =>
        config.replace(
          "location / {",
          'location = /sorry { return 200 "sorry"; }\n location / { error_page 502 /sorry; proxy_intercept_errors on;',
        ),
    }),
    LoneGateway.start({
      policies: [
        {
          name: "own-keys",
          scope: "cluster",
          key: ["header:x-key"],
          match: { paths: ["/own-keys"] },
          limits: [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "2s" }],
        },
      ],
      env: { ...env, SLUICE_REDIS_URL: proxy.url },
    }),
  ]);
});
afterEach(async () => {
  service.reset();
  // Slots are freed right after the answer.
  await sleep(50);
});
afterAll(async () => {
  await Promise.all([gateway?.stop(), distant?.stop()]);
  await proxy?.refuse();
  await redis?.stop();
  service?.stop();
});

/** Requests to all of these paths at the same time. */
const atEach = <Path extends string>(paths: readonly Path[], run: (path: Path) => Promise<void>) =>
  Promise.all(paths.map(run));

it("a leaky-bucket of 5/s lets one request go at once and five wait, 200 ms apart, and refuses the rest at once", async () => {
  service.holds = false;
  await atEach(["/shaped", "/shaped-fleet"], async (path) => {
    const startedAtMs = performance.now();
    const refusedAfterMs: number[] = [];
    const answers = await Promise.all(
      Array.from({ length: 9 }, async () => {
        const answer = await ask(gateway.url + path);
        if (answer.status === 429) refusedAfterMs.push(performance.now() - startedAtMs);
        return answer;
      }),
    );
    expect(countStatuses(answers)).toEqual({ 200: 6, 429: 3 });
    expect(Math.max(...refusedAfterMs)).toBeLessThan(600);
    const arrivedAtMs = service.arrivedAtMs(path);
    const gaps = arrivedAtMs.slice(1).map((atMs, i) => atMs - (arrivedAtMs[i] as number));
    const median = gaps.toSorted((a, b) => a - b)[2] as number;
    expect(median).toBeGreaterThan(190);
    expect(median).toBeLessThan(210);
    for (const [i, atMs] of arrivedAtMs.entries()) expect(atMs - startedAtMs).toBeGreaterThan(i * 200 - 3);
  });
});

it("a leaky-bucket never lets a request go before its turn, not even by a part of a ms", async () => {
  service.holds = false;
  const turnMs = 1000 / 200;
  const sentAtMs: number[] = [];
  // Several keys at a time, each with a turn of its own.
  await Promise.all(
    Array.from({ length: 4 }, async (_, first) => {
      for (let i = first; i < 400; i += 4) {
        const headers = { "x-key": `${i}` };
        sentAtMs[i] = performance.now();
        await ask(`${gateway.url}/swift`, { headers });
        await ask(`${gateway.url}/swift`, { headers });
      }
    }),
  );
  // The second request of each key arrives last.
  const arrivals = service.arrivals.filter(({ path }) => path === "/swift");
  const arrivedAtMs = new Map(arrivals.map(({ key, atMs }) => [Number(key), atMs]));
  expect(arrivedAtMs.size).toBe(400);
  const waitsMs = sentAtMs.map((atMs, i) => (arrivedAtMs.get(i) as number) - atMs);
  // The two clocks may differ a little in pace.
  expect(Math.min(...waitsMs)).toBeGreaterThan(turnMs - 0.01);
});

describe("concurrency", () => {
  const slots = ["/slots", "/slots-fleet"] as const;
  const short = ["/short", "/short-fleet"] as const;

  it("of 3 runs three of ten, refuses seven, and takes new ones as those end", async () => {
    await atEach(slots, async (path) => {
      const first = Array.from({ length: 10 }, () => ask(gateway.url + path));
      await until("three run", () => service.runningAt(path) === 3);
      await sleep(100);
      expect(service.runningAt(path)).toBe(3);
      service.answerAt(path, 1);
      await until("one has ended", () => service.runningAt(path) === 2);
      await sleep(50);
      const next = [ask(gateway.url + path), ask(gateway.url + path)];
      await until("another runs", () => service.runningAt(path) === 3);
      const refused = await ask(gateway.url + path);
      expect(refused.headers["ratelimit-policy"]).toBe('"default";q=3;qu="concurrent-requests"');
      expect(refused.headers["retry-after"]).toBe("1");
      service.answerAt(path);
      expect(countStatuses(await Promise.all(first))).toEqual({ 200: 3, 429: 7 });
      expect(countStatuses(await Promise.all(next))).toEqual({ 200: 1, 429: 1 });
    });
  });

  it("frees the slots of clients that go away", async () => {
    await atEach(slots, async (path) => {
      const leaving = Array.from({ length: 3 }, () => {
        const controller = new AbortController();
        const answer = fetch(gateway.url + path, { signal: controller.signal }).catch(() => undefined);
        return { controller, answer };
      });
      await until("three run", () => service.runningAt(path) === 3);
      for (const { controller } of leaving) controller.abort();
      await Promise.all(leaving.map(({ answer }) => answer));
      await sleep(100);
      service.answersAtOnce.add(path);
      expect((await ask(gateway.url + path)).status).toBe(200);
    });
  });

  it("frees the slot of a request that ends in another location", async () => {
    service.breaks = true;
    await atEach(slots, async (path) => {
      const bodies: string[] = [];
      for (let i = 0; i < 6; i++) {
        bodies.push((await ask(gateway.url + path)).body);
        await sleep(50);
      }
      expect(bodies).toEqual(Array.from({ length: 6 }, () => "sorry"));
    });
  });

  it("renews the slot of a request that outlives the time to live, also when an old worker finishes it after a reload", async () => {
    const long = short.map((path) => ask(gateway.url + path));
    await until("they run", () => service.running === 2);
    const refusedFor = async (ms: number) => {
      const statuses = new Set<number>();
      const startedAtMs = performance.now();
      while (performance.now() - startedAtMs < ms) {
        await atEach(short, async (path) => void statuses.add((await ask(gateway.url + path)).status));
        await sleep(50);
      }
      expect(statuses).toEqual(new Set([429]));
    };
    await refusedFor(1_300);
    const former = childrenOf(gateway.pid);
    process.kill(gateway.pid, "SIGHUP");
    const workers = () => childrenOf(gateway.pid);
    await until("others serve", () => workers().filter((pid) => !former.includes(pid)).length === 2);
    await refusedFor(1_500);
    expect(service.running).toBe(2);
    service.answer();
    expect(countStatuses(await Promise.all(long))).toEqual({ 200: 2 });
    await until("the former generation has ended", () => !workers().some((pid) => former.includes(pid)));
    service.holds = false;
    for (const path of short) expect((await ask(gateway.url + path)).status).toBe(200);
  });

  it("frees the slots of a killed worker after their time to live", async () => {
    const lost = short.map((path) => ask(gateway.url + path).catch(() => undefined));
    await until("they run", () => service.running === 2);
    for (const pid of childrenOf(gateway.pid)) process.kill(pid, "SIGKILL");
    await Promise.all(lost);
    service.holds = false;
    await atEach(short, async (path) => {
      const statuses: number[] = [];
      const startedAtMs = performance.now();
      while (!statuses.includes(200) && performance.now() - startedAtMs < 5_000) {
        const answer = await ask(gateway.url + path).catch(() => undefined);
        if (answer !== undefined) statuses.push(answer.status);
        await sleep(20);
      }
      const backAfterMs = performance.now() - startedAtMs;
      expect(statuses).toContain(429);
      expect(statuses.at(-1)).toBe(200);
      expect(backAfterMs).toBeLessThan(1_200);
    });
  });
});

describe("three hundred slots of one worker at a Redis 40 ms away", () => {
  it("are renewed and freed in shared round trips, also at a Redis that has forgotten the script, and none is lost", async () => {
    const asked = (i: number) => ask(`${distant.url}/own-keys`, { headers: { "x-key": `${i}` } });
    const running = Array.from({ length: 300 }, (_, i) => asked(i));
    await until("all run", () => service.running === 300);

    // Longer than a slot lives.
    const further = [];
    const unknownBefore = await unknownScripts();
    const startedAtMs = performance.now();
    for (let forgets = true; performance.now() - startedAtMs < 2_500; await sleep(10)) {
      further.push(asked(further.length % 300));
      if (!forgets || performance.now() - startedAtMs < 800) continue;
      await redis.command("SCRIPT", "FLUSH");
      forgets = false;
    }
    expect(service.running).toBe(300);
    expect(countStatuses(await Promise.all(further))).toEqual({ 429: further.length });
    expect(await distant.metric("sluice_late_renewals_total")).toBe(0);
    const unknownRenewals = (await unknownScripts()) - unknownBefore;
    expect(unknownRenewals).toBeGreaterThan(0);
    // Each of the three hundred by itself would be more.
    expect(unknownRenewals).toBeLessThan(250);

    await redis.command("SCRIPT", "FLUSH");
    service.answer();
    expect(countStatuses(await Promise.all(running))).toEqual({ 200: 300 });
    const endedAtMs = performance.now();
    const keys = (await redis.command("KEYS", "*own-keys*")) as string[];
    expect(keys.length).toBe(300);
    const held = async () => (await redis.countsOf(keys)).filter((count) => (count ?? 0) > 0).length;
    await untilPasses(async () => expect(await held()).toBe(0));
    // Freed one by one, they took twelve seconds.
    expect(performance.now() - endedAtMs).toBeLessThan(1_500);
    expect((await unknownScripts()) - unknownBefore).toBeGreaterThan(unknownRenewals);
  });

  async function unknownScripts(): Promise<number> {
    const statistics = String(await redis.command("INFO", "errorstats"));
    return Number(/^errorstat_NOSCRIPT:count=(\d+)/m.exec(statistics)?.[1] ?? 0);
  }
});

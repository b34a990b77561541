// Two algorithms do more than allow or refuse: a leaky-bucket has requests wait for their turn, and concurrency counts the
// requests that are still running, wherever they are counted and however they end.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../fixtures/free-ports.ts";
import { HeldService } from "../fixtures/held-service.ts";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { type Answer, ask, countStatuses } from "../fixtures/requests.ts";
import { childrenOf, System } from "../fixtures/system.ts";
import { TcpProxy } from "../fixtures/tcp-proxy.ts";

const shapes = { algorithm: "leaky-bucket", quota: 5, window: "1s", burst: 5 };
const policies = [
  { name: "shaped", match: { paths: ["/shaped"] }, limits: [shapes] },
  { name: "shaped-fleet", match: { paths: ["/shaped-fleet"] }, scope: "cluster", limits: [shapes] },
  {
    name: "swift",
    match: { paths: ["/swift"] },
    scope: "cluster",
    key: ["header:x-key"],
    limits: [{ algorithm: "leaky-bucket", quota: 200, window: "1s", burst: 5 }],
  },
  { name: "slots", match: { paths: ["/slots"] }, limits: [{ algorithm: "concurrency", quota: 3 }] },
  {
    name: "slots-fleet",
    match: { paths: ["/slots-fleet"] },
    scope: "cluster",
    limits: [{ algorithm: "concurrency", quota: 3 }],
  },
  {
    name: "short",
    match: { paths: ["/short"] },
    limits: [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "1s" }],
  },
  {
    name: "short-fleet",
    match: { paths: ["/short-fleet"] },
    scope: "cluster",
    limits: [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "1s" }],
  },
  // All slots of the first of these policies are taken; the second has some left.
  ...[200, 400].map((quota) => ({
    name: `many-${quota}`,
    match: { paths: [`/many-${quota}`] },
    scope: "cluster",
    limits: [{ name: "slots", algorithm: "concurrency", quota, ttl: "3s" }],
  })),
];

let service: HeldService;
let redis: RedisServer;
let gateway: LoneGateway;

beforeAll(async () => {
  service = await HeldService.start();
  redis = new RedisServer(await freePort());
  await redis.start();
  gateway = await LoneGateway.start({
    policies,
    workers: 2,
    // A busy machine may be slow with hundreds of requests at once, and Redis must decide each of them.
    env: { SLUICE_UPSTREAM: service.url, SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
    edit: (config) =>
      config.replace(
        "location / {",
        'location = /sorry { return 200 "sorry"; }\n location / { error_page 502 /sorry; proxy_intercept_errors on;',
      ),
  });
});
afterEach(async () => {
  service.reset();
  // Slots are freed right after the answer.
  await sleep(50);
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
  service?.stop();
});

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 5_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`not within 5 s: ${what}`);
    await sleep(10);
  }
}

for (const path of ["/shaped", "/shaped-fleet"]) {
  describe(`a leaky-bucket of 5/s on ${path}`, () => {
    it("lets one request go at once and five wait, 200 ms apart, and refuses the rest at once", async () => {
      service.holds = false;
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
      const gaps = service.arrivedAtMs.slice(1).map((atMs, i) => atMs - (service.arrivedAtMs[i] as number));
      const median = gaps.toSorted((a, b) => a - b)[2] as number;
      expect(median).toBeGreaterThan(190);
      expect(median).toBeLessThan(210);
      const wholeMs = (service.arrivedAtMs[5] as number) - (service.arrivedAtMs[0] as number);
      expect(wholeMs).toBeGreaterThan(980);
    });
  });
}

it("never lets a request go before its turn, not even by a part of a ms", async () => {
  service.holds = false;
  const turnMs = 1000 / 200;
  let earliestMs = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 400; i++) {
    const headers = { "x-key": `${i}` };
    const sentAtMs = performance.now();
    await ask(`${gateway.url}/swift`, { headers });
    await ask(`${gateway.url}/swift`, { headers });
    earliestMs = Math.min(earliestMs, (service.arrivedAtMs.at(-1) as number) - sentAtMs);
  }
  // The two clocks may differ a little in pace.
  expect(earliestMs).toBeGreaterThan(turnMs - 0.01);
});

for (const [path, short] of [
  ["/slots", "/short"],
  ["/slots-fleet", "/short-fleet"],
] as const) {
  describe(`concurrency of 3 on ${path}`, () => {
    it("runs three of ten, refuses seven, and takes new ones as those end", async () => {
      const first = Array.from({ length: 10 }, () => ask(gateway.url + path));
      await until("three run", () => service.running === 3);
      await sleep(100);
      expect(service.running).toBe(3);
      service.answer(1);
      await until("one has ended", () => service.running === 2);
      await sleep(50);
      const next = [ask(gateway.url + path), ask(gateway.url + path)];
      await until("another runs", () => service.running === 3);
      await sleep(50);
      service.answer();
      expect(countStatuses(await Promise.all(first))).toEqual({ 200: 3, 429: 7 });
      expect(countStatuses(await Promise.all(next))).toEqual({ 200: 1, 429: 1 });
    });

    it("reports the quota in the draft's own unit, and that a refused request may come again soon", async () => {
      const running = Array.from({ length: 3 }, () => ask(gateway.url + path));
      await until("three run", () => service.running === 3);
      const refused = await ask(gateway.url + path);
      expect(refused.status).toBe(429);
      expect(refused.headers["ratelimit-policy"]).toBe('"default";q=3;qu="concurrent-requests"');
      expect(refused.headers["retry-after"]).toBe("1");
      service.answer();
      await Promise.all(running);
    });

    it("frees the slot of a client that goes away", async () => {
      const leaving = Array.from({ length: 3 }, () => {
        const controller = new AbortController();
        const answer = fetch(gateway.url + path, { signal: controller.signal }).catch(() => undefined);
        return { controller, answer };
      });
      await until("three run", () => service.running === 3);
      for (const { controller } of leaving) controller.abort();
      await Promise.all(leaving.map(({ answer }) => answer));
      await sleep(100);
      service.holds = false;
      expect((await ask(gateway.url + path)).status).toBe(200);
    });

    it("renews the slot of a request that outlives the time to live", async () => {
      const long = ask(gateway.url + short);
      await until("it runs", () => service.running === 1);
      for (let i = 0; i < 6; i++) {
        await sleep(400);
        expect((await ask(gateway.url + short)).status).toBe(429);
      }
      service.answer();
      expect((await long).status).toBe(200);
      await sleep(50);
      service.holds = false;
      expect((await ask(gateway.url + short)).status).toBe(200);
    });

    it("frees the slot of a request that ends in another location", async () => {
      service.breaks = true;
      const bodies: string[] = [];
      for (let i = 0; i < 6; i++) {
        bodies.push((await ask(gateway.url + path)).body);
        await sleep(50);
      }
      expect(bodies).toEqual(Array.from({ length: 6 }, () => "sorry"));
    });

    it("keeps the slot of a request that an old worker finishes after a reload", async () => {
      const long = ask(gateway.url + short);
      await until("it runs", () => service.running === 1);
      const former = childrenOf(gateway.pid);
      process.kill(gateway.pid, "SIGHUP");
      await until("others serve", () => childrenOf(gateway.pid).filter((pid) => !former.includes(pid)).length === 2);
      const statuses: number[] = [];
      const startedAtMs = performance.now();
      while (performance.now() - startedAtMs < 2_500) {
        statuses.push((await ask(gateway.url + short)).status);
        await sleep(100);
      }
      expect(new Set(statuses)).toEqual(new Set([429]));
      expect(service.running).toBe(1);
      service.answer();
      expect((await long).status).toBe(200);
      await until(
        "the former generation has ended",
        () => !childrenOf(gateway.pid).some((pid) => former.includes(pid)),
      );
      service.holds = false;
      expect((await ask(gateway.url + short)).status).toBe(200);
    });

    it("frees the slots of a killed worker after their time to live", async () => {
      const lost = ask(gateway.url + short).catch(() => undefined);
      await until("it runs", () => service.running === 1);
      for (const pid of childrenOf(gateway.pid)) process.kill(pid, "SIGKILL");
      await lost;
      service.holds = false;
      const statuses: number[] = [];
      const startedAtMs = performance.now();
      while (!statuses.includes(200) && performance.now() - startedAtMs < 5_000) {
        const answer = await ask(gateway.url + short).catch(() => undefined);
        if (answer !== undefined) statuses.push(answer.status);
        await sleep(20);
      }
      const backAfterMs = performance.now() - startedAtMs;
      expect(statuses).toContain(429);
      expect(statuses.at(-1)).toBe(200);
      expect(backAfterMs).toBeLessThan(1_200);
    });
  });
}

describe("two hundred slots that are renewed at a slow Redis", () => {
  it("are counted once each", async () => {
    const paths = ["/many-200", "/many-400"];
    const running = paths.flatMap((path) => Array.from({ length: 200 }, () => ask(gateway.url + path)));
    await until("all run", () => service.running === 400);
    const { counts, further } = await slowly(async () => {
      const counts: number[] = [];
      const further: number[] = [];
      const startedAtMs = performance.now();
      while (performance.now() - startedAtMs < 5_000) {
        further.push((await ask(`${gateway.url}/many-200`)).status);
        counts.push(await slotsInRedis("many-400"));
        await sleep(20);
      }
      return { counts, further };
    });
    expect(new Set(further)).toEqual(new Set([429]));
    expect(Math.max(...counts)).toBe(200);
    expect(service.running).toBe(400);
    service.answer();
    expect(countStatuses(await Promise.all(running))).toEqual({ 200: 400 });
    const deadline = Date.now() + 2_000;
    while ((await slotsInRedis("many-400")) > 0 && Date.now() < deadline) await sleep(20);
    expect(await slotsInRedis("many-400")).toBe(0);
  });

  /** Makes Redis block all its clients for 4 ms again and again while `run` runs. */
  async function slowly<T>(run: () => Promise<T>): Promise<T> {
    let over = false;
    const client = new Redis(redis.url);
    const busy = (async () => {
      while (!over) {
        await client.eval(busyFor4Ms, 0);
        await sleep(1);
      }
    })();
    try {
      return await run();
    } finally {
      over = true;
      await busy;
      client.disconnect();
    }
  }

  async function slotsInRedis(policy: string): Promise<number> {
    const [key] = (await redis.command("KEYS", `sluice:*${policy}:*`)) as string[];
    return key === undefined ? 0 : ((await redis.countOf(key)) ?? 0);
  }
});

const busyFor4Ms = `
  local function now() local time = redis.call("TIME") return time[1] * 1000000 + time[2] end
  local from = now()
  repeat until now() - from > 4000
  return 1
`;

describe("three hundred slots that are renewed by one worker at a Redis 40 ms away", () => {
  const slots = (name: string, key: readonly string[], quota: number) => ({
    name,
    scope: "cluster",
    key,
    match: { paths: [`/${name}`] },
    limits: [{ name: "slots", algorithm: "concurrency", quota, ttl: "3s" }],
  });
  let proxy: TcpProxy;
  let distant: LoneGateway;
  beforeAll(async () => {
    proxy = await TcpProxy.start(redis.port);
    proxy.delayMs = 20;
    distant = await LoneGateway.start({
      policies: [slots("forgotten", [], 300), slots("one-key", [], 300), slots("own-keys", ["header:x-key"], 1)],
      env: { SLUICE_UPSTREAM: service.url, SLUICE_REDIS_URL: proxy.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
    });
  });
  afterAll(async () => {
    await distant?.stop();
    await proxy?.refuse();
  });

  it("are renewed in shared calls at a Redis that has forgotten the script, as soon as it knows it again", async () => {
    const running = Array.from({ length: 300 }, () => ask(`${distant.url}/forgotten`));
    await until("all run", () => service.running === 300);
    // While Redis hangs, all slots become due for renewal, also the one that is being renewed.
    redis.hang();
    await sleep(2_200);
    redis.goOn();
    await sleep(300);
    await untilNothingIsAsked();
    const before = await unknownScripts();
    await redis.command("SCRIPT", "FLUSH");
    await sleep(1_500);
    const unknown = (await unknownScripts()) - before;
    expect(unknown).toBeGreaterThan(0);
    expect(unknown).toBeLessThan(110);
    service.answer();
    await Promise.all(running);
  });

  it.each(["one-key", "own-keys"])("are not lost: %s", async (name) => {
    const asked = (i: number) => ask(`${distant.url}/${name}`, { headers: { "x-key": `${i}` } });
    const running = Array.from({ length: 300 }, (_, i) => asked(i));
    await until("all run", () => service.running === 300);
    const further: Promise<Answer>[] = [];
    const startedAtMs = performance.now();
    while (performance.now() - startedAtMs < 7_000) {
      further.push(asked(further.length % 300));
      await sleep(10);
    }
    expect(service.running).toBe(300);
    expect(countStatuses(await Promise.all(further))).toEqual({ 429: further.length });
    expect(await distant.metric("sluice_late_renewals_total")).toBe(0);
    service.answer();
    expect(countStatuses(await Promise.all(running))).toEqual({ 200: 300 });
  });

  it("are freed within few round trips, also at a Redis that has forgotten the script", async () => {
    const asked = (i: number) => ask(`${distant.url}/own-keys`, { headers: { "x-key": `back-${i}` } });
    const running = Array.from({ length: 300 }, (_, i) => asked(i));
    await until("all run", () => service.running === 300);
    const unknownBefore = await unknownScripts();
    await redis.command("SCRIPT", "FLUSH");
    service.answer();
    expect(countStatuses(await Promise.all(running))).toEqual({ 200: 300 });
    const endedAtMs = performance.now();
    const keys = (await redis.command("KEYS", "*own-keys*back-*")) as string[];
    expect(keys.length).toBe(300);
    const held = async () => {
      const counts = await Promise.all(keys.map((key) => redis.countOf(key)));
      return counts.filter((count) => (count ?? 0) > 0).length;
    };
    await expect.poll(held, { timeout: 10_000, interval: 20 }).toBe(0);
    // Freed one by one, they took twelve seconds.
    expect(performance.now() - endedAtMs).toBeLessThan(1_500);
    expect((await unknownScripts()) - unknownBefore).toBeGreaterThan(0);
  });

  it("are counted as late renewals when they were lost", async () => {
    const running = Array.from({ length: 10 }, (_, i) =>
      ask(`${distant.url}/own-keys`, { headers: { "x-key": `of-${i}` } }),
    );
    await until("all run", () => service.running === 10);
    proxy.delayMs = 4_000;
    await sleep(8_000);
    proxy.delayMs = 20;
    await expect
      .poll(() => distant.metric("sluice_late_renewals_total"), { timeout: 10_000 })
      .toBeGreaterThanOrEqual(10);
    expect(distant.log).toContain("slots were lost before they were renewed");
    service.answer();
    await Promise.all(running);
  });

  async function statistic(section: string, pattern: RegExp): Promise<number> {
    return Number(pattern.exec(String(await redis.command("INFO", section)))?.[1] ?? 0);
  }

  const unknownScripts = () => statistic("errorstats", /^errorstat_NOSCRIPT:count=(\d+)/m);

  /** Waits until no script was called for longer than a round trip. */
  async function untilNothingIsAsked(): Promise<void> {
    const calls = () => statistic("commandstats", /^cmdstat_evalsha:calls=(\d+)/m);
    let before = -1;
    for (let now = await calls(); now !== before; now = await calls()) {
      before = now;
      await sleep(150);
    }
  }
});

describe("a slot that a defect keeps from being renewed or freed", () => {
  const slots = (name: string, priority: number) => ({
    name,
    priority,
    scope: "cluster",
    match: { paths: [`/${name}`, "/both"] },
    limits: [{ name: "slots", algorithm: "concurrency", quota: 1, ttl: "6s" }],
  });
  /** From /break to /mend, every round trip with a call about the policy "broken" alone fails like a defect of the gateway. */
  const breaking = `
    location = /break { content_by_lua_block {
        local found, library = pcall(require, "resty.redis")
        if not found then library = require "nginx.redis" end
        local commit = library.commit_pipeline
        local breaks = true
        library.commit_pipeline = function(self)
            for _, request in ipairs(self._reqs) do
                local sent = table.concat(request)
                if breaks and sent:find("{default:broken:", 1, true) and not sent:find("{default:sound:", 1, true) then
                    error("broken by this test")
                end
            end
            return commit(self)
        end
        library.mend = function() breaks = false end
    } }
    location = /mend { content_by_lua_block {
        local found, library = pcall(require, "resty.redis")
        if not found then library = require "nginx.redis" end
        library.mend()
    } }
`;
  let broken: LoneGateway;
  beforeAll(async () => {
    broken = await LoneGateway.start({
      policies: [slots("broken", 1), slots("sound", 0)],
      env: { SLUICE_UPSTREAM: service.url, SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "10000" },
      edit: (config) => config.replace("location / {", `${breaking}location / {`),
    });
  });
  afterAll(() => broken?.stop());
  const statusOf = async (path: string) => (await ask(broken.url + path)).status;
  const ended = async (running: Promise<Answer>) => {
    service.answer();
    service.holds = false;
    expect((await running).status).toBe(200);
    await sleep(100);
  };

  it("is the only one of a request's slots that stays taken", async () => {
    await ask(`${broken.url}/break`);
    const running = ask(`${broken.url}/both`);
    await until("it runs", () => service.running === 1);
    await ended(running);
    expect(broken.log).toContain("broken by this test");
    expect(await statusOf("/sound")).toBe(200);
    await ask(`${broken.url}/mend`);
    expect(await statusOf("/broken")).toBe(429);
    await redis.command("FLUSHALL");
  });

  it("is freed even if renewing it failed", async () => {
    const running = ask(`${broken.url}/both`);
    await until("it runs", () => service.running === 1);
    const logged = broken.log.length;
    await ask(`${broken.url}/break`);
    await until("it was not renewed", () => broken.log.slice(logged).includes("broken by this test"));
    await ask(`${broken.url}/mend`);
    await ended(running);
    expect(await statusOf("/both")).toBe(200);
  });
});

describe("concurrency whose quota is raised", () => {
  let system: System;
  beforeAll(async () => {
    system = await System.start({ redis: true, env: { SLUICE_UPSTREAM: service.url } });
  });
  afterAll(() => system?.stop());

  it("runs no more than the new quota while requests of the old policy outlive several lives of their slots", async () => {
    const scopes = ["node", "cluster"];
    const policy = (scope: string, quota: number) => ({
      name: `raised-${scope}`,
      match: { paths: [`/raised-${scope}`] },
      scope,
      limits: [{ name: "slots", algorithm: "concurrency", quota, ttl: "1s" }],
    });
    const three = (scope: string) => Array.from({ length: 3 }, () => ask(`${system.gateway.url}/raised-${scope}`));
    for (const scope of scopes) await system.put(policy(scope, 3));
    const running = scopes.flatMap(three);
    await until("three of each run", () => service.running === 6);
    for (const scope of scopes) await system.put(policy(scope, 6));
    running.push(...scopes.flatMap(three));
    await until("six of each run", () => service.running === 12);
    const further: Promise<Answer>[] = [];
    const startedAtMs = performance.now();
    while (performance.now() - startedAtMs < 2_500) {
      further.push(...scopes.flatMap(three));
      await sleep(100);
      expect(service.running).toBe(12);
    }
    expect(Object.keys(countStatuses(await Promise.all(further)))).toEqual(["429"]);
    service.answer();
    expect(countStatuses(await Promise.all(running))).toEqual({ 200: 12 });
  });
});

// A total for ever (window: lifetime), on two gateways: exact, told without a time, cheap when it is used up, kept by a Redis that evicts,
// and given again by an operator alone.

import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

const policy = (name: string, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-user"],
  scope: "cluster",
  limits: [{ name: "total", algorithm: "fixed-window", quota: 5, window: "lifetime" }],
  ...more,
});

let system: System;
let redis: Redis;
beforeAll(async () => {
  system = await System.start({ gateways: 2, workers: 2, redis: true });
  redis = new Redis(system.redis?.url as string);
});
afterAll(async () => {
  redis?.disconnect();
  await system?.stop();
});

const askAt = (place: number, path: string, user = "ann") =>
  ask(`${system.gateways[place]?.url}${path}`, { headers: { "x-user": user } });
const statusesAt = async (path: string, places: readonly number[], user?: string) => {
  const seen: number[] = [];
  for (const place of places) seen.push((await askAt(place, path, user)).status);
  return seen;
};
const keysOf = async (name: string) => (await redis.keys("*")).filter((key) => key.includes(`:${name}:`));
const counters = (method: string, search: string, body?: object) =>
  system.api(method, `/apps/default/counters${search}`, body);

it("counts on all gateways together, and tells no time when units come back", async () => {
  await system.put(policy("trial"));
  const first = await askAt(0, "/trial");
  expect(first.status).toBe(200);
  expect(first.headers).toMatchObject({
    "ratelimit-policy": '"total";q=5',
    ratelimit: '"total";r=4',
    "x-ratelimit-limit": "5",
    "x-ratelimit-remaining": "4",
  });
  expect(first.headers).not.toHaveProperty("x-ratelimit-reset");
  expect(await statusesAt("/trial", [1, 0, 1, 0])).toEqual([200, 200, 200, 200]);
  for (const place of [0, 1, 0, 1]) {
    const refused = await askAt(place, "/trial");
    expect(refused.status).toBe(429);
    expect(refused.headers).not.toHaveProperty("retry-after");
    expect(refused.headers["ratelimit"]).toBe('"total";r=0');
    expect(JSON.parse(refused.body).detail).toBe(
      "The limit has no units left for this request, and none come back by themselves.",
    );
  }
});

it("costs Redis nothing when it is used up", async () => {
  const scriptCalls = async () => {
    const stats = await redis.info("commandstats");
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  // Each worker may ask once.
  await Promise.all(Array.from({ length: 40 }, () => askAt(0, "/trial")));
  const before = await scriptCalls();
  const answers = await Promise.all(Array.from({ length: 200 }, () => askAt(0, "/trial")));
  expect(answers.every(({ status }) => status === 429)).toBe(true);
  expect((await scriptCalls()) - before).toBeLessThan(10);
});

it("has no time to live in Redis, and outlasts the eviction of keys that have one", async () => {
  const [key] = await keysOf("trial");
  expect(key).toMatch(/:total:fixed-window:lifetime$/);
  expect(await redis.pttl(key as string)).toBe(-1);
  const used = Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
  await redis.config("SET", "maxmemory-policy", "volatile-ttl");
  await redis.config("SET", "maxmemory", `${used + 2_000_000}`);
  try {
    for (let i = 0; i < 400; i++) await redis.set(`other-${i}`, "x".repeat(20_000), "PX", 3_600_000 + i);
    expect(Number(/evicted_keys:(\d+)/.exec(await redis.info("stats"))?.[1])).toBeGreaterThan(100);
    expect(await redis.exists(key as string)).toBe(1);
  } finally {
    await redis.config("SET", "maxmemory", "0");
    await redis.del(...(await redis.keys("other-*")));
  }
});

it("is given again by top-up and by reset, at every gateway, and only to that key", async () => {
  const read = async () => {
    const { body } = await counters("GET", "?policy=trial&key=ann");
    return JSON.parse(body).limits[0] as object;
  };
  expect(await read()).toEqual({ name: "total", limit: 5, used: 5, remaining: 0, resetAfter: null });
  expect((await counters("POST", "", { policy: "trial", key: ["ann"], units: 2 })).status).toBe(200);
  expect(await statusesAt("/trial", [0, 1, 0, 1])).toEqual([200, 200, 429, 429]);
  expect(await statusesAt("/trial", [0, 0, 0, 0, 1, 1], "bob")).toEqual([200, 200, 200, 200, 200, 429]);
  expect((await counters("DELETE", "?policy=trial&key=ann")).status).toBe(200);
  expect(await statusesAt("/trial", [1, 1, 0, 0, 0, 1])).toEqual([200, 200, 200, 200, 200, 429]);
  expect(await statusesAt("/trial", [0, 1], "bob")).toEqual([429, 429]);
});

it("has overrides, shadow mode, and other limits beside it, of which all must allow", async () => {
  const both = [
    { name: "total", algorithm: "fixed-window", quota: 3, window: "lifetime" },
    { name: "pace", algorithm: "token-bucket", quota: 1, window: "1h", burst: 2 },
  ];
  await system.put(
    policy("both", {
      limits: both,
      overrides: [
        {
          key: ["vip"],
          limits: [
            { ...both[0], quota: 4 },
            { ...both[1], burst: 9 },
          ],
        },
      ],
    }),
  );
  expect(await statusesAt("/both", [0, 1, 0])).toEqual([200, 200, 429]);
  // What the bucket refused was not taken of the total.
  const { body } = await counters("GET", "?policy=both&key=ann");
  expect(JSON.parse(body).limits).toMatchObject([{ name: "total", used: 2 }, { name: "pace" }]);
  expect(await statusesAt("/both", [0, 1, 0, 1, 0], "vip")).toEqual([200, 200, 200, 200, 429]);
  await system.put(policy("watched", { mode: "shadow" }));
  expect(await statusesAt("/watched", [0, 0, 0, 0, 0, 0, 0])).toEqual(Array(7).fill(200));
});

it("keeps what was used when the quota is edited", async () => {
  await system.put(policy("grown"));
  expect(await statusesAt("/grown", [0, 1, 0, 1, 0, 1])).toEqual([200, 200, 200, 200, 200, 429]);
  const [limit] = policy("grown").limits;
  await system.put(policy("grown", { limits: [{ ...limit, quota: 7 }] }));
  expect(await statusesAt("/grown", [0, 1, 0])).toEqual([200, 200, 429]);
});

it("says null in the check API where no wait helps", async () => {
  await system.put(
    policy("asked", { limits: [{ name: "total", algorithm: "fixed-window", quota: 1, window: "lifetime" }] }),
  );
  const made = await system.api("POST", "/tokens?wait=30s", { name: "caller", app: "default", role: "caller" });
  const { token } = JSON.parse(made.body) as { token: string };
  const check = async () => {
    const answer = await fetch(`${system.gateways[0]?.privateUrl}/sluice/v1/check`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ checks: [{ policy: "asked", key: ["acme"] }] }),
    });
    return ((await answer.json()) as { results: object[] }).results[0];
  };
  expect(await check()).toEqual({
    policy: "asked",
    allowed: true,
    limit: 1,
    remaining: 0,
    retryAfter: 0,
    resetAfter: null,
  });
  const refused = { policy: "asked", allowed: false, limit: 1, remaining: 0, retryAfter: null, resetAfter: null };
  expect(await check()).toEqual(refused);
  // The second refusal is remembered.
  expect(await check()).toEqual(refused);
});

it("is refused on a node, with the reason", async () => {
  const answer = await system.api("PUT", "/apps/default/policies/node", policy("node", { scope: "node" }));
  expect(answer.status).toBe(400);
  expect(JSON.parse(answer.body).errors).toEqual([
    {
      path: "limits[0].window",
      expected: "a duration, or scope: cluster, because what a node has counted ends with it",
      got: '"lifetime"',
    },
  ]);
});

it("goes on by onStoreFailure while Redis is away, and charges afterwards what passed", async () => {
  await system.put(
    policy("away", { limits: [{ name: "total", algorithm: "fixed-window", quota: 100, window: "lifetime" }] }),
  );
  expect(await statusesAt("/away", [0, 1])).toEqual([200, 200]);
  system.redis?.hang();
  expect(await statusesAt("/away", [0, 1, 0, 1])).toEqual([200, 200, 200, 200]);
  system.redis?.goOn();
  await until("six are charged", async () => {
    const { body } = await counters("GET", "?policy=away&key=ann");
    return JSON.parse(body).limits?.[0]?.used === 6;
  });
});

// A slow start (initial, warmUp) through real gateways: a new service sees its load grow, on a node and on a fleet, exactly and from leases, after
// a reset, beside other limits, in shadow, and in the check API.

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";

const slow = { name: "warm", algorithm: "token-bucket", quota: 100, window: "1s", burst: 10 };
const policy = (name: string, shape: object, more: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key: ["header:x-user"],
  limits: [{ ...slow, ...shape }],
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
const counters = (method: string, search: string, body?: object) =>
  system.api(method, `/apps/default/counters${search}`, body);

/** @param began when the first request was sent @returns when each admitted request was answered, in ms since then */
async function flood(path: string, places: readonly number[], began: number, ms: number): Promise<number[]> {
  const admitted: number[] = [];
  const clients = places
    .flatMap((place) => [place, place])
    .map(async (place) => {
      while (performance.now() - began < ms) {
        const { status } = await askAt(place, path);
        if (status === 200) admitted.push(performance.now() - began);
      }
    });
  await Promise.all(clients);
  return admitted;
}

/** Units that have refilled at most when the counter is this old, with a rate of 100 a second that grows for 2 s. */
const givenBy = (seconds: number) => 100 * (seconds < 2 ? seconds / 3 + seconds ** 2 / 6 : seconds - 2 / 3);

describe.each([
  ["node", [0], { scope: "node" }],
  ["cluster", [0, 1], { scope: "cluster" }],
] as const)("of scope %s, a service that is new", (scope, places, more) => {
  it("gets nothing at first, then ever more, and all of its rate when it is warm", async () => {
    const name = `ramp-${scope}`;
    await system.put(policy(name, { initial: 0, warmUp: "2s" }, more));
    const began = performance.now();
    const first = await askAt(0, `/${name}`);
    expect(first.status).toBe(429);
    expect(first.headers["retry-after"]).toBe("1");
    expect(first.headers["ratelimit-policy"]).toBe('"warm";q=10;w=1');
    expect(first.headers["x-ratelimit-remaining"]).toBe("0");
    const admitted = await flood(`/${name}`, places, began, 4_000);
    const until = (seconds: number) => admitted.filter((ms) => ms < seconds * 1_000).length;
    // The counter began with the first request, after it was sent. Each request is decided before it is answered.
    for (const seconds of [0.5, 1, 1.5, 2, 3, 4]) {
      expect(until(seconds), `${seconds} s`).toBeLessThanOrEqual(givenBy(seconds));
    }
    const [cold, warm] = [until(0.6), until(4) - until(3)];
    expect(cold).toBeGreaterThan(0);
    expect(warm).toBeGreaterThan(1.2 * cold);
  });
});

it("keeps a full counter for an hour in Redis, with its beginning while it warms", async () => {
  await system.put(policy("kept", { initial: 3, warmUp: "1m" }, { scope: "cluster" }));
  const seen: number[] = [];
  for (const place of [0, 1, 0, 1]) seen.push((await askAt(place, "/kept")).status);
  expect(seen.slice(0, 3)).toEqual([200, 200, 200]);
  const [key] = (await redis.keys("*")).filter((one) => one.includes(":kept:"));
  expect(key).toMatch(/:warm:token-bucket:1000000$/);
  expect(await redis.strlen(key as string)).toBe(52);
  const ttl = await redis.pttl(key as string);
  expect(ttl).toBeGreaterThan(3_590_000);
  expect(ttl).toBeLessThan(3_630_000);
});

it("can be read at any moment while it warms, and full too", async () => {
  await system.put(policy("read", { initial: 10, warmUp: "1h" }));
  expect((await askAt(0, "/read")).status).toBe(200);
  const until = performance.now() + 3_000;
  for (let reads = 0; reads < 20 || performance.now() < until; reads++) {
    const { gateways } = JSON.parse((await counters("GET", "?policy=read&key=ann")).body);
    expect(gateways.map(({ state }: { state: string }) => state)).toEqual(["done", "done"]);
    for (const { limits } of gateways) expect(limits[0].remaining).toBeGreaterThanOrEqual(9);
  }
});

it("begins again after a reset, and has what an operator adds", async () => {
  for (const scope of ["node", "cluster"] as const) {
    const name = `reset-${scope}`;
    await system.put(policy(name, { quota: 1, window: "1h", initial: 1 }, { scope }));
    const statuses = async () => [(await askAt(0, `/${name}`)).status, (await askAt(0, `/${name}`)).status];
    expect(await statuses(), scope).toEqual([200, 429]);
    expect((await counters("DELETE", `?policy=${name}&key=ann`)).status).toBe(200);
    expect(await statuses(), scope).toEqual([200, 429]);
    expect((await counters("POST", "", { policy: name, key: ["ann"], units: 1 })).status).toBe(200);
    expect(await statuses(), scope).toEqual([200, 429]);
    const { body } = await counters("GET", `?policy=${name}&key=ann`);
    const read = JSON.parse(body);
    expect((read.limits ?? read.gateways[0].limits)[0], scope).toMatchObject({ limit: 10, used: 10, remaining: 0 });
  }
});

it("keeps units and counters when the fields are added and edited", async () => {
  const hourly = { quota: 1, window: "1h", burst: 5 };
  await system.put(policy("edited", hourly));
  expect((await askAt(0, "/edited")).headers["x-ratelimit-remaining"]).toBe("4");
  await system.put(policy("edited", { ...hourly, initial: 0, warmUp: "1m" }));
  expect((await askAt(0, "/edited")).headers["x-ratelimit-remaining"]).toBe("3");
  expect((await askAt(0, "/edited", "new")).status).toBe(429);
  await system.put(policy("edited", { ...hourly, initial: 2 }));
  expect((await askAt(0, "/edited")).headers["x-ratelimit-remaining"]).toBe("2");
  expect((await askAt(0, "/edited", "newer")).headers["x-ratelimit-remaining"]).toBe("1");
});

it("is leased without warmUp, never beyond what it begins with, and counted exactly with it, which a warning says", async () => {
  const leased = { scope: "cluster", consistency: "leased" };
  const shape = { quota: 1_000, window: "1h", burst: 1_000, initial: 40 };
  await system.put(policy("leased", shape, leased));
  const statuses = await Promise.all(Array.from({ length: 200 }, (_, i) => askAt(i % 2, "/leased")));
  const admitted = statuses.filter(({ status }) => status === 200).length;
  expect(admitted).toBeGreaterThan(20);
  expect(admitted).toBeLessThanOrEqual(41);
  const put = await system.api(
    "PUT",
    "/apps/default/policies/warming",
    policy("warming", { warmUp: "30s" }, { ...leased, onMissingKey: "deny" }),
  );
  expect(JSON.parse(put.body).warnings).toEqual([
    {
      path: "limits[0].warmUp",
      expected: "nothing; as it is, Redis decides every request in spite of leased",
      got: '"30s"',
    },
  ]);
});

it("has overrides, shadow mode, and other limits beside it, of which all must allow", async () => {
  const total = { name: "total", algorithm: "fixed-window", quota: 3, window: "1d" };
  const warm = { ...slow, quota: 1, window: "1h", initial: 2, warmUp: "1m" };
  await system.put({
    ...policy("both", {}, { scope: "cluster" }),
    limits: [total, warm],
    overrides: [{ key: ["vip"], limits: [{ ...warm, initial: 3, warmUp: undefined }] }],
  });
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await askAt(i % 2, "/both")).status);
  for (let i = 0; i < 4; i++) statuses.push((await askAt(i % 2, "/both", "vip")).status);
  expect(statuses).toEqual([200, 200, 429, 200, 200, 200, 429]);
  const { body } = await counters("GET", "?policy=both&key=ann");
  expect(JSON.parse(body).limits).toMatchObject([
    { name: "total", used: 2 },
    { name: "warm", remaining: 0 },
  ]);
  await system.put(policy("watched", { initial: 0, quota: 1, window: "1h" }, { mode: "shadow" }));
  expect((await askAt(0, "/watched")).status).toBe(200);
});

it("says in the check API when the first unit is there", async () => {
  await system.put(policy("asked", { quota: 1, window: "30s", initial: 0 }, { scope: "cluster" }));
  const made = await system.api("POST", "/tokens?wait=30s", { name: "caller", app: "default", role: "caller" });
  const { token } = JSON.parse(made.body) as { token: string };
  const answer = await fetch(`${system.gateways[0]?.privateUrl}/sluice/v1/check`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ checks: [{ policy: "asked", key: ["acme"] }] }),
  });
  const { results } = (await answer.json()) as { results: object[] };
  expect(results[0]).toEqual({
    policy: "asked",
    allowed: false,
    limit: 10,
    remaining: 0,
    retryAfter: 30,
    resetAfter: 300,
  });
});

it("charges responses as they are sent, and pays the debt as it refills", async () => {
  await system.put(
    policy("bytes", { quota: 10, window: "1h", burst: 100_000, initial: 1 }, { cost: { from: "response-bytes" } }),
  );
  expect((await askAt(0, "/bytes")).status).toBe(200);
  const refused = await askAt(0, "/bytes");
  expect(refused.status).toBe(429);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(3_600);
});

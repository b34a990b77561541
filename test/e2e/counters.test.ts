// An operator reads, resets and tops up one counter of a running fleet: on gateways and in Redis.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readRedisScripts } from "../../control-plane/src/redis/redis-scripts.ts";
import { counterPrefix, encodeKeyValues } from "../../limiter/src/compiled/counter-key.ts";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";

let system: System;
beforeAll(async () => {
  system = await System.start({ gateways: 2, workers: 2, redis: true });
});
afterAll(() => system?.stop());

const limitsOf = (name: string) => [
  { name: `${name}-a`, algorithm: "fixed-window", quota: 8, window: "366d" },
  { name: `${name}-b`, algorithm: "sliding-window", quota: 20, window: "366d" },
];

interface Counter {
  limits?: { name: string; used: number; remaining: number }[];
  gateways: { id: string; state: string; limits?: { name: string; used: number; remaining: number }[] }[];
}

async function counter(method: string, policy: string, body?: object): Promise<Counter> {
  const search = body === undefined ? `?policy=${policy}&key=127.0.0.1&key=ann` : "";
  const answer = await system.api(method, `/apps/default/counters${search}`, body);
  expect(answer.status, answer.body).toBe(200);
  return JSON.parse(answer.body);
}

const asAnn = { "x-user": "ann" };
const statusAt = async (place: number, path: string, headers: Record<string, string> = asAnn) =>
  (await ask(`${system.gateways[place]?.url}${path}`, { headers })).status;
const used = (limits: { used: number }[] | undefined) => limits?.map((limit) => limit.used);

describe.each(["token-bucket", "fixed-window", "sliding-window", "sliding-log"])("of scope node, a %s", (algorithm) => {
  const name = `node-${algorithm}`;
  const topUp = (units: number) => counter("POST", name, { policy: name, key: ["127.0.0.1", "ann"], units });

  it("has a counter at each gateway, which is read, topped up and reset on all", async () => {
    const limits = [{ name: "only", algorithm, quota: 5, window: "366d" }];
    await system.put({ name, match: { paths: [`/${name}`] }, key: ["ip", "header:x-user"], limits });
    const exhaust = async (place: number) => {
      for (let i = 0; i < 5; i++) expect(await statusAt(place, `/${name}`)).toBe(200);
      expect(await statusAt(place, `/${name}`)).toBe(429);
    };
    await exhaust(0);
    expect(await statusAt(1, `/${name}`)).toBe(200);
    const read = await counter("GET", name);
    expect(read.gateways.map(({ id, state, limits: own }) => [id, state, used(own)])).toEqual([
      ["gateway-1", "done", [5]],
      ["gateway-2", "done", [1]],
    ]);
    expect(read.limits).toBeUndefined();

    const toppedUp = await topUp(2);
    expect(toppedUp.gateways.map(({ limits: own }) => used(own))).toEqual([[3], [0]]);
    expect([await statusAt(0, `/${name}`), await statusAt(0, `/${name}`), await statusAt(0, `/${name}`)]).toEqual([
      200, 200, 429,
    ]);

    // The counter of another key is not reset.
    expect(await statusAt(0, `/${name}`, { "x-user": "bob" })).toBe(200);
    const reset = await counter("DELETE", name);
    expect(reset.gateways.map(({ limits: own }) => used(own))).toEqual([[0], [0]]);
    await exhaust(0);
    await exhaust(1);
    const bob = await system.api("GET", `/apps/default/counters?policy=${name}&key=127.0.0.1&key=bob`);
    expect(JSON.parse(bob.body).gateways[0].limits[0].used).toBe(1);
  });
});

it("resets a download quota on a gateway together with its debt", async () => {
  const name = "downloads";
  const limits = [{ name: "bytes", algorithm: "token-bucket", quota: 10, window: "366d" }];
  const match = { paths: [`/${name}`] };
  await system.put({ name, match, key: ["ip", "header:x-user"], cost: { from: "response-bytes" }, limits });
  expect(await statusAt(0, `/${name}`)).toBe(200);
  await until("the download is settled", async () => (await statusAt(0, `/${name}`)) === 429);
  const owed = await counter("GET", name);
  expect(used(owed.gateways[0]?.limits)).toEqual([10]);
  expect(used((await counter("DELETE", name)).gateways[0]?.limits)).toEqual([0]);
  expect(await statusAt(0, `/${name}`)).toBe(200);
});

it("finds the counter of a long key, in any characters, and the override that the key matches", async () => {
  const name = "long";
  const long = "ü}:{".repeat(80);
  const limits = [{ name: "only", algorithm: "token-bucket", quota: 5, window: "366d" }];
  const overrides = [{ key: ["ü*"], limits: [{ name: "only", algorithm: "token-bucket", quota: 2, window: "300d" }] }];
  for (const scope of ["node", "cluster"]) {
    await system.put({ name, scope, match: { paths: [`/${name}`] }, key: ["query:user"], limits, overrides });
    const path = `/${name}?user=${encodeURIComponent(long)}`;
    const statuses = async () => [await statusAt(0, path), await statusAt(0, path), await statusAt(0, path)];
    expect(await statuses()).toEqual([200, 200, 429]);
    const search = `?policy=${name}&key=${encodeURIComponent(long)}`;
    const read = JSON.parse((await system.api("GET", `/apps/default/counters${search}`)).body);
    expect((read.limits ?? read.gateways[0].limits)[0]).toMatchObject({ limit: 2, used: 2 });
    await system.api("DELETE", `/apps/default/counters${search}`);
    expect(await statuses()).toEqual([200, 200, 429]);
  }
});

it("reads, tops up and resets a counter of scope cluster in Redis, for all gateways", async () => {
  const name = "fleet";
  const match = { paths: [`/${name}`] };
  await system.put({ name, scope: "cluster", match, key: ["ip", "header:x-user"], limits: limitsOf("l") });
  const asked = async (count: number) => {
    const statuses: number[] = [];
    for (let i = 0; i < count; i++) statuses.push(await statusAt(i % 2, `/${name}`));
    return statuses.filter((status) => status === 200).length;
  };
  expect(await asked(10)).toBe(8);
  const read = await counter("GET", name);
  expect(used(read.limits)).toEqual([8, 8]);
  expect(read.gateways).toEqual([]);

  const body = { policy: name, key: ["127.0.0.1", "ann"], units: 3 };
  expect(used((await counter("POST", name, body)).limits)).toEqual([5, 5]);
  expect(await asked(6)).toBe(3);

  const reset = await counter("DELETE", name);
  expect(used(reset.limits)).toEqual([0, 0]);
  expect(reset.gateways.map(({ id, state }) => [id, state])).toEqual([
    ["gateway-1", "done"],
    ["gateway-2", "done"],
  ]);
  expect(await asked(10)).toBe(8);
});

it("gateways meet no NOSCRIPT: the scripts are loaded before the first call", async () => {
  const { redis } = system;
  await redis?.stop();
  await redis?.start();
  const sha1s = Object.values(readRedisScripts()).map(({ sha1 }) => sha1);
  await until("a Redis that has forgotten everything has the scripts", async () => {
    const replies = (await redis?.command("SCRIPT", "EXISTS", ...sha1s)) as number[];
    return replies.every((there) => there === 1);
  });
  const name = "afresh";
  const limits = [{ algorithm: "token-bucket", quota: 5, window: "366d" }];
  await system.put({ name, scope: "cluster", onStoreFailure: "deny", match: { paths: [`/${name}`] }, limits });
  expect(
    await askAtOnce(
      system.gateways.map(({ url }) => `${url}/${name}`),
      20,
    ),
  ).toEqual({ 200: 5, 429: 15 });
  expect(String(await redis?.command("INFO", "errorstats"))).not.toContain("NOSCRIPT");
});

it("shows the state of Redis as gateways see it", async () => {
  const states = async () => {
    const { body } = await system.api("GET", "/gateways");
    return JSON.parse(body).gateways.map(({ redis }: { redis: { state: string } | null }) => redis?.state);
  };
  // This is far below the quota: for a refusal that it remembers, a gateway would send nothing to Redis.
  const limits = [{ algorithm: "fixed-window", quota: 1000, window: "366d" }];
  await system.put({ name: "asked", scope: "cluster", match: { paths: ["/asked"] }, limits });
  await until("both have seen it answer", async () => (await states()).join() === "ok,ok");
  await system.redis?.stop();
  await statusAt(0, "/asked");
  // The other gateway may notice too: it watches over what it remembers of Redis.
  await until("the one that asked has seen it fail", async () => (await states())[0] === "failing");
  await system.redis?.start();
  await until("both have seen it answer again", async () => {
    await Promise.all([statusAt(0, "/asked"), statusAt(1, "/asked")]);
    return (await states()).join() === "ok,ok";
  });
});

it("resets and tops up a leased counter for gateways that had been refused until the window's end", async () => {
  const name = "leased";
  const limits = [{ algorithm: "fixed-window", quota: 400, window: "366d" }];
  const match = { paths: [`/${name}`] };
  await system.put({ name, scope: "cluster", consistency: "leased", match, key: ["ip", "header:x-user"], limits });
  const admitted = async (count: number) => {
    let all = 0;
    for (let i = 0; i < count; i++) if ((await statusAt(i % 2, `/${name}`)) === 200) all += 1;
    return all;
  };
  expect(await admitted(600)).toBeGreaterThan(380);
  expect(await admitted(100)).toBe(0);
  await counter("POST", name, { policy: name, key: ["127.0.0.1", "ann"], units: 200 });
  expect(await admitted(20)).toBe(20);
  await counter("DELETE", name);
  expect(await admitted(100)).toBe(100);
});

it("shows units out on lease as used, even if the bucket would have refilled", async () => {
  const name = "on-lease";
  const limits = [{ algorithm: "token-bucket", quota: 1000, window: "1s", burst: 1000 }];
  const match = { paths: [`/${name}`] };
  await system.put({ name, scope: "cluster", consistency: "leased", match, key: ["ip", "header:x-user"], limits });
  const values = encodeKeyValues(["127.0.0.1", "ann"], 2, String);
  const ledger = `sluice:${counterPrefix("default", name)}${values}}::leases`;
  // The format is that of gateway/src/redis-scripts/stored-ledger.ts: 400 units, for a minute at most.
  const holding = `another-gateway 1 400 ${(Date.now() + 60_000) * 1000} 400 400 0 9000000 0\n`;
  await system.redis?.command("SET", ledger, holding);
  expect((await counter("GET", name)).limits).toMatchObject([{ used: 400, remaining: 600 }]);
  await system.redis?.command("DEL", ledger);
  expect((await counter("GET", name)).limits).toMatchObject([{ used: 0, remaining: 1000 }]);
});

describe("a policy that is deleted and put again under its name", () => {
  it.each([{}, { scope: "cluster" }, { scope: "cluster", consistency: "leased" }])(
    "goes on with its counters: %j",
    async (terms) => {
      const name = ["again", ...Object.values(terms)].join("-");
      const policy = {
        ...terms,
        name,
        match: { paths: [`/${name}`] },
        key: ["ip", "header:x-user"],
        limits: [{ name: "only", algorithm: "fixed-window", quota: 2, window: "366d" }],
      };
      const statuses = async () => [await statusAt(0, `/${name}`), await statusAt(0, `/${name}`)];
      await system.put(policy);
      expect(await statuses()).toEqual([200, 200]);
      expect((await system.api("DELETE", `/apps/default/policies/${name}?wait=5s`)).status).toBe(200);
      expect(await statuses()).toEqual([200, 200]);
      await system.put(policy);
      expect(await statuses()).toEqual([429, 429]);
      await counter("DELETE", name);
      expect(await statuses()).toEqual([200, 200]);
    },
  );

  it("counts anew under another name of its limit", async () => {
    const policy = (limit: string) => ({
      name: "renamed-limit",
      match: { paths: ["/renamed-limit"] },
      limits: [{ name: limit, algorithm: "fixed-window", quota: 1, window: "366d" }],
    });
    await system.put(policy("first"));
    expect(await statusAt(0, "/renamed-limit")).toBe(200);
    await system.api("DELETE", "/apps/default/policies/renamed-limit?wait=5s");
    await system.put(policy("second"));
    expect(await statusAt(0, "/renamed-limit")).toBe(200);
  });
});

it("an app that is deleted and made again goes on with the counters of its policies", async () => {
  const makeApp = async () => {
    expect((await system.api("PUT", "/apps/again", { realm: { paths: ["/app-again"] } })).status).toBe(201);
    const policy = {
      match: { paths: ["/app-again"] },
      limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
    };
    expect((await system.api("PUT", "/apps/again/policies/only?wait=5s", policy)).status).toBe(201);
  };
  await makeApp();
  expect(await statusAt(0, "/app-again")).toBe(200);
  expect((await system.api("DELETE", "/apps/again/policies/only?wait=5s")).status).toBe(200);
  expect((await system.api("DELETE", "/apps/again?wait=5s")).status).toBe(200);
  await makeApp();
  expect(await statusAt(0, "/app-again")).toBe(429);
});

// Real gateways and a real Redis: what is remembered of a refusal is given up when it is not true any more. A client over its own limit, whose
// units of a shared limit come back at once, shuts that limit for nobody; and one large cost that was refused says nothing of small ones.
// test/gateway/stores/redis/refusal-records_spec.lua and refusal-cache_spec.lua play the rest in virtual time.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerOf, check } from "../fixtures/clients/check-api-client.ts";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

const shop: Caller = { app: "default", token: "a-token-of-the-shop" };
/** The status of requests that pass: nginx's own answer, since nothing is behind the gateway. */
const passed = 404;

const onLimit: Readonly<Record<string, object>> = {
  delay: { action: "delay", maxDelay: "1s" },
  degrade: { action: "degrade", response: { status: 503, body: "later" } },
  tag: { action: "tag", header: "x-over: 1" },
};
const costly = {
  fixed: { algorithm: "fixed-window", quota: 100, window: "1d" },
  sliding: { algorithm: "sliding-window", quota: 100, window: "1d" },
  bucket: { algorithm: "token-bucket", quota: 100, window: "1d" },
};
const atPath = (name: string, key: string, limit: object, more: object = {}) => ({
  name,
  scope: "cluster",
  match: { paths: [`/${name.replace(/-.*/, "")}`] },
  key: [key],
  limits: [limit],
  ...more,
});
const daily = (quota: number) => ({ algorithm: "fixed-window", quota, window: "1d" });

let redis: RedisServer;
let gateways: LoneGateway[] = [];
beforeAll(async () => {
  redis = new RedisServer(await freePort(), {});
  await redis.start();
  const policies = [
    ...Object.entries(onLimit).flatMap(([name, action]) => [
      atPath(`${name}-all`, "const:all", daily(20), { onLimit: action }),
      atPath(`${name}-own`, "header:x-user", daily(2)),
    ]),
    ...Object.entries(costly).map(([name, limit]) =>
      atPath(name, "const:all", limit, { cost: { from: "header:x-cost", default: 1, max: 100 } }),
    ),
    atPath("checked", "header:x-user", daily(10)),
    atPath("full", "header:x-user", daily(1), { scope: "node" }),
  ];
  const env = { SLUICE_REDIS_URL: redis.url };
  gateways = await Promise.all(
    [1, 2].map(() => LoneGateway.start({ policies, callers: [callerOf(shop)], workers: 2, env })),
  );
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop();
  await redis?.stop();
});

const [first, second] = [0, 1].map((i) => () => gateways[i] as LoneGateway) as [() => LoneGateway, () => LoneGateway];
const as = (user: string) => ({ headers: { "x-user": user } });

describe.each(Object.keys(onLimit))("a shared limit whose policy has the action %s", (name) => {
  it("stays open to others when a client over its own limit comes many times at once, to all gateways", async () => {
    const urls = () => [first(), second()].map(({ url }) => `${url}/${name}`) as [string, string];
    for (let i = 0; i < 3; i++) await ask(urls()[0], as("mallory"));
    await askAtOnce(urls(), 80, as("mallory"));
    await sleep(200);
    const heard: string[] = [];
    for (let i = 0; i < 8; i++) {
      const { status, headers } = await ask(urls()[i % 2] as string, as(`user-${i}`));
      heard.push(`${status} ${headers["x-ratelimit-remaining"]}`);
    }
    // The client's own limit is nearest to refusing.
    expect(heard).toEqual(Array(8).fill(`${passed} 1`));
  });
});

it("a check that was refused because of units of a moment is allowed when they are back", async () => {
  const { privateUrl } = first();
  const refusing = { policy: "full", key: ["full"] };
  const checked = (cost: number) => ({ policy: "checked", key: ["moment"], cost });
  await Promise.all([1, 2, 3, 4].map(() => check(privateUrl, shop, [refusing])));
  for (let i = 0; i < 20; i++) {
    await Promise.all([8, 5].map((cost) => check(privateUrl, shop, [checked(cost), refusing])));
  }
  await sleep(200);
  const { results } = await check(privateUrl, shop, [checked(5)]);
  expect(results[0]).toMatchObject({ allowed: true, remaining: 5 });
});

it("checks of costs that differ hear what is left now", async () => {
  const hear = async (key: string) => {
    const heard: string[] = [];
    for (const cost of [8, 5, 2, 5]) {
      const { results } = await check(first().privateUrl, shop, [{ policy: "checked", key: [key], cost }]);
      heard.push(`${results[0]?.["allowed"]} ${results[0]?.["remaining"]}`);
      // They may meet different workers.
      await sleep(150);
    }
    return heard;
  };
  // With so many keys, some have all of their checks at one worker.
  const heard = await Promise.all(Array.from({ length: 40 }, (_, i) => hear(`costs-${i}`)));
  expect(heard).toEqual(Array(40).fill(["true 2", "false 2", "true 0", "false 0"]));
});

it("a large cost that was refused leaves the share to others while Redis is away", async () => {
  const costing = (name: string, cost: number) => ask(`${first().url}/${name}`, { headers: { "x-cost": `${cost}` } });
  for (const name of Object.keys(costly)) {
    const statuses: number[] = [];
    for (const cost of [60, 60, 1, 1]) statuses.push((await costing(name, cost)).status);
    expect(statuses).toEqual([passed, 429, passed, passed]);
  }
  await redis.stop();
  for (const name of Object.keys(costly)) {
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) statuses.push((await costing(name, 1)).status);
    expect(statuses).toEqual(Array(10).fill(passed));
  }
});

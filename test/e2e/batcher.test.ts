// A gateway sends a real Redis few calls: requests that come together share a call, and a refusal is remembered instead of requested again.
// test/gateway/stores/redis/batcher_spec.lua, refusal-cache_spec.lua and breaker_spec.lua play the rest in virtual time.

import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, askAtOnce } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";

const algorithms = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"];
const limits = [
  { name: "few", algorithm: "token-bucket", quota: 20, window: "31d" },
  { name: "many", algorithm: "fixed-window", quota: 40, window: "366d" },
];
const policy = (name: string, limits: object[]) => ({ name, scope: "cluster", match: { paths: [`/${name}`] }, limits });
/** The status of requests that pass: nginx's own answer, since nothing is behind the gateway. */
const passed = 404;

let redis: RedisServer;
let gateway: LoneGateway;
beforeAll(async () => {
  redis = new RedisServer(await freePort());
  await redis.start();
  gateway = await LoneGateway.start({
    policies: [
      ...algorithms.map((algorithm) => policy(algorithm, [{ algorithm, quota: 50, window: "1d" }])),
      policy("several", limits),
      policy("single", limits.slice(1)),
      policy("flooded", [{ algorithm: "fixed-window", quota: 5, window: "366d" }]),
    ],
    env: { SLUICE_REDIS_URL: redis.url, SLUICE_REDIS_DEADLINE_MS: "5000" },
  });
});
afterAll(async () => {
  await gateway?.stop();
  await redis?.stop();
});

/** @returns calls of scripts, as Redis counts them */
async function scriptCalls(): Promise<number> {
  const stats = String(await redis.command("INFO", "commandstats"));
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
}

const at = (name: string) => `${gateway.url}/${name}`;

it.each(algorithms)("decides requests that come together exactly, by few calls: %s", async (algorithm) => {
  const before = await scriptCalls();
  expect(await askAtOnce([at(algorithm)], 500)).toEqual({ [passed]: 50, 429: 450 });
  expect((await scriptCalls()) - before).toBeLessThan(100);
});

it("charges all limits of a policy or none, alongside policies of one limit, and the metrics count batches", async () => {
  const before = await scriptCalls();
  const [several, single] = await Promise.all([askAtOnce([at("several")], 200), askAtOnce([at("single")], 200)]);
  expect([several, single]).toEqual([
    { [passed]: 20, 429: 180 },
    { [passed]: 40, 429: 160 },
  ]);
  // Each limit of a policy with several is a call of its own (400 at most), but the calls share the round trip. Those of one limit share calls.
  expect((await scriptCalls()) - before).toBeLessThan(400 + 100);
  expect(await gateway.metric("sluice_redis_batched_counters_total")).toBeGreaterThan(
    2 * (await gateway.metric("sluice_redis_batches_total")),
  );
  // The second limit was not charged for what the first refused.
  const [key] = (await redis.command("KEYS", "sluice:s3:{default:several:*:many:*")) as [string];
  expect(await redis.countOf(key)).toBe(20);
});

it("remembers a refusal: a flood over the limit sends nothing to Redis and gets the same answer", async () => {
  expect(await askAtOnce([at("flooded")], 20)).toEqual({ [passed]: 5, 429: 15 });
  const before = await scriptCalls();
  const first = await ask(at("flooded"));
  expect(await askAtOnce([at("flooded")], 500)).toEqual({ 429: 500 });
  const later = await ask(at("flooded"));
  expect((await scriptCalls()) - before).toBe(0);
  await until("502 are counted as remembered", async () => {
    return (await gateway.metric("sluice_redis_refusals_remembered_total")) >= 502;
  });
  expect([first.status, later.status]).toEqual([429, 429]);
  for (const field of ["type", "violated-policies"]) {
    expect(JSON.parse(later.body)[field]).toEqual(JSON.parse(first.body)[field]);
  }
  expect(later.headers["x-ratelimit-limit"]).toBe("5");
  expect(later.headers["x-ratelimit-remaining"]).toBe("0");
  expect(Number(first.headers["retry-after"]) - Number(later.headers["retry-after"])).toBeGreaterThanOrEqual(0);
});

// Real gateways and a real Redis: two gateways hold different sizes of one limit, as they do while one of them is cut off from the control
// plane. A client that reaches both has no more than the larger size gives. test/gateway/redis_script_spec.lua plays random sizes and turns.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

const larger = { quota: 100, burst: 100 };
const smaller = { quota: 50, burst: 1 };
const bucket = { algorithm: "token-bucket", window: "100s" };
/** What the larger size gives at once, and in a second. */
const kinds = [
  { name: "exact", limit: bucket },
  { name: "leased", limit: bucket, more: { consistency: "leased" } },
  { name: "begun", limit: bucket, initial: 40 },
  { name: "warm", limit: { ...bucket, warmUp: "20s" } },
  { name: "fixed", limit: { algorithm: "fixed-window", window: "1d" } },
  { name: "sliding", limit: { algorithm: "sliding-window", window: "100s" } },
] as const;
const lastsMs = 4_000;

type Kind = { name: string; limit: object; more?: object; initial?: number };

function policyOf({ name, limit, more, initial }: Kind, size: typeof larger) {
  const { burst, quota } = size;
  const own = "warmUp" in limit || (limit as { algorithm: string }).algorithm === "token-bucket" ? { burst } : {};
  const begins = initial === undefined ? {} : { initial: Math.min(initial, burst) };
  return {
    name,
    scope: "cluster",
    match: { paths: [`/${name}`] },
    key: ["header:x-key"],
    limits: [{ quota, ...own, ...begins, ...limit }],
    ...more,
  };
}

let redis: RedisServer;
let gateways: LoneGateway[] = [];
beforeAll(async () => {
  redis = new RedisServer(await freePort(), {});
  await redis.start();
  const env = { SLUICE_REDIS_URL: redis.url };
  gateways = await Promise.all(
    [larger, smaller].map((size) => LoneGateway.start({ policies: kinds.map((kind) => policyOf(kind, size)), env })),
  );
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop();
  await redis?.stop();
});

async function passes(gateway: LoneGateway, name: string): Promise<boolean> {
  const { status } = await ask(`${gateway.url}/${name}`, { headers: { "x-key": "ann" } });
  // Nothing is behind the gateway, so nginx itself answers a request that passes.
  expect([404, 429]).toContain(status);
  return status === 404;
}

describe("a client that reaches a gateway with the smaller and one with the larger size of a limit", () => {
  it.concurrent.each(kinds)("has no more than the larger size gives: $name", async ({ name, ...kind }) => {
    const [large, small] = gateways as [LoneGateway, LoneGateway];
    const began = performance.now();
    let passed = 0;
    let turns = 0;
    while (performance.now() - began < lastsMs) {
      while (await passes(large, name)) passed += 1;
      for (let i = 0; i < 2; i++) if (await passes(small, name)) passed += 1;
      turns += 1;
      await sleep(20);
    }
    const seconds = (performance.now() - began) / 1_000;
    const atOnce = "initial" in kind ? kind.initial : larger.burst;
    expect(passed, `${turns} turns`).toBeLessThanOrEqual(atOnce + seconds + 1);
    expect(passed).toBeGreaterThan(atOnce * 0.9);
    expect(turns).toBeGreaterThan(10);
  });
});

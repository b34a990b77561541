// Tests the scripts in a real Redis, by its own clock: what they reply, what they store and for how long.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import type { Limit } from "../../limiter/src/algorithms/limit.ts";
import { counterPrefix, counterSuffix, encodeKeyValues } from "../../limiter/src/compiled/counter-key.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";

const project = resolve(import.meta.dirname, "../..");

beforeAll(requireGatewayBuild);

function run(command: string, args: readonly string[], input = ""): string {
  return execFileSync(command, args, { cwd: project, input, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
}

test("in Lua 5.1, the scripts pass the tests that they pass in LuaJIT", () => {
  const specs = ["test/gateway/redis_script_spec.lua"];
  const output = run("busted", ["--lua=/usr/bin/lua5.1", "-o", "plainTerminal", ...specs]);
  expect(output).toMatch(/^.*[1-9]\d* successes \/ 0 failures \/ 0 errors/m);
});

describe("in a real Redis, the script", () => {
  const hour: Limit = {
    name: "hourly",
    algorithm: "token-bucket",
    quota: 5,
    windowUs: 3_600_000_000,
    burst: 5,
    precisionUs: 0,
  };
  const year: Limit = {
    name: "yearly",
    algorithm: "fixed-window",
    quota: 3,
    windowUs: 31_622_400_000_000,
    burst: 3,
    precisionUs: 0,
  };
  const slots: Limit = {
    name: "slots",
    algorithm: "concurrency",
    quota: 2,
    windowUs: 60_000_000,
    burst: 2,
    precisionUs: 0,
  };
  const prefix = `sluice:${counterPrefix("shop", "books")}${encodeKeyValues(["a}b", "c"], 2, String)}`;
  type Script = { sha1: string; source: string };
  let scripts: Record<"charge" | "peek" | "refund" | "renew", Script>;
  let script: Script;
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    const print = 'io.write(require("cjson").encode(dofile("gateway/dist/sluice_redis_scripts.lua")))';
    scripts = JSON.parse(run("luajit", ["-e", print]));
    script = scripts.charge;
    server = new RedisServer(await freePort());
    await server.start();
    redis = new Redis(server.port, "127.0.0.1");
  });

  beforeEach(async () => {
    await redis.flushall();
    for (const { source } of Object.values(scripts)) await redis.script("LOAD", source);
  });

  afterAll(async () => {
    redis?.disconnect();
    await server?.stop();
  });

  function argumentsOf({ algorithm, quota, windowUs, burst, precisionUs }: Limit, cost: number): string[] {
    return [algorithm, ...[quota, windowUs, precisionUs === 0 ? burst : precisionUs, cost].map(String)];
  }

  function call({ sha1 }: Script, { name }: Limit, ...args: (string | number)[]): Promise<unknown> {
    return redis.evalsha(sha1, 1, prefix + name, ...args);
  }

  /** @returns what is stored of a counter that has no earlier ticks */
  async function stored(key: string): Promise<number[]> {
    const bytes = (await redis.getBuffer(key)) as Buffer;
    expect(bytes).toHaveLength(key.includes(":token-bucket:") ? 24 : 16);
    return [bytes.readDoubleLE(0), bytes.readDoubleLE(8)];
  }

  function ask(checks: readonly (readonly [limit: Limit, cost: number])[]): Promise<number[]> {
    const keys = checks.map(([limit]) => prefix + counterSuffix(limit));
    const args = checks.flatMap(([limit, cost]) => argumentsOf(limit, cost));
    return redis.evalsha(script.sha1, keys.length, ...keys, ...args) as Promise<number[]>;
  }

  test("has the SHA-1 by which the gateway calls it", async () => {
    for (const { source, sha1 } of Object.values(scripts)) expect(await redis.script("LOAD", source)).toBe(sha1);
  });

  test("allows the burst and refuses the next, with the wait", async () => {
    const replies: number[][] = [];
    for (let i = 0; i < 6; i++) replies.push(await ask([[hour, 1]]));
    expect(replies.map(([allowed, own, remaining]) => [allowed, own, remaining])).toEqual([
      [1, 1, 4],
      [1, 1, 3],
      [1, 1, 2],
      [1, 1, 1],
      [1, 1, 0],
      [0, 0, 0],
    ]);
    const [, , , retryAfterUs = 0, resetAfterUs = 0] = replies[5] as number[];
    // A unit takes 12 minutes, less the time that the six calls took.
    expect(retryAfterUs).toBeGreaterThan(715_000_000);
    expect(retryAfterUs).toBeLessThanOrEqual(720_000_000);
    expect(resetAfterUs - retryAfterUs).toBe(4 * 720_000_000);
  });

  test("refuses for ever what costs more than the burst", async () => {
    expect(await ask([[hour, 6]])).toEqual([0, 0, 5, -1, 0, 0, 0]);
    expect(await redis.dbsize()).toBe(0);
  });

  test("charges all of a group or none, and reports which refused", async () => {
    const both = [
      [hour, 1],
      [year, 2],
    ] as const;
    expect((await ask(both)).filter((_, i) => [0, 1, 2, 7, 8].includes(i))).toEqual([1, 1, 4, 1, 1]);
    const stored = await redis.get(prefix + counterSuffix(hour));
    expect((await ask(both)).filter((_, i) => [0, 1, 2, 7, 8].includes(i))).toEqual([0, 1, 4, 0, 1]);
    expect(await redis.get(prefix + counterSuffix(hour))).toBe(stored);
  });

  test("admits exactly the burst of a thousand requests sent at once", async () => {
    const limit = { ...hour, quota: 100, burst: 100 };
    const replies = await Promise.all(Array.from({ length: 1_000 }, () => ask([[limit, 1]])));
    expect(replies.filter(([allowed]) => allowed === 1)).toHaveLength(100);
  });

  test("stores a moment and a count under the counter's key, with a life that ends when it no longer matters", async () => {
    await ask([
      [hour, 1],
      [year, 1],
    ]);
    expect((await redis.keys("*")).sort()).toEqual([
      "sluice:s3:{shop:books:h:2:3:a}bc}:hourly:token-bucket:3600000000",
      "sluice:s3:{shop:books:h:2:3:a}bc}:yearly:fixed-window:31622400000000",
    ]);
    const [seconds] = await redis.time();
    const [fullAtUs, noRest] = await stored(prefix + counterSuffix(hour));
    expect([Math.round(((fullAtUs as number) / 1_000_000 - Number(seconds)) / 720), noRest]).toEqual([1, 0]);
    const [beganAtUs, count] = await stored(prefix + counterSuffix(year));
    expect([(beganAtUs as number) % year.windowUs, count]).toEqual([0, 1]);
    const [hourlyMs, yearlyMs] = [
      await redis.pttl(prefix + counterSuffix(hour)),
      await redis.pttl(prefix + counterSuffix(year)),
    ];
    expect(hourlyMs).toBeGreaterThan(715_000);
    expect(hourlyMs).toBeLessThanOrEqual(720_001);
    expect(yearlyMs).toBeGreaterThan(2 * 31_622_400_000 - 5_000);
    expect(yearlyMs).toBeLessThanOrEqual(2 * 31_622_400_000);
  });

  test("can be loaded again after Redis has forgotten it, and nothing is charged before", async () => {
    await redis.script("FLUSH");
    await expect(ask([[hour, 1]])).rejects.toThrow(/^NOSCRIPT/);
    expect(await redis.dbsize()).toBe(0);
    const reply = await redis.eval(script.source, 1, prefix + counterSuffix(hour), ...argumentsOf(hour, 1));
    expect((reply as number[]).slice(0, 3)).toEqual([1, 1, 4]);
    expect((await ask([[hour, 1]])).slice(0, 3)).toEqual([1, 1, 3]);
  });

  test.each(["token-bucket", "fixed-window", "sliding-window", "sliding-log", "leaky-bucket", "concurrency"] as const)(
    "for counters of one limit replies and stores as the script of groups does for each: %s",
    async (algorithm) => {
      const own = (scripts as Record<string, Script>)[`charge_${algorithm.replaceAll("-", "_")}`] as Script;
      const limit = { ...hour, algorithm, precisionUs: 360_000_000 };
      const [, ...args] = argumentsOf(limit, 2);
      // One counter comes three times, and is refused the third time.
      const order = ["a", "b", "a", "c", "a"];
      const keys = order.map((key) => `{run}${key}`);
      const packed = (await redis.callBuffer("EVALSHA", own.sha1, order.length, ...keys, ...args)) as Buffer;
      expect(packed.length).toBe(order.length * 48);
      for (const [i, key] of order.entries()) {
        const group = await redis.evalsha(script.sha1, 1, `{one}${key}`, algorithm, ...args);
        const [, ...alone] = group as number[];
        const inRun = Array.from({ length: 6 }, (_, k) => packed.readDoubleLE(i * 48 + k * 8));
        expect(inRun.slice(0, 2)).toEqual(alone.slice(0, 2));
        // The two calls were made at different moments.
        for (const k of [2, 3, 4]) {
          expect(Math.abs((inRun[k] as number) - (alone[k] as number))).toBeLessThan(1_000_000);
        }
        expect(Math.abs((inRun[5] as number) - (alone[5] as number))).toBeLessThan(400_000_000);
      }
      // The same units were charged, so the same remain.
      for (const key of order) {
        const left = (of: string) => redis.evalsha(scripts.peek.sha1, 1, of + key, algorithm, ...args);
        expect(((await left("{run}")) as number[])[1]).toBe(((await left("{one}")) as number[])[1]);
      }
    },
  );

  test("peeks and charges nothing", async () => {
    expect(await call(scripts.peek, hour, ...argumentsOf(hour, 2))).toEqual([1, 5, 0, 0, 0]);
    expect(await call(scripts.peek, hour, ...argumentsOf(hour, 6))).toEqual([0, 5, -1, 0, 0]);
    expect(await redis.dbsize()).toBe(0);
  });

  test("refunds what a charge took, and nothing if the counter does not exist", async () => {
    const key = prefix + counterSuffix(year);
    const chargedAtUs = (await ask([[year, 3]]))[6] as number;
    const refund = () => redis.evalsha(scripts.refund.sha1, 1, key, ...argumentsOf(year, 2), chargedAtUs);
    expect(await refund()).toBe(1);
    expect((await ask([[year, 2]])).slice(0, 3)).toEqual([1, 1, 0]);
    await redis.del(key);
    expect(await refund()).toBe(0);
    expect(await redis.dbsize()).toBe(0);
  });

  test("renews a slot for another lifetime, for as long as Redis keeps it", async () => {
    const key = prefix + counterSuffix(slots);
    const takenAtUs = (await ask([[slots, 1]]))[6] as number;
    expect(await stored(key)).toEqual([takenAtUs, 1]);
    expect(await redis.pttl(key)).toBeGreaterThan(50_000);
    const heldAtUs = await redis.evalsha(scripts.renew.sha1, 1, key, slots.quota, slots.windowUs, 1, takenAtUs);
    expect(heldAtUs).toBeGreaterThanOrEqual(takenAtUs);
    expect((await ask([[slots, 2]])).slice(0, 3)).toEqual([0, 0, 1]);
    expect(await redis.evalsha(scripts.renew.sha1, 1, key, slots.quota, slots.windowUs, 3, takenAtUs)).toBe(-1);
  });

  test("is flat", () => {
    for (const { source } of Object.values(scripts)) {
      expect(source).not.toMatch(/\brequire\b|____exports|__TS__|\bfunction\b/);
      expect(source).toMatch(/^-- .*\n--\n-- KEYS .*\n-- ARGV /);
    }
  });
});

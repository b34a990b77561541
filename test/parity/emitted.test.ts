// The emitted Lua decides as Node does: in LuaJIT, in Lua 5.1 and in a real Redis. All in one file, because a build of
// the gateway that is out of date is made anew first, and only one may do that.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { counterPrefix, counterSuffix, encodeKeyValues } from "../../limiter/src/key/counter-key.ts";
import type { Limit } from "../../limiter/src/policy/policy.ts";
import { freePort } from "../fixtures/free-ports.ts";
import { RedisServer } from "../fixtures/redis-server.ts";
import { answersOfNode, randomTrace, traceLines } from "./random-trace.ts";
import { limitOf, readVectors } from "./vectors.ts";

const project = resolve(import.meta.dirname, "../..");
const algorithms = ["token-bucket", "fixed-window"] as const;

beforeAll(requireGatewayBuild);

function run(command: string, args: readonly string[], input = ""): string {
  return execFileSync(command, args, { cwd: project, input, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
}

describe("on random traces, the same decisions and states as in Node are made by", () => {
  const runtimes = [
    { name: "LuaJIT in nginx", lua: "luajit", player: "nginx", refunds: true },
    { name: "the script in Lua 5.1", lua: "lua5.1", player: "redis", refunds: false },
  ];
  for (const { name, lua, player, refunds } of runtimes) {
    for (const algorithm of algorithms) {
      test(`${name}: ${algorithm}, 25,000 decisions`, () => {
        const events = randomTrace(algorithm, 20_231_114, 25_000, refunds);
        const asked = events.filter(({ kind }) => kind === "ask").length;
        const expected = answersOfNode(events);
        const actual = run(lua, ["test/parity/play-trace.lua", player], traceLines(events)).trimEnd().split("\n");
        expect(asked).toBe(25_000);
        // A trace that mostly allows, or mostly refuses, would prove little.
        const allowed = expected.filter((answer) => answer.startsWith("allowed")).length;
        expect(allowed / asked).toBeGreaterThan(0.15);
        expect(allowed / asked).toBeLessThan(0.85);
        const differs = expected.findIndex((answer, i) => answer !== actual[i]);
        if (differs >= 0)
          expect(`answer ${differs}: ${actual[differs]}`).toBe(`answer ${differs}: ${expected[differs]}`);
        expect(actual).toHaveLength(expected.length);
      });
    }
  }
});

test("in Lua 5.1, the script passes the tests that it passes in LuaJIT", () => {
  const specs = ["test/gateway/vectors_spec.lua", "test/gateway/redis_script_spec.lua"];
  const output = run("busted", ["--lua=/usr/bin/lua5.1", "-o", "plainTerminal", ...specs]);
  expect(output).toMatch(/^.*[1-9]\d* successes \/ 0 failures \/ 0 errors/m);
});

describe("in a real Redis, the script", () => {
  const hour: Limit = { name: "hourly", algorithm: "token-bucket", quota: 5, windowUs: 3_600_000_000, burst: 5 };
  const year: Limit = { name: "yearly", algorithm: "fixed-window", quota: 3, windowUs: 31_622_400_000_000, burst: 3 };
  const prefix = `sluice:${counterPrefix("shop", "books")}${encodeKeyValues(["a}b", "c"], 2, String)}`;
  let script: { sha1: string; source: string };
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    const print = 'local s = dofile("gateway/dist/sluice_redis_scripts.lua").charge; io.write(s.sha1, "\\n", s.source)';
    const [sha1 = "", ...source] = run("lua5.1", ["-e", print]).split("\n");
    script = { sha1, source: source.join("\n") };
    server = new RedisServer(await freePort());
    await server.start();
    redis = new Redis(server.port, "127.0.0.1");
  });

  beforeEach(async () => {
    await redis.flushall();
    await redis.script("LOAD", script.source);
  });

  afterAll(async () => {
    redis?.disconnect();
    await server?.stop();
  });

  function argumentsOf({ algorithm, quota, windowUs, burst }: Limit, cost: number): string[] {
    return [algorithm, `${quota}`, `${windowUs}`, `${burst}`, `${cost}`];
  }

  function ask(checks: readonly (readonly [limit: Limit, cost: number])[]): Promise<number[]> {
    const keys = checks.map(([limit]) => prefix + counterSuffix(limit));
    const args = checks.flatMap(([limit, cost]) => argumentsOf(limit, cost));
    return redis.evalsha(script.sha1, keys.length, ...keys, ...args) as Promise<number[]>;
  }

  test("is known by the SHA-1 that the gateway calls it by", async () => {
    expect(await redis.script("LOAD", script.source)).toBe(script.sha1);
  });

  test("allows the burst and refuses the next, telling the wait", async () => {
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
    // 12 minutes a unit, less the moment that the six calls took.
    expect(retryAfterUs).toBeGreaterThan(715_000_000);
    expect(retryAfterUs).toBeLessThanOrEqual(720_000_000);
    expect(resetAfterUs - retryAfterUs).toBe(4 * 720_000_000);
  });

  test("refuses for ever what costs more than the burst", async () => {
    expect(await ask([[hour, 6]])).toEqual([0, 0, 5, -1, 0]);
    expect(await redis.dbsize()).toBe(0);
  });

  test("charges all of a group or none, and tells which refused", async () => {
    const both = [
      [hour, 1],
      [year, 2],
    ] as const;
    expect((await ask(both)).filter((_, i) => [0, 1, 2, 5, 6].includes(i))).toEqual([1, 1, 4, 1, 1]);
    const stored = await redis.get(prefix + counterSuffix(hour));
    expect((await ask(both)).filter((_, i) => [0, 1, 2, 5, 6].includes(i))).toEqual([0, 1, 4, 0, 1]);
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
      "sluice:s1:{shop:books:2:3:a}bc}:hourly:token-bucket:3600000000",
      "sluice:s1:{shop:books:2:3:a}bc}:yearly:fixed-window:31622400000000",
    ]);
    expect(await redis.get(prefix + counterSuffix(hour))).toMatch(/^1\d{15} 0$/);
    expect(await redis.get(prefix + counterSuffix(year))).toMatch(/^1\d{15} 1$/);
    const [hourlyMs, yearlyMs] = [
      await redis.pttl(prefix + counterSuffix(hour)),
      await redis.pttl(prefix + counterSuffix(year)),
    ];
    expect(hourlyMs).toBeGreaterThan(715_000);
    expect(hourlyMs).toBeLessThanOrEqual(720_001);
    expect(yearlyMs).toBeGreaterThan(2 * 31_622_400_000 - 5_000);
    expect(yearlyMs).toBeLessThanOrEqual(2 * 31_622_400_000);
  });

  test("is asked for again after Redis has forgotten it, and nothing was charged then", async () => {
    await redis.script("FLUSH");
    await expect(ask([[hour, 1]])).rejects.toThrow(/^NOSCRIPT/);
    expect(await redis.dbsize()).toBe(0);
    const reply = await redis.eval(script.source, 1, prefix + counterSuffix(hour), ...argumentsOf(hour, 1));
    expect((reply as number[]).slice(0, 3)).toEqual([1, 1, 4]);
    expect((await ask([[hour, 1]])).slice(0, 3)).toEqual([1, 1, 3]);
  });

  test("breaks no rule of a Redis that stops at undeclared keys and globals", async () => {
    expect(script.source).not.toMatch(/\brequire\b|____exports|__TS__/);
    expect(script.source.match(/^return .*$/gm)).toEqual(["return chargeCounters(KEYS, ARGV)"]);
  });

  describe("with the vectors' time for its own", () => {
    // The script in a Redis whose TIME is an argument, and whose keys stay: their lives are told by the real clock.
    const stub = `local real = redis
      local redis = { call = function(command, key, value)
        if command == "TIME" then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
        if command == "SET" then return real.call("SET", key, value) end
        return real.call(command, key)
      end }\n`;

    for (const algorithm of algorithms) {
      for (const { name, limit, startUs, steps } of readVectors(algorithm).vectors) {
        test(`a ${algorithm}: ${name}`, async () => {
          let asked = limitOf(limit);
          let nowUs = startUs;
          for (const [index, step] of steps.entries()) {
            if (step.limit !== undefined) asked = limitOf(step.limit);
            nowUs += step.afterUs ?? 0;
            const time = [`${Math.floor(nowUs / 1_000_000)}`, `${nowUs % 1_000_000}`];
            const args = [...argumentsOf(asked, step.cost ?? 1), ...time];
            const reply = await redis.eval(stub + script.source, 1, "key", ...args);
            const stored = ((await redis.get("key")) ?? "0 0").split(" ").map(Number);
            const told = step.allowed ? 1 : 0;
            expect({ index, reply, stored }).toEqual({
              index,
              reply: [told, told, step.remaining, step.retryAfterUs ?? 0, step.resetAfterUs],
              stored: step.state,
            });
          }
        });
      }
    }
  });
});

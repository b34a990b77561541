// Compares leases in a real Redis with Node: the scripts answer and store what the functions that they are made of do in Node,
// whatever is requested in whatever order. Redis' clock is replaced by a number of the call, so that both see the same times.

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import * as charging from "../../limiter/src/algorithms/charge-all.ts";
import { emptyDecision } from "../../limiter/src/algorithms/decision.ts";
import type { Limit } from "../../limiter/src/algorithms/limit.ts";
import * as memory from "../../limiter/src/algorithms/memory-ring.ts";
import * as rates from "../../limiter/src/algorithms/rate.ts";
import * as holder from "../../limiter/src/lease/holder.ts";
import * as ledger from "../../limiter/src/lease/ledger.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { Redis as RedisInNode, seeded } from "../limiter/lease/lease-world.ts";

const project = resolve(import.meta.dirname, "../..");
const product = { ...rates, ...memory, ...charging, ...holder, ...ledger };
const second = 1_000_000;
const startUs = 1_700_000_000_000_000;

const limit = (name: string, algorithm: Limit["algorithm"], quota: number, burst = quota): Limit => ({
  name,
  algorithm,
  quota,
  windowUs: second,
  burst,
  precisionUs: algorithm === "sliding-window" ? second / 10 : 0,
});
const bucket = limit("bucket", "token-bucket", 703, 150);
const fixed = limit("fixed", "fixed-window", 120);
const sliding = limit("sliding", "sliding-window", 150);

let server: RedisServer;
let redis: Redis;
let scripts: Record<"lease" | "charge_leased", string>;

beforeAll(async () => {
  await requireGatewayBuild();
  const print = `
    local sources = {}
    for name, script in pairs(dofile("gateway/dist/sluice_redis_scripts.lua")) do sources[name] = script.source end
    io.write(require("cjson").encode(sources))`;
  scripts = JSON.parse(execFileSync("luajit", ["-e", print], { cwd: project, encoding: "utf8", maxBuffer: 2 ** 26 }));
  server = new RedisServer(await freePort());
  await server.start();
  redis = new Redis(server.port, "127.0.0.1");
});

beforeEach(() => redis.flushall());

afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

const ledgerKey = "{policy}:lease";
const keyOf = ({ name }: Limit) => `{policy}:${name}`;
const numbersOf = ({ algorithm, quota, windowUs, burst, precisionUs }: Limit) =>
  [algorithm, ...[quota, windowUs, precisionUs === 0 ? burst : precisionUs].map(String)] as const;

/** Wraps Redis: its clock shows the call's last two arguments, and it forgets nothing while that clock stands still. */
const timeless = `
  local real = redis
  local redis = {
    pcall = real.pcall,
    call = function(command, key, value, px)
      if command == "TIME" then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
      if command == "PEXPIRE" then return end
      if command == "SET" then return real.call("SET", key, value) end
      if px then return real.call(command, key, value, px) end
      return value and real.call(command, key, value) or real.call(command, key)
    end,
  }
`;

/** Runs a script at the given time, or at Redis' own. */
async function run(name: keyof typeof scripts, keys: string[], args: string[], nowUs?: number): Promise<number[]> {
  if (nowUs === undefined) return (await redis.eval(scripts[name], keys.length, ...keys, ...args)) as number[];
  const argv = [...args, `${Math.floor(nowUs / second)}`, `${nowUs % second}`];
  return (await redis.eval(timeless + scripts[name], keys.length, ...keys, ...argv)) as number[];
}

function exchangeIn(
  limits: readonly Limit[],
  message: ledger.LeaseMessage,
  parameters: ledger.LeaseParameters,
  nowUs?: number,
) {
  const { seq, acknowledged, kept, back, want } = message;
  const numbers = [seq, acknowledged, kept, back, want, parameters.horizonUs, parameters.lifetimeUs].map(String);
  const args = [message.holder, ...numbers, ...limits.flatMap(numbersOf)];
  return run("lease", [ledgerKey, ...limits.map(keyOf)], args, nowUs);
}

function chargeIn(limits: readonly Limit[], cost: number, nowUs?: number) {
  const args = limits.flatMap((one) => [...numbersOf(one), `${cost}`]);
  return run("charge_leased", [...limits.map(keyOf), ...limits.map(() => ledgerKey)], args, nowUs);
}

describe("in a real Redis", () => {
  for (const [name, limits] of Object.entries({
    "a token bucket": [bucket],
    "a fixed window": [fixed],
    "a sliding window": [sliding],
    "three limits at once": [bucket, fixed, sliding],
  })) {
    test(`${name} is leased and charged as in Node, 600 times`, async () => {
      const random = seeded(20_231_114);
      const parameters = { horizonUs: 100_000, lifetimeUs: 300_000 };
      const inNode = new RedisInNode(product, limits, parameters);
      const seqs = [0, 0, 0];
      let nowUs = startUs;
      let granted = 0;
      let refused = 0;
      for (let step = 0; step < 600; step++) {
        nowUs += random(20) === 0 ? random(second) : random(30_000);
        if (random(4) === 0) {
          const cost = 1 + random(90);
          const [allowed] = await chargeIn(limits, cost, nowUs);
          expect([step, allowed]).toEqual([step, inNode.charge(nowUs, cost) ? 1 : 0]);
          if (allowed === 0) refused += 1;
          continue;
        }
        const who = random(seqs.length);
        const last = seqs[who] as number;
        // Most messages are new; others are an old one, or the last one again.
        const seq = random(4) > 0 ? last + 1 : Math.max(1, last - random(3));
        seqs[who] = Math.max(last, seq);
        const acknowledged = Math.max(0, seq - 1 - (random(5) === 0 ? 1 : 0));
        const message = {
          holder: `node-${who}:8080`,
          seq,
          acknowledged,
          kept: random(8),
          back: random(4),
          want: random(3) === 0 ? 0 : random(60),
        };
        const answer = inNode.exchange(nowUs, message);
        const reply = await exchangeIn(limits, message, parameters, nowUs);
        if (answer === undefined) {
          expect([step, reply]).toEqual([step, [0, 0, 0, 0, 0, 0, 0]]);
          continue;
        }
        const { grant, honoured, durationUs, retryAfterUs, elsewhere } = answer;
        const reportedNumbers = inNode.counters.flatMap((counter) => {
          const decision = emptyDecision();
          rates.admits(counter.rate, counter, memory.memoryRing, nowUs, 0);
          rates.describe(counter.rate, counter, memory.memoryRing, nowUs, 1, true, decision);
          return [decision.remaining, decision.resetAfterUs];
        });
        expect([step, reply]).toEqual([
          step,
          [1, seq, grant, honoured, durationUs, retryAfterUs, elsewhere, ...reportedNumbers],
        ]);
        granted += grant;
        const { holdings, count } = inNode.ledger;
        const lines = holdings.slice(0, count).map((holding) => `${Object.values(holding).join(" ")}\n`);
        expect(await redis.get(ledgerKey)).toBe(lines.join(""));
      }
      expect(granted).toBeGreaterThan(500);
      expect(refused).toBeGreaterThan(5);
    });
  }

  const slow: Limit = { ...limit("slow", "token-bucket", 10, 10), windowUs: 100 * second };
  const parameters = { horizonUs: 100_000, lifetimeUs: 300_000 };

  test("a grant is debited at once, is returned the same again, and is kept for as long as something is owed for it", async () => {
    const message = { holder: "a", seq: 1, acknowledged: 0, kept: 0, back: 0, want: 5 };
    const first = await exchangeIn([slow], message, parameters);
    expect(first.slice(0, 8)).toEqual([1, 1, 5, 0, 300_000, 0, 0, 5]);
    expect(await exchangeIn([slow], message, parameters)).toEqual([...first.slice(0, 8), expect.any(Number)]);
    expect((await chargeIn([slow], 6))[0]).toBe(0);
    expect((await chargeIn([slow], 5))[0]).toBe(1);
    // The key lives 0.3 s for the grant, and 50 s until five units have refilled.
    const px = await redis.pttl(ledgerKey);
    expect(px).toBeGreaterThan(49_000);
    expect(px).toBeLessThanOrEqual(50_301);
  });

  test("the exact path finds units on lease not refilled, and those that were refilling from when their lease expired", async () => {
    await exchangeIn(
      [slow],
      { holder: "a", seq: 1, acknowledged: 0, kept: 0, back: 0, want: 5 },
      { ...parameters, lifetimeUs: 5 * second },
      startUs,
    );
    // Redis has lost only the counter; the ledger still has the units.
    await redis.del(keyOf(slow));
    expect((await chargeIn([slow], 6, startUs + 4 * second))[0]).toBe(0);
    expect((await chargeIn([slow], 6, startUs + 15 * second - 1))[0]).toBe(0);
    expect((await chargeIn([slow], 6, startUs + 15 * second))[0]).toBe(1);
  });
});

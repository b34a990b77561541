// Redis can be reached, and replies with an error, without what it knew, or not at all after it has done what was requested.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Loss } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact } from "../fixtures/measures/fact.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import type { Fault } from "./fault.ts";
import { observe, oneKey, startBehindProxy, startRedis, startSystem } from "./scenario.ts";

const lastsMs = 3000;
const recoversWithinMs = 2000;

/** @returns how often this Redis has replied with this error since it started */
async function errorsOf(redis: RedisServer, code: string): Promise<number> {
  const stats = String(await redis.command("INFO", "errorstats"));
  return Number(new RegExp(`^errorstat_${code}:count=(\\d+)`, "m").exec(stats)?.[1] ?? 0);
}

export async function repliesFact(code: string, redis: readonly RedisServer[]): Promise<Fact> {
  let count = 0;
  for (const node of redis) count += await errorsOf(node, code);
  return atLeast(`replies of ${code}`, 1, count);
}

const scriptFlush: Fault = {
  number: 4,
  name: "SCRIPT FLUSH under load",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    return observe(stack, {
      system,
      decides: "counter",
      async inject() {
        const untilMs = performance.now() + lastsMs;
        while (performance.now() < untilMs) {
          await redis.command("SCRIPT", "FLUSH");
          await sleep(50);
        }
        return undefined;
      },
      moreFacts: async () => [await repliesFact("NOSCRIPT", [redis])],
    });
  },
};

/** A Redis that refuses writes for a reason that an operator can cause. */
function refusesToWrite(code: string, begin: readonly string[], end: readonly string[]): Fault {
  return {
    number: 6,
    name: `Redis replies ${code}`,
    async run(stack) {
      const redis = await startRedis(stack);
      const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
      const command = ([name, ...args]: readonly string[]) => redis.command(name as string, ...args);
      return observe(stack, {
        system,
        decides: "shares",
        recoversWithinMs,
        async inject() {
          await command(begin);
          await sleep(lastsMs);
          await command(end);
          return undefined;
        },
        moreFacts: async () => [await repliesFact(code, [redis])],
      });
    },
  };
}

// The primary of this replica does not exist.
const readOnly = refusesToWrite("READONLY", ["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
const outOfMemory = refusesToWrite("OOM", ["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]);

const loading: Fault = {
  number: 6,
  name: "Redis replies LOADING",
  async run(stack) {
    const directory = mkdtempSync(join(tmpdir(), "sluice-loading-"));
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const redis = await startRedis(stack, ["--dir", directory]);
    await redis.command("EVAL", "for i = 1, 12000 do redis.call('SET', 'filler:' .. i, i) end", "0");
    const slowly = ["--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024"];
    const again = new RedisServer(redis.port, {}, ["--dir", directory, ...slowly]);
    stack.defer(() => again.stop("SIGKILL"));
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    return observe(stack, {
      system,
      decides: "shares",
      recoversWithinMs,
      async inject() {
        await redis.command("SAVE");
        await redis.stop("SIGKILL");
        // Redis is ready once it has read everything, with a pause for each key. What was charged after SAVE is refilled meanwhile.
        await again.start();
        return undefined;
      },
      moreFacts: async () => [await repliesFact("LOADING", [again])],
    });
  },
};

const flushAll: Fault = {
  number: 7,
  name: "FLUSHALL",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    return observe(stack, {
      system,
      decides: "counter",
      async inject() {
        const losses: Loss[] = [];
        for (let i = 0; i < 2; i++) {
          const fromMs = performance.now();
          await redis.command("FLUSHALL");
          losses.push({ fromMs, toMs: performance.now(), units: oneKey.quota });
          await sleep(lastsMs / 2);
        }
        return losses;
      },
    });
  },
};

const replyLost: Fault = {
  number: 9,
  name: "reply lost after execution",
  async run(stack) {
    const { proxy, system } = await startBehindProxy(stack);
    // The window does not end, so that what remains shows how often Redis has charged.
    const limit = { quota: 1_000_000, window: "366d", keys: ["all"], ratePerSecond: 300 };
    let replies = 0;
    let lost = 0;
    return observe(stack, {
      system,
      limit,
      decides: "either",
      recoversWithinMs,
      async inject() {
        proxy.losesReply = () => {
          replies += 1;
          if (replies % 10 !== 0) return false;
          lost += 1;
          return true;
        };
        await sleep(lastsMs);
        proxy.losesReply = () => false;
        return undefined;
      },
      moreFacts({ served }) {
        const left = served
          .filter(({ limit: reported }) => reported === limit.quota)
          .map(({ remaining }) => remaining ?? 0);
        const charged = limit.quota - Math.min(...left);
        return [
          atLeast("replies lost", 10, lost),
          atMost(`charged in Redis for ${served.length} requests: none twice`, served.length, charged),
        ];
      },
    });
  },
};

export const faults = [scriptFlush, readOnly, loading, outOfMemory, flushAll, replyLost];

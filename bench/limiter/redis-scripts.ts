// The limiter in Redis: the product's script against one by hand, each in its own Redis and both at the same time, so that
// what slows the machine down slows both. Requests come at a fixed pace, so that a window has as many requests for both.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis as Client } from "ioredis";
import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { cpuUs } from "../cpu-time.ts";
import type { Processes } from "../processes.ts";
import { type Redis, startRedis } from "../redis.ts";
import { type Case, cases } from "./cases.ts";
import { mustDecideAlike, type Place, type Side, sides, type Taken } from "./compare.ts";

export interface Script {
  readonly sha1: string;
  readonly source: string;
  argumentsOf(limit: Pick<Case, "algorithm" | "quota" | "windowUs" | "size">, cost: number): string[];
  /** Allowed, remaining, retry after, reset after and delay; and, if it was allowed, the moment of the charge. */
  facts(reply: unknown): readonly number[];
}

const byHandDir = join(import.meta.dirname, "../lua/by-hand");
const gapUs = 50;
const pipelined = 64;
const warmUpMs = 1500;
const measuredMs = 1500;
const checked = 2000;

/** Slots are not released here, but are free again after their time to live. Further cases have one key for every request. */
export const redisCases: readonly Case[] = [
  ...cases.map(({ held, ...each }): Case => {
    if (held === undefined) return each;
    return { ...each, quota: 300, windowUs: 1_000_000, gapUs: held === "half" ? 13_333 : 1_667 };
  }),
  ...(["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log", "concurrency"] as const).map(
    (algorithm): Case => ({
      name: `${algorithm}, one key`,
      algorithm,
      quota: 10_000,
      windowUs: 1_000_000,
      size: algorithm === "sliding-window" ? 100_000 : 1000,
      gapUs,
    }),
  ),
];

interface Server {
  readonly redis: Redis;
  readonly client: Client;
}

export async function redisScripts(processes: Processes, luaDir: string): Promise<Place> {
  const ports = await freePorts(2);
  const start = async (port = 0): Promise<Server> => ({
    redis: await startRedis(processes, port),
    client: new Client(port, "127.0.0.1"),
  });
  const redises: Record<Side, Server> = { product: await start(ports[0]), "by-hand": await start(ports[1]) };
  const scriptsOf = (algorithm: Algorithm): Record<Side, Script> => ({
    product: productScript(luaDir, algorithm),
    "by-hand": byHandScript(algorithm),
  });
  return {
    name: "Redis",
    unit: "µs",
    async check(each) {
      const listings: string[] = [];
      for (const side of sides)
        listings.push(await decisions(redises[side].client, scriptsOf(each.algorithm)[side], each));
      mustDecideAlike(each.name, listings[0] ?? "", listings[1] ?? "");
    },
    async measure(each) {
      const scripts = scriptsOf(each.algorithm);
      for (const side of sides) {
        await redises[side].client.flushall();
        await redises[side].client.script("LOAD", scripts[side].source);
      }
      await load(redises, scripts, each, warmUpMs);
      const before = sides.map((side) => cpuUs([redises[side].redis.pid]));
      const { requests, admitted } = await load(redises, scripts, each, measuredMs);
      const taken = sides.map((side, i): [Side, Taken] => {
        const us = cpuUs([redises[side].redis.pid]) - (before[i] ?? 0);
        return [side, { ns: (us * 1000) / requests, admitted: admitted[side] / requests }];
      });
      return Object.fromEntries(taken) as Record<Side, Taken>;
    },
  };
}

export function productScript(luaDir: string, algorithm: Algorithm): Script {
  const own = readScripts(luaDir).get(`charge_${algorithm.replaceAll("-", "_")}`);
  if (own === undefined) throw new Error(`sluice_redis_scripts.lua: expected a script for ${algorithm}`);
  return { ...own, argumentsOf: numbersOf, facts: factsOf };
}

function byHandScript(algorithm: Algorithm): Script {
  const source = readFileSync(join(byHandDir, `redis-${algorithm}.lua`), "utf8");
  const sha1 = createHash("sha1").update(source).digest("hex");
  return { sha1, source, argumentsOf: numbersOf, facts: factsOf };
}

function numbersOf({ quota, windowUs, size }: Pick<Case, "quota" | "windowUs" | "size">, cost: number): string[] {
  return [`${quota}`, `${windowUs}`, `${size}`, `${cost}`];
}

/** Replies are packed, as from the product's scripts, or one number each. The moment of a refused request does not matter. */
function factsOf(reply: unknown): readonly number[] {
  const numbers = Buffer.isBuffer(reply)
    ? Array.from({ length: 6 }, (_, i) => reply.readDoubleLE(i * 8))
    : (reply as readonly number[]);
  return numbers[0] === 1 ? numbers : numbers.slice(0, 5);
}

function readScripts(luaDir: string): Map<string, { sha1: string; source: string }> {
  const text = readFileSync(join(luaDir, "sluice_redis_scripts.lua"), "utf8");
  const scripts = new Map<string, { sha1: string; source: string }>();
  for (const [, name = "", sum = "", source = ""] of text.matchAll(
    /^ {2}(\w+) = \{ sha1 = "(\w+)", source = \[==\[\n([\s\S]*?)\]==\]/gm,
  )) {
    scripts.set(name, { sha1: sum, source });
  }
  return scripts;
}

/** Loads both at once, each with one pipeline after the other, at no more than one request in 50 µs. */
async function load(
  redises: Record<Side, Server>,
  scripts: Record<Side, Script>,
  each: Case,
  durationMs: number,
): Promise<{ requests: number; admitted: Record<Side, number> }> {
  const keys = Math.max(1, Math.round(each.gapUs / gapUs));
  const admitted = { product: 0, "by-hand": 0 };
  const names = Array.from(
    { length: keys },
    (_, i) => `sluice:s3:{default:bench:1:203.0.113.${i}}:default:${each.algorithm}`,
  );
  const args = { product: scripts.product.argumentsOf(each, 1), "by-hand": scripts["by-hand"].argumentsOf(each, 1) };
  const begunAt = performance.now();
  let requests = 0;
  for (;;) {
    const elapsedMs = performance.now() - begunAt;
    if (elapsedMs >= durationMs) return { requests, admitted };
    if (requests * gapUs > elapsedMs * 1000) {
      await sleep(1);
      continue;
    }
    const picked = Array.from({ length: pipelined }, () => names[Math.floor(Math.random() * keys)] ?? "");
    requests += pipelined;
    await Promise.all(
      sides.map(async (side) => {
        const pipeline = redises[side].client.pipeline();
        for (const key of picked) pipeline.callBuffer("EVALSHA", scripts[side].sha1, 1, key, ...args[side]);
        for (const [error, reply] of (await pipeline.exec()) ?? []) {
          if (error !== null) throw error;
          admitted[side] += scripts[side].facts(reply)[0] ?? 0;
        }
      }),
    );
  }
}

/** Redis' TIME becomes the last two arguments. Keys stay, since their lives would be measured by the real clock. */
const timeStub = `local real = redis
local redis = {
  pcall = real.pcall,
  call = function(command, ...)
    if command == "TIME" then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
    if command == "PEXPIRE" then return 1 end
    if command == "SET" then
      local key, value = ...
      return real.call("SET", key, value)
    end
    return real.call(command, ...)
  end,
}
`;

/** Lists decisions at one key with what is stored after each; costs are 1 to 3, and now and then the clock steps back. */
async function decisions(client: Client, script: Script, each: Case): Promise<string> {
  await client.flushall();
  const source = timeStub + script.source;
  const pipeline = client.pipeline();
  let nowUs = 1_700_000_000_000_000;
  let seed = 20261121;
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed / 2_147_483_648;
  };
  for (let i = 0; i < checked; i++) {
    nowUs += Math.floor(2 * each.gapUs * random());
    if (i % 500 === 499) nowUs -= 3 * each.windowUs;
    const cost = 1 + Math.floor(3 * random());
    const time = [`${Math.floor(nowUs / 1_000_000)}`, `${nowUs % 1_000_000}`];
    pipeline.callBuffer("EVAL", source, 1, "key", ...script.argumentsOf(each, cost), ...time);
    pipeline.getBuffer("key");
  }
  const lines: string[] = [];
  const replies = (await pipeline.exec()) ?? [];
  for (let i = 0; i < replies.length; i += 2) {
    const [[error, reply] = [], [, stored] = []] = replies.slice(i, i + 2);
    if (error) throw error;
    lines.push(`${script.facts(reply).join(" ")} ${(stored as Buffer | null)?.toString("hex") ?? "-"}`);
  }
  return lines.join("\n");
}

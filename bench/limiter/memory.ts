// npm run bench -- memory: the memory that a policy needs in a worker (policy-memory.ts), and that a counter needs in nginx's shared dict
// and in Redis.
//
// For the dict, this is the decrease of free_space, in whole pages of 4096 bytes, divided by the counters: values, keys, nodes
// of the tree and what the slabs leave unused. In addition, nginx keeps 24 bytes about each page from the start. For Redis, it
// is the increase of INFO's used_memory divided by the counters: values, keys, times to live and both hash tables.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis as Client } from "ioredis";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import { counterPrefix, counterSuffix, encodeKeyValues } from "../../limiter/src/compiled/counter-key.ts";
import { ipPrefix } from "../../limiter/src/key/ip-prefix.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { startRedis } from "../redis.ts";
import { table, writeJson } from "../report.ts";
import type { Case } from "./cases.ts";
import { startProgram } from "./nginx.ts";
import type { LimiterOptions } from "./options.ts";
import { policyMemory, policyTable } from "./policy-memory.ts";
import { productScript } from "./redis-scripts.ts";

interface Filling {
  readonly what: string;
  readonly limit: Pick<Case, "algorithm" | "quota" | "windowUs" | "size">;
  readonly counters: number;
  /** The number of charges to each counter, `stepUs` apart. */
  readonly charges: number;
  readonly stepUs: number;
  /** The limit of bytes for one counter. */
  readonly atMost?: number;
}

interface Figure {
  readonly what: string;
  readonly counters: number;
  readonly dictBytes: number;
  readonly redisBytes: number;
  readonly atMost: number | undefined;
}

const hourUs = 3_600_000_000;
/** Redis' clock cannot be set, so a block there is a fifth of a second. */
const blockUs = 200_000;
const targetBytes = 128;
const million = 1_000_000;

const fillings: readonly Filling[] = [
  {
    what: "token-bucket",
    limit: { algorithm: "token-bucket", quota: 10, windowUs: 24 * hourUs, size: 100 },
    counters: million,
    charges: 1,
    stepUs: 1000,
    atMost: targetBytes,
  },
  {
    what: "leaky-bucket",
    limit: { algorithm: "leaky-bucket", quota: 10, windowUs: 24 * hourUs, size: 100 },
    counters: 100_000,
    charges: 1,
    stepUs: 1000,
  },
  {
    what: "fixed-window",
    limit: { algorithm: "fixed-window", quota: 1000, windowUs: 24 * hourUs, size: 0 },
    counters: 100_000,
    charges: 1,
    stepUs: 1000,
  },
  {
    what: "sliding-window, one block",
    limit: { algorithm: "sliding-window", quota: 1000, windowUs: hourUs, size: hourUs / 10 },
    counters: 100_000,
    charges: 1,
    stepUs: 1000,
  },
  {
    what: "sliding-window, all 11 blocks",
    limit: { algorithm: "sliding-window", quota: 1000, windowUs: 10 * blockUs, size: blockUs },
    counters: 2000,
    charges: 11,
    stepUs: blockUs,
  },
  {
    what: "concurrency, all 10 ticks",
    limit: { algorithm: "concurrency", quota: 1000, windowUs: 10 * blockUs, size: 0 },
    counters: 2000,
    charges: 10,
    stepUs: blockUs,
  },
  ...[
    { entries: 10, counters: 1000 },
    { entries: 100, counters: 1000 },
    { entries: 1000, counters: 200 },
    { entries: 10_000, counters: 50 },
  ].map(
    ({ entries, counters }): Filling => ({
      what: `sliding-log, ${entries} entries`,
      limit: { algorithm: "sliding-log", quota: entries + 1, windowUs: hourUs, size: 0 },
      counters,
      // The newest tick is not an entry yet; it is in the head.
      charges: entries + 1,
      stepUs: 1000,
      atMost: 9 * entries + 200,
    }),
  ),
];

export async function memory(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { only, otherDir, jsonFile }: LimiterOptions,
): Promise<boolean> {
  const wants = (what: string) => only.length === 0 || only.includes(what);
  const policies = wants("policies") ? await policyMemory(processes, nginx, otherDir ?? luaDir) : [];
  const figures = wants("counters") ? await counterMemory(processes, nginx, otherDir ?? luaDir) : [];
  const { wrk: _, ...machine } = describeMachine(nginx.path);
  writeJson(jsonFile, { date: new Date().toISOString(), machine, figures, policies });
  if (policies.length > 0) process.stdout.write(`\n${policyTable(policies)}\n`);
  if (figures.length > 0) process.stdout.write(`\n${tableOf(figures)}\n`);
  say(`results are in ${jsonFile}`);
  return true;
}

async function counterMemory(processes: Processes, nginx: Nginx, luaDir: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  const [port = 0] = await freePorts(1);
  await startRedis(processes, port);
  const client = new Client(port, "127.0.0.1");
  for (const filling of fillings) {
    say(`${filling.counters} of ${filling.what}`);
    const dictBytes = await inDict(processes, nginx, luaDir, filling);
    const redisBytes = await inRedis(client, luaDir, filling);
    const { what, counters, atMost } = filling;
    figures.push({ what, counters, dictBytes, redisBytes, atMost });
  }
  client.disconnect();
  return figures;
}

async function inDict(processes: Processes, nginx: Nginx, luaDir: string, filling: Filling): Promise<number> {
  const { limit, counters, charges, stepUs } = filling;
  const program = await startProgram(processes, nginx, luaDir, {
    name: "limiter_memory",
    args: ["product"],
    limit,
    dictSize: "256m",
  });
  const reported = await program.ask(`mode=fill&counters=${counters}&charges=${charges}&step=${stepUs}`);
  await program.stop();
  const [stored = 0, bytes = 0, free = 0] = reported.split(" ").map(Number);
  // A counter has at least one cell: fewer cells than counters means that some were evicted.
  if (stored < counters || free === 0) {
    throw new Error(
      `${filling.what}: expected ${counters} counters to stay, got ${stored} cells and ${free} bytes free`,
    );
  }
  return bytes;
}

async function inRedis(client: Client, luaDir: string, filling: Filling): Promise<number> {
  const { limit, counters, charges, stepUs } = filling;
  await client.flushall();
  const script = productScript(luaDir, limit.algorithm);
  await client.script("LOAD", script.source);
  const args = script.argumentsOf(limit, 1);
  // The first calls make Redis allocate what it then keeps.
  await client.evalsha(script.sha1, 1, "first", ...args);
  await client.flushall();
  const before = await usedMemory(client);
  const keys = Array.from({ length: counters }, (_, i) => redisKey(limit, i + 1));
  for (let charge = 0; charge < charges; charge++) {
    const endsAt = performance.now() + stepUs / 1000;
    for (let first = 0; first < counters; first += 1000) {
      const pipeline = client.pipeline();
      for (const key of keys.slice(first, first + 1000)) pipeline.callBuffer("EVALSHA", script.sha1, 1, key, ...args);
      for (const [error, reply] of (await pipeline.exec()) ?? []) {
        if (error) throw error;
        if (script.facts(reply)[0] !== 1) throw new Error(`${filling.what}: a charge was refused in Redis`);
      }
    }
    if (stepUs >= blockUs) await sleep(Math.max(0, endsAt - performance.now()));
  }
  const bytes = ((await usedMemory(client)) - before) / counters;
  const stored = await client.dbsize();
  if (stored !== counters) throw new Error(`${filling.what}: expected ${counters} keys in Redis, got ${stored}`);
  return bytes;
}

async function usedMemory(client: Client): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await client.info("memory"))?.[1]);
}

/** Half of the keys are IPv4 addresses and half IPv6 networks, as the key part "ip" makes them. */
function redisKey({ algorithm, quota, windowUs, size }: Filling["limit"], number: number): string {
  const high = Math.floor(number / 65536);
  const low = number % 65536;
  const address =
    number % 2 === 0
      ? `${11 + (high % 200)}.${100 + Math.floor(high / 200)}.${Math.floor(low / 256)}.${low % 256}`
      : `2001:db8:${(40960 + high).toString(16)}:${low.toString(16)}::1`;
  const values = encodeKeyValues([ipPrefix(address, 32, 64)], 1, String);
  const limit = { name: "default", algorithm, quota, windowUs, burst: size, precisionUs: size };
  return `sluice:${counterPrefix("default", "bench")}${values}${counterSuffix(limit)}`;
}

function tableOf(figures: readonly Figure[]): string {
  const rows = figures.map(({ what, counters, dictBytes, redisBytes, atMost }) => [
    what,
    String(counters),
    dictBytes.toFixed(0),
    redisBytes.toFixed(0),
    atMost === undefined ? "–" : `≤ ${atMost}`,
    atMost === undefined ? "" : dictBytes <= atMost ? "met" : "not met",
  ]);
  return table(
    ["a counter of", "counters", "bytes in the dict", "bytes in Redis", "wanted in the dict", ""],
    rows,
  ).join("\n");
}

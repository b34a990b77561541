// npm run bench -- redis-core: how many decisions a second one core of Redis can make, by the number of counters in one call.
//
// This counts the CPU that Redis uses for the commands that gateways send, so that neither the load generator nor the rest of
// the machine matters. Limits do not refuse, and 100,000 keys are live at once.
import { Redis as Client } from "ioredis";
import { say } from "../../launch/step.mjs";
import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { cpuUs } from "../cpu-time.ts";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { startRedis } from "../redis.ts";
import { table, writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import type { LimiterOptions } from "./options.ts";
import { productScript, type Script } from "./redis-scripts.ts";

const algorithms = [
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
] as const satisfies readonly Algorithm[];
/** The number of counters in one call. 1: no other request is waiting. 256: as many as there may be. */
const together = [1, 4, 16, 64, 256];
const keyCount = 100_000;
const decisionsPerSlice = 25_600;
/** The number that would come together while Redis is busy. */
const decisionsPerRoundTrip = 512;
const minuteUs = 60_000_000;

interface Figure {
  readonly algorithm: Algorithm;
  /** Decisions in a second of CPU, keyed by the number of counters in one call. */
  readonly decisionsPerSecond: Readonly<Record<number, number>>;
}

export async function redisCore(
  processes: Processes,
  nginxPath: string,
  luaDir: string,
  { rounds, jsonFile }: LimiterOptions,
): Promise<void> {
  const [port = 0] = await freePorts(1);
  const { pid } = await startRedis(processes, port);
  const client = new Client(port, "127.0.0.1");
  const taken = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++) {
    say(round === 0 ? "every key once" : `round ${round} of ${rounds}`);
    for (const algorithm of algorithms) {
      const script = productScript(luaDir, algorithm);
      await client.script("LOAD", script.source);
      if (round === 0) {
        await decide(client, script, algorithm, 256, keyCount);
        continue;
      }
      for (const counters of together) {
        const before = cpuUs([pid]);
        await decide(client, script, algorithm, counters, decisionsPerSlice);
        const name = `${algorithm} ${counters}`;
        const rate = decisionsPerSlice / ((cpuUs([pid]) - before) / 1_000_000);
        taken.set(name, [...(taken.get(name) ?? []), rate]);
      }
    }
  }
  client.disconnect();
  const figures = algorithms.map((algorithm): Figure => {
    const rates = together.map((counters) => [
      counters,
      Math.round(median(taken.get(`${algorithm} ${counters}`) ?? [])),
    ]);
    return { algorithm, decisionsPerSecond: Object.fromEntries(rates) };
  });
  const { wrk: _, ...machine } = describeMachine(nginxPath);
  writeJson(jsonFile, { date: new Date().toISOString(), machine, figures });
  process.stdout.write(`\n${tableOf(figures)}\n`);
  say(`results are in ${jsonFile}`);
}

async function decide(
  client: Client,
  script: Script,
  algorithm: Algorithm,
  counters: number,
  decisions: number,
): Promise<void> {
  const windowUs = 1000 * minuteUs;
  const size = algorithm === "sliding-window" ? minuteUs * 100 : 1_000_000;
  const args = script.argumentsOf({ algorithm, quota: 1_000_000, windowUs, size }, 1);
  for (let done = 0; done < decisions; done += decisionsPerRoundTrip) {
    const pipeline = client.pipeline();
    for (let first = done; first < done + decisionsPerRoundTrip; first += counters) {
      const keys = Array.from({ length: counters }, (_, i) => keyOf(algorithm, (first + i) * 7919));
      pipeline.callBuffer("EVALSHA", script.sha1, counters, ...keys, ...args);
    }
    for (const [error, reply] of (await pipeline.exec()) ?? []) {
      if (error) throw error;
      if (script.facts(reply)[0] !== 1) throw new Error(`${algorithm}: a charge was refused`);
    }
  }
}

function keyOf(algorithm: Algorithm, number: number): string {
  const client = number % keyCount;
  return `sluice:s3:{default:bench:1:203.0.${client % 256}.${Math.floor(client / 256)}}:default:${algorithm}:60000000000`;
}

function tableOf(figures: readonly Figure[]): string {
  const head = ["decisions a second and core, by counters in one call", ...together.map(String)];
  const rows = figures.map(({ algorithm, decisionsPerSecond }) => [
    algorithm,
    ...together.map((counters) => `${decisionsPerSecond[counters]}`),
  ]);
  return table(head, rows).join("\n");
}

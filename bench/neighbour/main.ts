// npm run bench -- neighbour: the cost of other Lua in an nginx in which Sluice is loaded, compared with one without it.
import { basename } from "node:path";
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import { freePorts } from "../../test/fixtures/servers/free-ports.ts";
import { cpuUs } from "../cpu-time.ts";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { startRedis } from "../redis.ts";
import { table, writeJson } from "../report.ts";
import { median, ratio } from "../statistics.ts";
import { runWrk, type Target } from "../wrk.ts";
import { type House, startHouse } from "./nginx.ts";
import type { NeighbourOptions } from "./options.ts";

const connections = 16;
const sliceSeconds = 1;
/** The largest accepted ratio to the neighbour's cost without Sluice. */
const wanted = 1.03;

const neighbours: readonly Target[] = [
  { path: "/redis-each", keys: "many" },
  { path: "/house", keys: "many" },
];
const decided: Target = { path: "/sluice", keys: "hosts" };

interface Figures {
  readonly build: string;
  readonly neighbour: string;
  readonly cpuUs: number;
  readonly toAlone: number;
  readonly rounds: readonly number[];
}

export async function neighbour(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { rounds, slices, luaDirs, jsonFile }: NeighbourOptions,
): Promise<void> {
  const [redisPort = 0, closedPort = 0] = await freePorts(2);
  await startRedis(processes, redisPort);
  const builds = new Map<string, string | undefined>([
    ["without Sluice", undefined],
    ["beside Sluice", luaDir],
  ]);
  for (const directory of luaDirs) builds.set(basename(directory), directory);

  /** µs of CPU a request, one figure for each round, keyed by build and neighbour. */
  const taken = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    const ports = await freePorts(builds.size);
    const houses = new Map<string, House>();
    for (const [build, directory] of builds) {
      const place = { nginx, port: ports[houses.size] ?? 0, redisPort, closedPort };
      houses.set(build, await startHouse(processes, build.replaceAll(" ", "-"), directory, place));
    }
    const sums = new Map<string, number[]>();
    for (let pass = 0; pass <= slices; pass++) {
      for (const target of neighbours) {
        const inTurn = [...houses];
        inTurn.push(...inTurn.splice(0, pass % inTurn.length));
        for (const [build, house] of inTurn) {
          // The load is the same everywhere, whether Sluice decides it or not, so that its traces and garbage exist.
          if (pass === 0) await runWrk(processes, house.url, decided, connections, sliceSeconds);
          const cost = await costOf(processes, house, target);
          // The first pass is the warm-up.
          if (pass > 0) push(sums, keyOf(build, target), cost);
        }
      }
    }
    const line: string[] = [];
    for (const [key, costs] of sums) {
      // Other work of the machine can make a slice more expensive, but never cheaper.
      const least = Math.min(...costs);
      push(taken, key, least);
      line.push(`${key} ${least.toFixed(2)} µs`);
    }
    process.stdout.write(`sluice: round ${round + 1} of ${rounds}: ${line.join(", ")}\n`);
    await Promise.all([...houses.values()].map((house) => house.stop()));
  }

  const figures = neighbours.flatMap((target) =>
    [...builds.keys()].map((build): Figures => {
      const own = taken.get(keyOf(build, target)) ?? [];
      const alone = taken.get(keyOf("without Sluice", target)) ?? [];
      const toAlone = ratio(own, alone, (cost) => cost);
      return { build, neighbour: target.path.slice(1), cpuUs: median(own), toAlone, rounds: own };
    }),
  );
  writeJson(jsonFile, { date: new Date().toISOString(), machine: describeMachine(nginx.path), figures });
  const rows = figures.map(({ build, neighbour, cpuUs, toAlone }) => [
    neighbour,
    build,
    cpuUs.toFixed(2),
    toAlone.toFixed(3),
    build === "without Sluice" ? "" : toAlone <= wanted ? "met" : "not yet",
  ]);
  const head = ["neighbour", "", "CPU µs", "÷ without", `≤ ${wanted}`];
  process.stdout.write(`\n${table(head, rows).join("\n")}\n\n`);
  say(`results are in ${jsonFile}`);
}

async function costOf(processes: Processes, house: House, target: Target): Promise<number> {
  const before = cpuUs(house.workerPids);
  const { requests, statusErrors, socketErrors } = await runWrk(
    processes,
    house.url,
    target,
    connections,
    sliceSeconds,
  );
  if (statusErrors + socketErrors > 0) {
    throw new Error(`${target.path}: expected 200 always, got ${statusErrors} other answers, ${socketErrors} broken`);
  }
  return (cpuUs(house.workerPids) - before) / requests;
}

function keyOf(build: string, { path }: Target): string {
  return `${path} ${build}`;
}

function push(lists: Map<string, number[]>, key: string, value: number): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

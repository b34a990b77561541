// npm run bench -- limiter: the cost of one decision, next to the same algorithm written by hand in Lua, in each place where
// the limiter runs: LuaJIT alone, nginx's shared dict, and Redis.
import type { Nginx } from "../../launch/nginx-binary.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { describeMachine } from "../machine.ts";
import type { Processes } from "../processes.ts";
import { table, writeJson } from "../report.ts";
import { type Case, cases } from "./cases.ts";
import { type Comparison, compare, mostRatio, type Place, type Side, type Taken } from "./compare.ts";
import { dict } from "./dict.ts";
import { compileMemoryRing } from "./memory-ring.ts";
import type { LimiterOptions } from "./options.ts";
import { pure, type Traces } from "./pure.ts";
import { redisCases, redisScripts } from "./redis-scripts.ts";

interface Measured {
  readonly place: Place;
  readonly each: Case;
  readonly rounds: Record<Side, Taken>[];
}

interface Steady extends Traces {
  readonly name: string;
}

/** @returns whether LuaJIT gave up no trace in the steady state */
export async function limiter(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
  { rounds, only, jsonFile }: LimiterOptions,
): Promise<boolean> {
  compileMemoryRing(luaDir);
  const inPure = pure(processes, luaDir);
  const inDict = dict(processes, nginx, luaDir);
  const inRedis = await redisScripts(processes, luaDir);
  const named = (place: Place, list: readonly Case[]): Measured[] =>
    list
      .filter(({ name }) => only.length === 0 || only.some((part) => `${place.name}: ${name}`.includes(part)))
      .map((each) => ({ place, each, rounds: [] }));
  const measured = [...named(inPure, cases), ...named(inDict, cases), ...named(inRedis, redisCases)];
  if (measured.length === 0) throw new SetupError(`--only: expected part of a name, got "${only.join(",")}"`);

  say("do both sides decide the same?");
  for (const { place, each } of measured) await place.check(each);
  for (let round = 0; round < rounds; round++) {
    say(`round ${round + 1} of ${rounds}`);
    for (const { place, each, rounds: taken } of measured) taken.push(await place.measure(each));
  }
  const steady: Steady[] = [];
  for (const { place, each } of measured) {
    const traced = place === inPure ? inPure : place === inDict ? inDict : undefined;
    if (traced) steady.push({ name: `${place.name}: ${each.name}`, ...(await traced.traces(each)) });
  }

  const comparisons = measured.map(({ place, each, rounds: taken }) => compare(place, each, taken));
  const { wrk: _, ...machine } = describeMachine(nginx.path);
  writeJson(jsonFile, { date: new Date().toISOString(), machine, rounds, mostRatio, comparisons, steady });
  process.stdout.write(`\n${tableOf(comparisons)}\n\n${tracesOf(steady)}\n`);
  say(`results are in ${jsonFile}`);
  return steady.every(({ aborted }) => aborted.length === 0);
}

function tableOf(comparisons: readonly Comparison[]): string {
  const rows = comparisons.map(({ place, unit, ...row }) => {
    const time = (ns: number) => (unit === "ns" ? ns.toFixed(0) : (ns / 1000).toFixed(2));
    return [
      `${place}: ${row.case}`,
      unit,
      time(row.productNs),
      time(row.byHandNs),
      (row.admitted * 100).toFixed(0),
      row.ratio.toFixed(2),
      (row.ratioSpread * 50).toFixed(0),
      row.met ? "met" : "not met",
    ];
  });
  const head = ["a decision", "", "product", "by hand", "admitted %", "ratio", "± %", `≤ ${mostRatio.toFixed(2)}`];
  return table(head, rows).join("\n");
}

function tracesOf(steady: readonly Steady[]): string {
  const lines = ["What LuaJIT still does in the steady state:"];
  for (const { name, compiled, aborted } of steady) {
    lines.push(`  ${name}: ${compiled} traces compiled, ${aborted.length} given up`);
    for (const line of [...new Set(aborted)].slice(0, 8)) lines.push(`    ${line}`);
  }
  return lines.join("\n");
}

// The limiter in LuaJIT alone: counters are tables in memory.
import { join } from "node:path";
import type { Processes } from "../processes.ts";
import { median } from "../statistics.ts";
import { argumentsOf, type Case } from "./cases.ts";
import { mustDecideAlike, type Place, type Side, type Taken } from "./compare.ts";

const program = join(import.meta.dirname, "../lua/limiter_pure.lua");
const counters = 64;
/** LuaJIT selects its traces anew at each start. */
const startsPerRound = 5;

export function pure(processes: Processes, luaDir: string): Place & { traces(each: Case): Promise<Traces> } {
  const run = (side: Side, mode: string, each: Case) =>
    processes.start({
      name: `luajit ${each.name}`,
      command: "luajit",
      args: [program, side, mode, luaDir, `${counters}`, ...argumentsOf(each)],
    }).ended;
  const time = async (side: Side, each: Case) => readTimes(await run(side, "time", each));
  return {
    name: "pure",
    unit: "ns",
    async check(each) {
      mustDecideAlike(each.name, await run("product", "decisions", each), await run("by-hand", "decisions", each));
    },
    async measure(each) {
      const product: Taken[] = [];
      const byHand: Taken[] = [];
      for (let start = 0; start < startsPerRound; start++) {
        product.push(await time("product", each));
        byHand.push(await time("by-hand", each));
      }
      return { product: middle(product), "by-hand": middle(byHand) };
    },
    traces: async (each) => readTraces(await run("product", "traces", each)),
  };
}

/** What LuaJIT still did during the two million decisions after the first two million. */
export interface Traces {
  readonly compiled: number;
  /** The lines of jit.v. */
  readonly aborted: readonly string[];
}

export function readTraces(text: string): Traces {
  const lines = text.split("\n").filter((line) => line.startsWith("[TRACE"));
  const aborted = lines.filter((line) => line.startsWith("[TRACE ---"));
  return { compiled: lines.length - aborted.length, aborted };
}

/** Reads lines of "ns admitted". */
export function readTimes(text: string): Taken {
  const slices = text
    .trim()
    .split("\n")
    .map((line) => line.split(" ").map(Number))
    .map(([ns = Number.NaN, admitted = Number.NaN]) => ({ ns, admitted }));
  return middle(slices);
}

export function middle(taken: readonly Taken[]): Taken {
  return { ns: median(taken.map(({ ns }) => ns)), admitted: median(taken.map(({ admitted }) => admitted)) };
}

// The limiter in the shared dict of a real nginx of one worker: the node store against equivalent operations by hand.
import type { Nginx } from "../../launch/nginx-binary.ts";
import type { Processes } from "../processes.ts";
import { argumentsOf, type Case } from "./cases.ts";
import { mustDecideAlike, type Place, type Side, sides, type Taken } from "./compare.ts";
import { startProgram } from "./nginx.ts";
import { middle, readTimes, readTraces, type Traces } from "./pure.ts";

const warmUpDecisions = 240_000;
/** Two windows of the load that offers the most. */
const sliceDecisions = 120_000;
const slices = 3;

export function dict(
  processes: Processes,
  nginx: Nginx,
  luaDir: string,
): Place & { traces(each: Case): Promise<Traces> } {
  const start = (side: Side, each: Case) => {
    const [algorithm = "", ...numbers] = argumentsOf(each);
    const held = numbers.pop() ?? "";
    const args = [side, algorithm, ...numbers.map(Number), held];
    return startProgram(processes, nginx, luaDir, { name: "limiter_dict", args, limit: each, dictSize: "64m" });
  };
  const once = async (side: Side, each: Case, query: string) => {
    const program = await start(side, each);
    const text = await program.ask(query);
    await program.stop();
    return text;
  };
  return {
    name: "shared dict",
    unit: "ns",
    async check(each) {
      const product = await once("product", each, "mode=decisions");
      mustDecideAlike(each.name, product, await once("by-hand", each, "mode=decisions"));
    },
    async measure(each) {
      const programs = { product: await start("product", each), "by-hand": await start("by-hand", each) };
      const taken: Record<Side, Taken[]> = { product: [], "by-hand": [] };
      for (const side of sides) await programs[side].ask(`mode=time&decisions=${warmUpDecisions}`);
      for (let slice = 0; slice < slices; slice++) {
        for (const side of sides) {
          taken[side].push(readTimes(await programs[side].ask(`mode=time&decisions=${sliceDecisions}`)));
        }
      }
      for (const side of sides) await programs[side].stop();
      return { product: middle(taken.product), "by-hand": middle(taken["by-hand"]) };
    },
    traces: async (each) => readTraces(await once("product", each, "mode=traces")),
  };
}

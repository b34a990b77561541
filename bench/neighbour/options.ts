// Reads the command line of npm run bench -- neighbour.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface NeighbourOptions {
  readonly rounds: number;
  readonly slices: number;
  /** Other builds of the gateway's Lua, each in its own nginx, to compare with this one. */
  readonly luaDirs: readonly string[];
  readonly jsonFile: string;
}

const usage = "npm run bench -- neighbour [--rounds 7] [--slices 5] [--lua DIR,…] [--json FILE]";
const text = { type: "string" } as const;
const options = { rounds: text, slices: text, lua: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readNeighbourOptions(args: readonly string[]): NeighbourOptions {
  const { rounds, slices, lua, json } = optionsFrom(args, options, usage);
  return {
    rounds: integer("rounds", rounds, 7, 1000),
    slices: integer("slices", slices, 5, 100),
    luaDirs: lua === undefined ? [] : lua.split(",").map((directory) => resolve(directory)),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/neighbour.json`),
  };
}

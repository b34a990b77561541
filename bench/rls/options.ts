// Reads the command line of npm run bench -- rls.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface RlsOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly jsonFile: string;
}

const usage = "npm run bench -- rls [--rounds 5] [--seconds 3] [--json FILE]";
const text = { type: "string" } as const;
const options = { rounds: text, seconds: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readRlsOptions(args: readonly string[]): RlsOptions {
  const { rounds, seconds, json } = optionsFrom(args, options, usage);
  return {
    rounds: integer("rounds", rounds, 5, 1000),
    seconds: integer("seconds", seconds, 3, 600),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/rls.json`),
  };
}

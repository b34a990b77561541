// Reads the command line of npm run bench -- consumers.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface ConsumersOptions {
  /** How many consumers there are. */
  readonly consumers: number;
  /** How many of them change, one after the other. */
  readonly changes: number;
  /** How often each gateway is put under load. */
  readonly rounds: number;
  readonly jsonFile: string;
}

const usage = `npm run bench -- consumers [--consumers 1000000] [--changes 200] [--rounds 10] [--json FILE]`;
const text = { type: "string" } as const;
const options = { consumers: text, changes: text, rounds: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readConsumersOptions(args: readonly string[]): ConsumersOptions {
  const { consumers, changes, rounds, json } = optionsFrom(args, options, usage);
  return {
    consumers: integer("consumers", consumers, 1_000_000, 1_000_000),
    changes: integer("changes", changes, 200, 10_000),
    rounds: integer("rounds", rounds, 10, 1_000),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/consumers.json`),
  };
}

// Reads the command line of npm run bench -- consumers.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { SetupError } from "../../launch/step.mjs";
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

/** @throws SetupError with what was expected and what came */
export function readConsumersOptions(args: readonly string[]): ConsumersOptions {
  const { consumers, changes, rounds, json } = parse(args);
  return {
    consumers: integer("consumers", consumers, 1_000_000, 1_000_000),
    changes: integer("changes", changes, 200, 10_000),
    rounds: integer("rounds", rounds, 10, 1_000),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/consumers.json`),
  };
}

function parse(args: readonly string[]) {
  const text = { type: "string" } as const;
  try {
    return parseArgs({ args: [...args], options: { consumers: text, changes: text, rounds: text, json: text } }).values;
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\n${usage}`);
  }
}

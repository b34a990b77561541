// Reads the command line of npm run bench -- networks.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface NetworksOptions {
  /** How many networks are on the list, at most 100,000. */
  readonly networks: number;
  /** How often the list is replaced. */
  readonly replacements: number;
  /** How often each policy is under load. */
  readonly rounds: number;
  readonly jsonFile: string;
}

const usage = `npm run bench -- networks [--networks 100000] [--replacements 20] [--rounds 5] [--json FILE]`;
const text = { type: "string" } as const;
const options = { networks: text, replacements: text, rounds: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readNetworksOptions(args: readonly string[]): NetworksOptions {
  const { networks, replacements, rounds, json } = optionsFrom(args, options, usage);
  return {
    networks: integer("networks", networks, 100_000, 100_000),
    replacements: integer("replacements", replacements, 20, 10_000),
    rounds: integer("rounds", rounds, 5, 100),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/networks.json`),
  };
}

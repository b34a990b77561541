// Reads the command line of npm run bench -- clients.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface ClientsOptions {
  /** How often each client is measured. */
  readonly rounds: number;
  /** How long each time. */
  readonly seconds: number;
  readonly jsonFile: string;
}

const usage = `npm run bench -- clients [--rounds 5] [--seconds 4] [--json FILE]`;
const text = { type: "string" } as const;
const options = { rounds: text, seconds: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readClientsOptions(args: readonly string[]): ClientsOptions {
  const { rounds, seconds, json } = optionsFrom(args, options, usage);
  return {
    rounds: integer("rounds", rounds, 5, 100),
    seconds: integer("seconds", seconds, 4, 600),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/clients.json`),
  };
}

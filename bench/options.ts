// Reads the command line once, and refuses what is unknown or out of range.
import { resolve } from "node:path";
import { optionsFrom } from "../launch/command-line.ts";
import { SetupError } from "../launch/step.mjs";
import { type Variant, variants } from "./variants.ts";

export interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  readonly variants: readonly Variant[];
  /** The file for the results as JSON. */
  readonly jsonFile: string;
  /** If set, this variant is profiled and nothing is measured. */
  readonly profile: Variant | undefined;
}

const usage = `npm run bench -- [--rounds 5] [--seconds 3] [--connections 32] [--only NAME,…] [--json FILE] [--profile NAME]
NAME is one of ${variants.map(({ name }) => name).join(", ")}`;
const text = { type: "string" } as const;
const options = {
  rounds: text,
  seconds: text,
  connections: text,
  only: text,
  json: text,
  profile: text,
  help: { type: "boolean", short: "h" },
} as const;

/** @throws SetupError with what was expected and what came */
export function readOptions(args: readonly string[]): Options {
  const values = optionsFrom(args, options, usage);
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  const only = values.only?.split(",").map(named);
  const profile = values.profile === undefined ? undefined : named(values.profile);
  return {
    rounds: integer("rounds", values.rounds, 5, 1000),
    seconds: integer("seconds", values.seconds, 3, 600),
    connections: integer("connections", values.connections, 32, 4000),
    variants:
      profile !== undefined ? [profile] : only !== undefined ? variants.filter((v) => only.includes(v)) : variants,
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
    profile,
  };
}

export function integer(name: string, value: string | undefined, fallback: number, max: number): number {
  if (value === undefined) return fallback;
  const number = /^[0-9]+$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > max) throw new SetupError(`--${name}: expected an integer 1…${max}, got "${value}"`);
  return number;
}

/** @param value integers, separated by commas */
export function integers(name: string, value: string | undefined, fallback: readonly number[], max: number): number[] {
  return value === undefined ? [...fallback] : value.split(",").map((one) => integer(name, one, 1, max));
}

function named(name: string): Variant {
  const variant = variants.find((candidate) => candidate.name === name);
  if (variant === undefined) throw new SetupError(`expected the name of a variant, got "${name}"\n${usage}`);
  return variant;
}

// Reads the command line of npm run bench -- instructions.
import { namesAndOptionsFrom } from "../../launch/command-line.ts";
import { buildIn, ourVariants, ourVariantsNamed } from "../against/options.ts";
import { integer } from "../options.ts";
import type { Variant } from "../variants.ts";

export interface InstructionsOptions {
  /** The directory of another build of the gateway's Lua. */
  readonly luaDir: string;
  readonly variants: readonly Variant[];
  readonly rounds: number;
  /** How long requests are counted. */
  readonly seconds: number;
  /** Whether only what nginx does between reading a request and answering it is counted: not for variants that wait for Redis. */
  readonly isWithin: boolean;
}

const usual = ["node", "node-headers", "cluster"];
const usualWithin = ["node", "node-headers"];

const usage = `npm run bench -- instructions DIR [--only NAME,…] [--rounds 3] [--seconds 5] [--within]
--within leaves out reading, timers, and what happens after a request has waited for Redis: it is not for cluster
DIR is the gateway/dist of another checkout; NAME is one of ${ourVariants.map(({ name }) => name).join(", ")}`;
const text = { type: "string" } as const;
const options = { only: text, rounds: text, seconds: text, within: { type: "boolean" } } as const;

/** @throws SetupError with what was expected and what came */
export function readInstructionsOptions(args: readonly string[]): InstructionsOptions {
  const { values, positionals } = namesAndOptionsFrom(args, options, usage);
  const isWithin = values.within ?? false;
  return {
    luaDir: buildIn(positionals, usage),
    variants: ourVariantsNamed(values.only?.split(",") ?? (isWithin ? usualWithin : usual)),
    isWithin,
    rounds: integer("rounds", values.rounds, 3, 100),
    seconds: integer("seconds", values.seconds, 5, 100),
  };
}

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
}

const usual = ["node", "node-headers", "cluster"];

const usage = `npm run bench -- instructions DIR [--only NAME,…] [--rounds 3] [--seconds 5]
DIR is the gateway/dist of another checkout; NAME is one of ${ourVariants.map(({ name }) => name).join(", ")}`;
const text = { type: "string" } as const;
const options = { only: text, rounds: text, seconds: text };

/** @throws SetupError with what was expected and what came */
export function readInstructionsOptions(args: readonly string[]): InstructionsOptions {
  const { values, positionals } = namesAndOptionsFrom(args, options, usage);
  return {
    luaDir: buildIn(positionals, usage),
    variants: ourVariantsNamed(values.only?.split(",") ?? usual),
    rounds: integer("rounds", values.rounds, 3, 100),
    seconds: integer("seconds", values.seconds, 5, 100),
  };
}

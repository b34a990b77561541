// Reads the command line of npm run bench -- against.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { namesAndOptionsFrom } from "../../launch/command-line.ts";
import { SetupError } from "../../launch/step.mjs";
import { integer } from "../options.ts";
import { type Variant, variants } from "../variants.ts";

export interface AgainstOptions {
  /** The directory of another build of the gateway's Lua. */
  readonly luaDir: string;
  readonly variants: readonly Variant[];
  readonly rounds: number;
  /** Slices of each build in a round. */
  readonly slices: number;
  readonly connections: number;
}

/** Variants in which Sluice decides. */
export const ourVariants = variants.filter(({ path }) => path === "/sluice");

const usage = `npm run bench -- against DIR [--only NAME,…] [--rounds 5] [--slices 8] [--connections 32]
DIR is the gateway/dist of another checkout; NAME is one of ${ourVariants.map(({ name }) => name).join(", ")}`;
const text = { type: "string" } as const;
const options = { only: text, rounds: text, slices: text, connections: text };

/** @throws SetupError with what was expected and what came */
export function readAgainstOptions(args: readonly string[]): AgainstOptions {
  const { values, positionals } = namesAndOptionsFrom(args, options, usage);
  return {
    luaDir: buildIn(positionals, usage),
    variants: values.only === undefined ? ourVariants : ourVariantsNamed(values.only.split(",")),
    rounds: integer("rounds", values.rounds, 5, 1000),
    slices: integer("slices", values.slices, 8, 100),
    connections: integer("connections", values.connections, 32, 4000),
  };
}

/** @returns the directory of a build, which is all that the arguments name @throws SetupError */
export function buildIn(positionals: readonly string[], usage: string): string {
  const [directory] = positionals;
  if (directory === undefined || positionals.length > 1) {
    throw new SetupError(`expected one directory, got ${positionals.length}\n${usage}`);
  }
  const luaDir = resolve(directory);
  if (!existsSync(join(luaDir, "sluice.lua"))) {
    throw new SetupError(`${luaDir}: expected a build of the gateway, got a directory without sluice.lua\n${usage}`);
  }
  return luaDir;
}

/** @throws SetupError if a name is none of a variant in which Sluice decides */
export function ourVariantsNamed(names: readonly string[]): readonly Variant[] {
  return names.map(named);
}

function named(name: string): Variant {
  const variant = ourVariants.find((candidate) => candidate.name === name);
  if (variant === undefined) throw new SetupError(`expected the name of a variant of Sluice, got "${name}"\n${usage}`);
  return variant;
}

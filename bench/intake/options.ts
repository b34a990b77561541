// Reads the command line of npm run bench -- intake.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer, integers } from "../options.ts";

export interface IntakeOptions {
  /** Each is measured with a gateway of its own. */
  readonly policies: readonly number[];
  readonly workers: number;
  /** The number of snapshots, or deltas, of each kind. */
  readonly pushes: number;
  /** The gateway's Lua, if another build is to be compared with this one. */
  readonly luaDir: string | undefined;
  readonly jsonFile: string;
}

const usage = `npm run bench -- intake [--policies 10000,…] [--workers 2] [--pushes 20] [--lua DIR] [--json FILE]`;
const text = { type: "string" } as const;
const options = { policies: text, workers: text, pushes: text, lua: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readIntakeOptions(args: readonly string[]): IntakeOptions {
  const { policies, workers, pushes, lua, json } = optionsFrom(args, options, usage);
  return {
    policies: integers("policies", policies, [10_000], 100_000),
    workers: integer("workers", workers, 2, 64),
    pushes: integer("pushes", pushes, 20, 10_000),
    luaDir: lua === undefined ? undefined : resolve(lua),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/intake.json`),
  };
}

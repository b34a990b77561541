// Reads the command line of npm run bench -- snapshot-load.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { SetupError } from "../../launch/step.mjs";
import { integer } from "../options.ts";

export interface SnapshotLoadOptions {
  readonly policies: number;
  readonly workers: number;
  /** The number of snapshots of each kind. */
  readonly pushes: number;
  /** The gateway's Lua, if another build is to be compared with this one. */
  readonly luaDir: string | undefined;
  readonly jsonFile: string;
}

const usage = `npm run bench -- snapshot-load [--policies 10000] [--workers 2] [--pushes 20] [--lua DIR] [--json FILE]`;

/** @throws SetupError with what was expected and what came */
export function readSnapshotLoadOptions(args: readonly string[]): SnapshotLoadOptions {
  const { policies, workers, pushes, lua, json } = parse(args);
  return {
    policies: integer("policies", policies, 10_000, 100_000),
    workers: integer("workers", workers, 2, 64),
    pushes: integer("pushes", pushes, 20, 10_000),
    luaDir: lua === undefined ? undefined : resolve(lua),
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/snapshot-load.json`),
  };
}

function parse(args: readonly string[]) {
  const text = { type: "string" } as const;
  try {
    return parseArgs({
      args: [...args],
      options: { policies: text, workers: text, pushes: text, lua: text, json: text },
    }).values;
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\n${usage}`);
  }
}

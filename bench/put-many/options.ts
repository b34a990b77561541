// Reads the command line of npm run bench -- put-many.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface PutManyOptions {
  readonly policies: number;
  /** How often each request is measured. */
  readonly times: number;
  /** An empty database; absent: SQLite in a directory of its own. */
  readonly databaseUrl: string | undefined;
  readonly jsonFile: string;
}

const usage = `npm run bench -- put-many [--policies 10000] [--times 5] [--database URL] [--json FILE]`;
const text = { type: "string" } as const;
const options = { policies: text, times: text, database: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readPutManyOptions(args: readonly string[]): PutManyOptions {
  const { policies, times, database, json } = optionsFrom(args, options, usage);
  return {
    policies: integer("policies", policies, 10_000, 100_000),
    times: integer("times", times, 5, 1_000),
    databaseUrl: database,
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/put-many.json`),
  };
}

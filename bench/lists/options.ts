// Reads the command line of npm run bench -- lists.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface ListsOptions {
  /** How many rows each list has. */
  readonly rows: number;
  /** How often each page is asked for. */
  readonly times: number;
  /** An empty database; absent: SQLite in a directory of its own. */
  readonly databaseUrl: string | undefined;
  readonly jsonFile: string;
}

const usage = `npm run bench -- lists [--rows 10000] [--times 50] [--database URL] [--json FILE]`;
const text = { type: "string" } as const;
const options = { rows: text, times: text, database: text, json: text };

/** @throws SetupError with what was expected and what came */
export function readListsOptions(args: readonly string[]): ListsOptions {
  const { rows, times, database, json } = optionsFrom(args, options, usage);
  return {
    rows: integer("rows", rows, 10_000, 1_000_000),
    times: integer("times", times, 50, 10_000),
    databaseUrl: database,
    jsonFile: resolve(json ?? `${import.meta.dirname}/../results/lists.json`),
  };
}

// Reads the command line of `npm run bench -- limiter`, `-- memory` and `-- redis-core`.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { integer } from "../options.ts";

export interface LimiterOptions {
  readonly rounds: number;
  /** Parts of the place's and case's name, such as "pure: token-bucket", of those to measure; empty: all are measured. */
  readonly only: readonly string[];
  /** The gateway/dist of another checkout. Undefined: this one is measured. */
  readonly otherDir: string | undefined;
  readonly jsonFile: string;
}

export type LimiterCommand = "limiter" | "memory" | "redis-core";

const text = { type: "string" } as const;
/** The options of each command besides --json. */
const own = {
  limiter: { usage: "[--rounds 5] [--only NAME,…] ", options: { rounds: text, only: text } },
  memory: { usage: "[--only policies|counters] [--lua DIR] ", options: { only: text, lua: text } },
  "redis-core": { usage: "[--rounds 5] ", options: { rounds: text } },
} as const;

/** @throws SetupError with what was expected and what came */
export function readLimiterOptions(command: LimiterCommand, args: readonly string[]): LimiterOptions {
  const { usage: ownUsage, options: ownOptions } = own[command];
  const about =
    command === "limiter" ? '\nNAME is part of what the table says, as "pure: token-bucket" or "Redis"' : "";
  const usage = `npm run bench -- ${command} ${ownUsage}[--json FILE]${about}`;
  const options = { json: text, help: { type: "boolean", short: "h" }, ...ownOptions } as const;
  type Values = { rounds?: string; only?: string; lua?: string; json?: string; help?: boolean };
  const values = optionsFrom(args, options, usage) as Values;
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  return {
    rounds: integer("rounds", values.rounds, 5, 1000),
    only: values.only?.split(",") ?? [],
    otherDir: values.lua === undefined ? undefined : resolve(values.lua),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/../results/${command}.json`),
  };
}

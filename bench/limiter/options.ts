// The command line of `npm run bench -- limiter` and of `npm run bench -- memory`.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { SetupError } from "../../launch/step.mjs";
import { integer } from "../options.ts";

export interface LimiterOptions {
  readonly rounds: number;
  /** Part of the place's and the case's name, "pure: token-bucket", of those that are measured; empty: all. */
  readonly only: readonly string[];
  readonly jsonFile: string;
}

const text = { type: "string" } as const;

/** @throws SetupError with what was expected and what came */
export function readLimiterOptions(command: "limiter" | "memory", args: readonly string[]): LimiterOptions {
  const usage = `npm run bench -- ${command} ${command === "limiter" ? "[--rounds 5] [--only NAME,…] " : ""}[--json FILE]
NAME is part of what the table says, as "pure: token-bucket" or "Redis"`;
  let values: { rounds?: string; only?: string; json?: string; help?: boolean };
  try {
    const options = { json: text, help: { type: "boolean", short: "h" } } as const;
    values =
      command === "limiter"
        ? parseArgs({ args: [...args], options: { ...options, rounds: text, only: text } }).values
        : parseArgs({ args: [...args], options }).values;
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\n${usage}`);
  }
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  return {
    rounds: integer("rounds", values.rounds, 5, 1000),
    only: values.only?.split(",") ?? [],
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/../results/${command}.json`),
  };
}

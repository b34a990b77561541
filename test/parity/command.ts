// What `npm run parity` understands and does. It is apart from main.ts, so that a test can run it more than once on one build.

import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError } from "../../launch/step.mjs";
import { type Break, breaks } from "./breaks.ts";
import type { Build } from "./build.ts";
import { compare, everything, type ParityOptions, tableOf } from "./parity.ts";
import { type RuntimeName, runtimeNames } from "./runtimes.ts";
import { algorithms } from "./trace.ts";

export interface Command {
  /** The break that is built, and must be found; undefined: none. */
  readonly broken: Break | undefined;
  readonly options: ParityOptions;
}

const decisionsWithBreak = 25_000;
const text = { type: "string" } as const;
const usage =
  "npm run parity -- [--decisions 1000000] [--seed NUMBER] [--algorithm NAME] [--runtime NAME]… [--break NAME]";

/** @throws SetupError if an argument is none that it knows */
export function readCommand(args: readonly string[]): Command {
  const values = optionsFrom(
    args,
    { seed: text, decisions: text, algorithm: text, runtime: { ...text, multiple: true }, break: text },
    usage,
  );
  const broken = values.break === undefined ? undefined : breaks.find(({ name }) => name === values.break);
  if (values.break !== undefined && broken === undefined) {
    throw unexpected(
      "break",
      breaks.map(({ name }) => name),
      values.break,
    );
  }
  const algorithm = values.algorithm ?? broken?.algorithm;
  const family = (algorithms as readonly (string | undefined)[]).indexOf(algorithm);
  if (algorithm !== undefined && family < 0) throw unexpected("algorithm", algorithms, algorithm);
  for (const name of values.runtime ?? []) {
    if (!runtimeNames.some((known) => known === name)) throw unexpected("runtime", runtimeNames, name);
  }
  const options: ParityOptions = {
    seed: wholeNumber("seed", values.seed) ?? everything.seed,
    decisions:
      wholeNumber("decisions", values.decisions) ?? (broken === undefined ? everything.decisions : decisionsWithBreak),
    runtimes: (values.runtime as RuntimeName[] | undefined) ?? broken?.runtimes ?? everything.runtimes,
    families: family < 0 ? everything.families : [family],
  };
  return { broken, options };
}

/** @returns the exit status: 0 if there is no difference or, with a break, if every runtime differs */
export async function runCommand(
  { broken, options }: Command,
  built: Build,
  write: (text: string) => void,
): Promise<number> {
  const parity = await compare(options, built);
  for (const report of parity.reports) write(`${report}\n\n`);
  write(`${tableOf(parity)}\n`);
  const differing = parity.pairs.filter(({ differences }) => differences > 0);
  if (broken === undefined) return differing.length === 0 ? 0 : 1;
  const found = differing.length === parity.pairs.length;
  write(found ? "The break was found.\n" : "The break went unnoticed.\n");
  return found ? 0 : 1;
}

function wholeNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new SetupError(`--${name}: expected a whole number from 1, got "${text}"`);
  }
  return number;
}

function unexpected(name: string, known: readonly string[], text: string): SetupError {
  return new SetupError(`--${name}: expected one of ${known.map((one) => `"${one}"`).join(", ")}, got "${text}"`);
}

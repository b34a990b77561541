// npm run fuzz: sends hostile random inputs for ten minutes to a control plane and to gateways. It prints the seed, each
// finding as it comes and a table. README.md explains it. Exits with 1 if anything was found.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { fuzz, targets } from "./fuzz.ts";

const usage = "npm run fuzz -- [--seconds NUMBER] [--seed NUMBER] [--only NAME,NAME] [--json FILE]";
const names = targets.map(({ name }) => name);

interface Options {
  readonly seconds: number;
  readonly seed: number;
  readonly only: readonly string[];
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play({ seconds, seed, only, jsonFile }: Options, signal: AbortSignal): Promise<Outcome> {
  say(`seed ${seed}, ${seconds} s`);
  const result = await fuzz({ seconds, seeds: [seed], only, signal, say });
  writeJson(jsonFile, result);
  const { facts, findings } = result;
  const rows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
  const details = findings.map(
    ({ target, seed: own, what, input }) =>
      `${target}: ${what}\nnpm run fuzz -- --only ${target} --seed ${own}\n${input}\n`,
  );
  return {
    tables: [...details, ...table([`what, seed ${seed}`, "expected", "seen", ""], rows)].join("\n"),
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function readOptions(args: readonly string[]): Options {
  const options = {
    seconds: { type: "string" },
    seed: { type: "string" },
    only: { type: "string" },
    json: { type: "string" },
  } as const;
  const values = optionsFrom(args, options, usage);
  const only = values.only?.split(",") ?? [];
  const unknown = only.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new SetupError(`--only: expected some of ${names.join(",")}, got ${unknown}\n${usage}`);
  return {
    seconds: numberFrom("--seconds", values.seconds ?? "600", 1, 86_400),
    seed: numberFrom("--seed", values.seed ?? `${1 + Math.floor(Math.random() * 999_999)}`, 1, 2 ** 31 - 10_000),
    only,
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

function numberFrom(option: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new SetupError(`${option}: expected an integer from ${least} to ${most}, got ${text}\n${usage}`);
}

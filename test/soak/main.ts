// npm run soak: runs half an hour of load on a real fleet with random faults in the background. It prints what was expected
// and what was seen, and draws it. README.md gives steps and criteria. Exits with 1 if anything differs.

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { namespacesMissing } from "../faults/namespace.ts";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { pictureOf } from "./picture.ts";
import { soak } from "./soak.ts";

const usage = "npm run soak -- [--minutes NUMBER] [--seed NUMBER] [--json FILE]";

interface Options {
  readonly minutes: number;
  readonly seed: number;
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play({ minutes, seed, jsonFile }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  say(`seed ${seed}, ${minutes} minutes`);
  const missing = await namespacesMissing();
  if (missing !== undefined) say(`faults that drop packets are left out: ${missing}`);
  const result = await soak({ minutes, seed, asRoot: missing === undefined, signal: stopping });
  if (result === undefined) return undefined;
  const pictureFile = jsonFile.replace(/(\.json)?$/, ".svg");
  writeJson(jsonFile, result);
  writeFileSync(pictureFile, pictureOf(result));
  const { facts } = result;
  const rows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
  return {
    tables: table([`what, seed ${seed}`, "expected", "seen", ""], rows).join("\n"),
    files: `${jsonFile}, drawn in ${pictureFile}`,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function readOptions(args: readonly string[]): Options {
  const options = { minutes: { type: "string" }, seed: { type: "string" }, json: { type: "string" } } as const;
  const values = optionsFrom(args, options, usage);
  return {
    minutes: numberFrom("--minutes", values.minutes ?? "30", 1, 1440),
    seed: numberFrom("--seed", values.seed ?? `${1 + Math.floor(Math.random() * 999_999)}`, 1, 2 ** 31 - 2),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

function numberFrom(option: string, text: string, least: number, most: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= least && number <= most) return number;
  throw new SetupError(`${option}: expected an integer from ${least} to ${most}, got ${text}\n${usage}`);
}

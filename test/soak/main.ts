// npm run soak: half an hour of load on a real fleet with random faults in the background. Prints what was expected and
// what was seen, and draws it. README.md says what is done and what it is held to. Ends with 1 where anything differs.

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { table, writeJson } from "../../bench/report.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { namespacesMissing } from "../faults/namespace.ts";
import { pictureOf } from "./picture.ts";
import { type Result, soak } from "./soak.ts";

const usage = "npm run soak -- [--minutes NUMBER] [--seed NUMBER] [--json FILE]";

const stopping = new AbortController();

try {
  const { minutes, seed, jsonFile } = readOptions(process.argv.slice(2));
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      say("stopping when this fault is over …");
      stopping.abort();
    });
  }
  say(`seed ${seed}, ${minutes} minutes`);
  const missing = await namespacesMissing();
  if (missing !== undefined) say(`faults that drop packets are left out: ${missing}`);
  const result = await soak({ minutes, seed, asRoot: missing === undefined, signal: stopping.signal });
  if (result === undefined) process.exit(1);
  report(result, jsonFile);
} catch (error) {
  fail(error);
}

function report(result: Result, jsonFile: string): never {
  const { facts, seed } = result;
  const pictureFile = jsonFile.replace(/(\.json)?$/, ".svg");
  writeJson(jsonFile, result);
  writeFileSync(pictureFile, pictureOf(result));
  const rows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
  process.stdout.write(`\n${table(["what", "expected", "seen", ""], rows).join("\n")}\n\n`);
  const differing = facts.filter(({ ok }) => !ok).length;
  say(`results are in ${jsonFile}, drawn in ${pictureFile}`);
  say(`seed ${seed}: ${differing === 0 ? "all as expected" : `${differing} of ${facts.length} not as expected`}`);
  process.exit(differing === 0 ? 0 : 1);
}

function readOptions(args: readonly string[]): { minutes: number; seed: number; jsonFile: string } {
  const options = { minutes: { type: "string" }, seed: { type: "string" }, json: { type: "string" } } as const;
  let values: { minutes?: string | undefined; seed?: string | undefined; json?: string | undefined };
  try {
    ({ values } = parseArgs({ args: [...args], options }));
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\n${usage}`);
  }
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

// npm run top-keys: sends a million requests with keys distributed by Zipf's law to real gateways, and compares the keys that the
// control plane shows as most refused with the truth. Exits with 1 if anything differs.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { measureTopKeys, type TopKeysOptions } from "./measure.ts";

interface Options extends TopKeysOptions {
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play(options: Options): Promise<Outcome> {
  const { requests, keys, gateways, workers, jsonFile } = options;
  say(`${requests} requests with ${keys} keys, to ${gateways} gateways of ${workers} workers each …`);
  const result = await measureTopKeys(options);
  writeJson(jsonFile, { date: new Date().toISOString(), ...options, ...result });
  const { requestsPerSecond, shown, othersAtMost, facts } = result;
  const keyRows = shown.map(({ key, truth, atLeast, atMost }) => [key, `${truth}`, `${atLeast}`, `${atMost}`]);
  const factRows = facts.map(({ what, expected, seen, ok }) => [what, expected, seen, ok ? "as expected" : "DIFFERS"]);
  return {
    tables: [
      ...table(["key", "refused", "stated at least", "stated at most"], keyRows),
      "",
      `No other key was refused more than ${othersAtMost} times, it says. ${requestsPerSecond} requests a second were sent.`,
      "",
      ...table(["what", "expected", "seen", ""], factRows),
    ].join("\n"),
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const usage = "npm run top-keys -- [--requests 1000000] [--keys 100000] [--gateways 2] [--workers 2] [--json FILE]";
  const values = optionsFrom(args, { requests: text, keys: text, gateways: text, workers: text, json: text }, usage);
  const whole = (option: keyof TopKeysOptions, otherwise: number) => {
    const number = Number(values[option] ?? otherwise);
    if (Number.isInteger(number) && number >= 1) return number;
    throw new SetupError(`--${option}: expected a whole number from 1 on, got ${values[option]}`);
  };
  return {
    requests: whole("requests", 1_000_000),
    keys: whole("keys", 100_000),
    gateways: whole("gateways", 2),
    workers: whole("workers", 2),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

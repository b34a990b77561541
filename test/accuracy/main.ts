// npm run accuracy: compares what fleets of two and of four real gateways admit at three times the limit with the limit in
// every window, and with one exact counter. README.md explains how. Exits with 1 if anything differs.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { figure } from "../fixtures/measures/fact.ts";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { type FleetRun, fleetSizes, runFleet, vendorCase } from "./fleet-run.ts";
import { inWords, measured, overload } from "./policies.ts";

const names = [...measured.map(({ name }) => name), vendorCase];

await runTrial({ readOptions, play });

async function play(
  { seconds, gateways, only, jsonFile }: Options,
  stopping: AbortSignal,
): Promise<Outcome | undefined> {
  const runs: FleetRun[] = [];
  for (const size of gateways) {
    say(`${size} gateways, ${seconds} s at ${overload} times each limit …`);
    runs.push(
      await runFleet({
        gateways: size,
        seconds,
        measured: measured.filter(({ name }) => only.includes(name)),
        playsVendor: only.includes(vendorCase),
        progress: (line) => say(`${size} gateways: ${line}`),
        stopped: () => stopping.aborted,
      }),
    );
    if (stopping.aborted) return undefined;
  }
  writeJson(jsonFile, { date: new Date().toISOString(), seconds, overload, runs });
  const facts = runs.flatMap((run) => run.facts);
  return {
    tables: `${tableOfAccounts(runs)}\n\n${tableOfFacts(runs)}`,
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function tableOfAccounts(runs: readonly FleetRun[]): string {
  const rows = runs.flatMap(({ gateways, accounts }) =>
    accounts.map((account) => [
      `${gateways}`,
      inWords(account.measured),
      account.measured.consistency,
      `${account.sent}`,
      `${account.wouldBeAdmitted}`,
      `${account.admitted}`,
      figure(account.excess),
      ...[account.unusedPercent, account.unusedEvenlyPercent, account.unusedUnevenlyPercent].map((percent) =>
        percent.toFixed(2),
      ),
      account.p50Ms.toFixed(1),
      account.p99Ms.toFixed(1),
    ]),
  );
  const head = ["gateways", "limit", "consistency", "offered", "one counter", "admitted", "excess", "unused %"];
  return table([...head, "evenly", "unevenly", "p50 ms", "p99 ms"], rows).join("\n");
}

function tableOfFacts(runs: readonly FleetRun[]): string {
  const rows = runs.flatMap(({ gateways, facts }) =>
    facts.map(({ of, what, expected, seen, ok }) => [
      `${gateways} gateways`,
      of,
      what,
      expected,
      seen,
      ok ? "as expected" : "DIFFERS",
    ]),
  );
  return table(["fleet", "policy", "what", "expected", "seen", ""], rows).join("\n");
}

interface Options {
  readonly seconds: number;
  readonly gateways: readonly number[];
  readonly only: readonly string[];
  readonly jsonFile: string;
}

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const options = { seconds: text, gateways: text, only: text, json: text };
  const usage = "npm run accuracy -- [--seconds 60] [--gateways 2,4] [--only NAME,…] [--json FILE]";
  const values = optionsFrom(args, options, usage);
  const seconds = Number(values.seconds ?? 60);
  if (!Number.isInteger(seconds) || seconds < 4) {
    throw new SetupError(`--seconds: expected a whole number from 4 on, got ${values.seconds}`);
  }
  return {
    seconds,
    gateways: someOf("--gateways", values.gateways, fleetSizes.map(String)).map(Number),
    only: someOf("--only", values.only, names),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

function someOf(option: string, given: string | undefined, known: readonly string[]): readonly string[] {
  const chosen = given?.split(",") ?? known;
  if (chosen.every((name) => known.includes(name))) return chosen;
  throw new SetupError(`${option}: expected some of ${known.join(",")}, got ${given}`);
}

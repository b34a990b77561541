// npm run accuracy: what fleets of two and of four real gateways admit at three times the limit, held against the limit in
// every window and against one exact counter. README.md says how. Ends with 1 where anything differs.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { table, writeJson } from "../../bench/report.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { figure } from "../fixtures/fact.ts";
import { type FleetRun, fleetSizes, runFleet, vendorCase } from "./fleet-run.ts";
import { inWords, measured, overload } from "./policies.ts";

const names = [...measured.map(({ name }) => name), vendorCase];

/** Whether a signal came: what runs is ended in order, so that no nginx is left behind, and nothing else begins. */
let stopping = false;

try {
  const { seconds, gateways, only, jsonFile } = readOptions(process.argv.slice(2));
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      stopping = true;
      say("stopping …");
    });
  }
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
        stopped: () => stopping,
      }),
    );
    if (stopping) process.exit(1);
  }
  writeJson(jsonFile, { date: new Date().toISOString(), seconds, overload, runs });
  process.stdout.write(`\n${tableOfAccounts(runs)}\n\n${tableOfFacts(runs)}\n\n`);
  say(`results are in ${jsonFile}`);
  const facts = runs.flatMap((run) => run.facts);
  const differing = facts.filter(({ ok }) => !ok).length;
  say(differing === 0 ? "all as expected" : `${differing} of ${facts.length} not as expected`);
  process.exit(differing === 0 ? 0 : 1);
} catch (error) {
  fail(error);
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
  let values: { [Name in keyof typeof options]?: string | undefined };
  try {
    ({ values } = parseArgs({ args: [...args], options }));
  } catch (error) {
    throw new SetupError(
      `${(error as Error).message}\nnpm run accuracy -- [--seconds 60] [--gateways 2,4] [--only NAME,…] [--json FILE]`,
    );
  }
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

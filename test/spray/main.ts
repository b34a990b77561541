// npm run spray: sends ten times as many keys as the dict of counters holds to a real gateway, and reports what that does to
// exhausted limits, to newcomers and to everybody's waiting times. README.md explains how. Exits with 1 if anything differs.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { type Newcomers, runSpray, type SprayResult, type Waits } from "./scenario.ts";

/** Limits of the sprayed policy: a few a day, which soon use up a shared cell, and many a minute. */
const limits = {
  "3-a-day": { algorithm: "fixed-window", quota: 3, window: "1d" },
  "120-a-minute": { algorithm: "token-bucket", quota: 120, window: "1m" },
} as const;
type LimitName = keyof typeof limits;

/** The dict holds at most 114,688 counters, a tenth of the keys; the overflow has the recommended size for it. */
const countersMb = 14;
const overflowMb = 4;

interface Options {
  readonly keys: number;
  readonly workers: number;
  readonly only: readonly LimitName[];
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play({ keys, workers, only, jsonFile }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  const results: SprayResult[] = [];
  for (const name of only) {
    say(`${keys} keys under one policy, ${name} each …`);
    await using stack = new AsyncDisposableStack();
    results.push(
      await runSpray(stack, {
        keys,
        countersMb,
        overflowMb,
        workers,
        limit: limits[name],
        stopped: () => stopping.aborted,
      }),
    );
    if (stopping.aborted) return undefined;
  }
  writeJson(jsonFile, { date: new Date().toISOString(), workers, results });
  const facts = results.flatMap((result) => result.facts);
  return {
    tables: `${tableOfFigures(results)}\n\n${tableOfFacts(results)}`,
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function tableOfFigures(results: readonly SprayResult[]): string {
  const row = (what: string, tell: (result: SprayResult) => string) => [what, ...results.map(tell)];
  const rows = [
    row("keys a second", ({ keysPerSecond }) => `${keysPerSecond}`),
    row("refused of the spray", ({ refusedOfSpray, keys }) => share({ of: keys, refused: refusedOfSpray })),
    row("newcomers refused at once, of the sprayed policy, during it", ({ newcomers }) =>
      share(newcomers.sprayedDuring),
    ),
    row("the same after it", ({ newcomers }) => share(newcomers.sprayedAfter)),
    row("newcomers refused at once, of another policy, during it", ({ newcomers }) => share(newcomers.otherDuring)),
    row("the same after it", ({ newcomers }) => share(newcomers.otherAfter)),
    row("wait of who is refused, beside as many requests of one key", ({ waitsBeside }) => inMs(waitsBeside.oneKey)),
    row("the same beside the spray", ({ waitsBeside }) => inMs(waitsBeside.spray)),
    row("decided by shared cells", ({ overflowDecisions }) => `${overflowDecisions}`),
    row("refused for want of any memory", ({ uncountedRefusals }) => `${uncountedRefusals}`),
    row(
      "free then: counters, overflow",
      ({ freeBytes, overflowFreeBytes }) => `${mb(freeBytes)}, ${mb(overflowFreeBytes)}`,
    ),
  ];
  return table(["sprayed policy", ...results.map(({ limit }) => limit)], rows).join("\n");
}

function tableOfFacts(results: readonly SprayResult[]): string {
  const rows = results.flatMap(({ limit, facts }) =>
    facts.map(({ what, expected, seen, ok }, i) => [
      i === 0 ? limit : "",
      what,
      expected,
      seen,
      ok ? "as expected" : "DIFFERS",
    ]),
  );
  return table(["sprayed policy", "what", "expected", "seen", ""], rows).join("\n");
}

function share({ of, refused }: Newcomers): string {
  return `${refused} of ${of} (${((100 * refused) / of).toFixed(1)} %)`;
}

function inMs({ p50, p99, longest }: Waits): string {
  return `p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)}, longest ${longest.toFixed(1)} ms`;
}

function mb(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MB`;
}

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const names = Object.keys(limits);
  const usage = `npm run spray -- [--keys 1200000] [--workers 1] [--only ${names.join(",")}] [--json FILE]`;
  const values = optionsFrom(args, { keys: text, workers: text, only: text, json: text }, usage);
  const only = values.only?.split(",") ?? names;
  for (const name of only) {
    if (!names.includes(name)) throw new SetupError(`--only: expected some of ${names.join(",")}, got ${name}`);
  }
  return {
    keys: wholeFrom("--keys", values.keys ?? "1200000"),
    workers: wholeFrom("--workers", values.workers ?? "1"),
    only: only as LimitName[],
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

function wholeFrom(option: string, text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new SetupError(`${option}: expected a whole number from 1 on, got ${text}`);
  return number;
}

// npm run exactness: tests whether exact limits are exact while the machine, or Redis, is late. README.md explains how. Exits
// with 1 if anything differs.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { namesAndOptionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { figure } from "../fixtures/measures/fact.ts";
import { failuresInWords, sumOfCounts } from "../fixtures/measures/gateway-counts.ts";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { type Account, inWords, latencyOf } from "./account.ts";
import { playCrowds, workers } from "./crowds.ts";
import { playBgsave } from "./during-bgsave.ts";
import { bgsaveName, crowdScenarios } from "./scenarios.ts";

const names = [...crowdScenarios.map(({ name }) => name), bgsaveName];
const bgsaves = 5;

interface Options {
  readonly chosen: readonly string[];
  /** Undefined: each scenario's own number. */
  readonly times: number | undefined;
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play({ chosen, times, jsonFile }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  const stopped = () => stopping.aborted;
  const accounts: Account[] = [];
  for (const name of chosen) {
    const scenario = crowdScenarios.find((each) => each.name === name);
    say(scenario === undefined ? `${name} …` : `${name}: ${scenario.what} …`);
    accounts.push(
      scenario === undefined
        ? await playBgsave(times ?? bgsaves, (line) => say(`${name}: ${line}`), stopped)
        : await playCrowds(
            scenario,
            times ?? scenario.times,
            ({ admitted, counts }, number) =>
              say(`${name} ${number}: ${admitted} admitted, ${counts.withoutRedis} decided without Redis`),
            stopped,
          ),
    );
    if (stopped()) return undefined;
  }
  writeJson(jsonFile, { date: new Date().toISOString(), workers, accounts: accounts.map(inFull) });
  const facts = accounts.flatMap((account) => account.facts);
  return {
    tables: [tableOfAccounts(accounts), tableOfFacts(accounts)].join("\n\n"),
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function inFull({ name, what, runs, excess, facts }: Account): object {
  const reported = runs.map((run) => {
    const { admitted, refused, others, counts } = run;
    return { admitted, refused, others, ...counts, ...latencyOf([run]) };
  });
  return { name, what, excess, ...latencyOf(runs), runs: reported, facts };
}

function tableOfAccounts(accounts: readonly Account[]): string {
  const rows = accounts.map(({ name, what, runs, excess }) => {
    const counts = sumOfCounts(runs.map((run) => run.counts));
    const { p50Ms, p99Ms, maxMs } = latencyOf(runs);
    return [
      name,
      what,
      inWords(runs.map(({ admitted }) => admitted)),
      figure(excess),
      `${runs.reduce((sum, { others }) => sum + others, 0)}`,
      `${counts.withoutRedis}`,
      failuresInWords(counts.failures),
      ...[p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(0)),
    ];
  });
  const head = ["scenario", "what", "admitted", "excess", "other statuses", "without Redis", "failures of Redis"];
  return table([...head, "p50 ms", "p99 ms", "max ms"], rows).join("\n");
}

function tableOfFacts(accounts: readonly Account[]): string {
  const rows = accounts.flatMap(({ name, facts }) =>
    facts.map(({ what, expected, seen, ok }) => [name, what, expected, seen, ok ? "as expected" : "DIFFERS"]),
  );
  return table(["scenario", "fact", "expected", "seen", ""], rows).join("\n");
}

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const usage = "npm run exactness -- [SCENARIO…] [--times N] [--json FILE]";
  const { positionals, values } = namesAndOptionsFrom(args, { times: text, json: text }, usage);
  for (const name of positionals) {
    if (!names.includes(name)) throw new SetupError(`expected some of ${names.join(" ")}, got ${name}`);
  }
  const times = values.times === undefined ? undefined : Number(values.times);
  if (times !== undefined && (!Number.isInteger(times) || times < 1)) {
    throw new SetupError(`--times: expected a whole number from 1 on, got ${values.times}`);
  }
  return {
    chosen: positionals.length === 0 ? names : positionals,
    times,
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

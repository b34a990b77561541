// npm run spellings: compares what common servers read of queries, forms and cookies with what Sluice counts them under. README.md explains
// it. Exits with 1 if anything differs.

import { resolve } from "node:path";
import { table, writeJson } from "../../bench/report.ts";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { atMost } from "../fixtures/measures/fact.ts";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import { type Difference, inWords } from "./compare.ts";
import { compareWithServers, partSize } from "./trial.ts";

const usage = "npm run spellings -- [--requests 120000] [--seed NUMBER] [--json FILE]";
const mostShown = 30;

interface Options {
  readonly requests: number;
  readonly seed: number;
  readonly jsonFile: string;
}

await runTrial({ readOptions, play });

async function play({ requests, seed, jsonFile }: Options, signal: AbortSignal): Promise<Outcome | undefined> {
  say(`seed ${seed}, ${requests} requests`);
  const seeds = Array.from({ length: Math.ceil(requests / partSize) }, (_, part) => seed + part);
  const result = await compareWithServers({ seeds, signal, say });
  if (signal.aborted) return undefined;
  writeJson(jsonFile, { date: new Date().toISOString(), seed, ...result });
  const { byKind, read, differences, ofRuntimes } = result;
  const rows = Object.entries(byKind).map(([kind, { sent, refused, counted, differing }]) =>
    [kind, sent, refused, counted, sent - refused - counted, differing].map(String),
  );
  const facts = [
    atMost("readings of a server that are counted under something else", 0, differences.length),
    atMost("requests that LuaJIT reads in another way than Node", 0, ofRuntimes.length),
  ];
  return {
    tables: [
      ...shortest(differences).map(inWords),
      ...table([`seed ${seed}`, "sent", "answered 400", "counted", "without the name", "differing"], rows),
      "",
      ...table(
        ["server", "requests with a value"],
        Object.entries(read).map(([server, count]) => [server, `${count}`]),
      ),
    ].join("\n"),
    files: jsonFile,
    differing: facts.filter(({ ok }) => !ok).length,
    of: facts.length,
  };
}

function shortest(differences: readonly Difference[]): Difference[] {
  const lengthOf = ({ request: { query, body, cookie } }: Difference) => query.length + body.length + cookie.length;
  return differences.toSorted((one, other) => lengthOf(one) - lengthOf(other)).slice(0, mostShown);
}

function readOptions(args: readonly string[]): Options {
  const text = { type: "string" } as const;
  const values = optionsFrom(args, { requests: text, seed: text, json: text }, usage);
  return {
    requests: wholeFrom("--requests", values.requests ?? "120000"),
    seed: wholeFrom("--seed", values.seed ?? `${1 + Math.floor(Math.random() * 999_999)}`),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

function wholeFrom(option: string, text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 1) return number;
  throw new SetupError(`${option}: expected a whole number from 1 on, got ${text}\n${usage}`);
}

// npm run faults: injects each fault into the running system and prints what was expected and what was seen. README.md lists
// the expectations. Exits with 1 if anything differs, or if a fault could not be injected.

import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { type Outcome, runTrial } from "../fixtures/measures/trial.ts";
import * as controlPlanes from "./control-planes.ts";
import * as crowds from "./crowds.ts";
import * as failovers from "./failovers.ts";
import type { Fault, Observation } from "./fault.ts";
import * as hostilePushes from "./hostile-pushes.ts";
import * as keySpray from "./key-spray.ts";
import { namespacesMissing } from "./namespace.ts";
import * as partition from "./partition.ts";
import * as redisAway from "./redis-away.ts";
import * as redisReplies from "./redis-replies.ts";
import { inShort, type Result, tableOf, writeResults } from "./report.ts";
import * as twoRevisions from "./two-revisions.ts";
import * as workers from "./workers.ts";

const faults: readonly Fault[] = [
  redisAway,
  redisReplies,
  failovers,
  partition,
  workers,
  keySpray,
  crowds,
  controlPlanes,
  hostilePushes,
  twoRevisions,
]
  .flatMap((file): readonly Fault[] => file.faults)
  .sort((a, b) => a.number - b.number);

interface Options {
  readonly chosen: readonly Fault[];
  readonly jsonFile: string;
}

await runTrial({ readOptions, packages: "faults", play });

async function play({ chosen, jsonFile }: Options, stopping: AbortSignal): Promise<Outcome | undefined> {
  const missing = chosen.some(({ needsRoot }) => needsRoot) ? await namespacesMissing() : undefined;
  const results: Result[] = [];
  for (const fault of chosen) {
    const notRun = fault.needsRoot ? missing : undefined;
    say(`${fault.number} ${fault.name} …`);
    const result = notRun === undefined ? { fault, ...(await inject(fault)) } : { fault, notRun };
    if (stopping.aborted) return undefined;
    results.push(result);
    say(`${fault.number} ${fault.name}: ${inShort(result)}`);
  }
  writeResults(jsonFile, results);
  const differing = results.filter(({ observation }) => !observation?.facts.every(({ ok }) => ok)).length;
  return { tables: tableOf(results), files: jsonFile, differing, of: results.length };
}

async function inject(fault: Fault): Promise<{ observation: Observation } | { notRun: string }> {
  const stack = new AsyncDisposableStack();
  try {
    return { observation: await fault.run(stack) };
  } catch (error) {
    return { notRun: (error as Error).message };
  } finally {
    await stack.disposeAsync();
  }
}

function readOptions(args: readonly string[]): Options {
  const options = { only: { type: "string" }, json: { type: "string" } } as const;
  const values = optionsFrom(args, options, "npm run faults -- [--only NUMBER,…] [--json FILE]");
  const numbers = values.only?.split(",").map(Number);
  for (const number of numbers ?? []) {
    if (faults.some((fault) => fault.number === number)) continue;
    const known = [...new Set(faults.map((fault) => fault.number))].join(",");
    throw new SetupError(`--only: expected some of ${known}, got ${values.only}`);
  }
  return {
    chosen: numbers === undefined ? faults : faults.filter(({ number }) => numbers.includes(number)),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

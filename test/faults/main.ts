// npm run faults: injects each fault into the running system and prints what was expected and what was seen. README.md
// says what each is held to. Ends with 1 where anything differs, or a fault could not be injected.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import * as crowds from "./crowds.ts";
import * as failovers from "./failovers.ts";
import type { Fault, Observation } from "./fault.ts";
import { namespacesMissing } from "./namespace.ts";
import * as partition from "./partition.ts";
import * as redisAway from "./redis-away.ts";
import * as redisReplies from "./redis-replies.ts";
import { inShort, type Result, tableOf, writeResults } from "./report.ts";
import * as workers from "./workers.ts";

const faults: readonly Fault[] = [redisAway, redisReplies, failovers, partition, workers, crowds]
  .flatMap((file): readonly Fault[] => file.faults)
  .sort((a, b) => a.number - b.number);

/** Whether a signal came: what runs is ended in order, so that no nginx is left behind, and nothing else begins. */
let stopping = false;

try {
  const { chosen, jsonFile } = readOptions(process.argv.slice(2));
  await requireSystemPackages("test", process.env["SLUICE_NGINX"]);
  await requireGatewayBuild();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      stopping = true;
      say("stopping when this fault is over …");
    });
  }
  const missing = chosen.some(({ needsRoot }) => needsRoot) ? await namespacesMissing() : undefined;
  const results: Result[] = [];
  for (const fault of chosen) {
    const notRun = fault.needsRoot ? missing : undefined;
    say(`${fault.number} ${fault.name} …`);
    const result = notRun === undefined ? { fault, ...(await inject(fault)) } : { fault, notRun };
    if (stopping) process.exit(1);
    results.push(result);
    say(`${fault.number} ${fault.name}: ${inShort(result)}`);
  }
  writeResults(jsonFile, results);
  process.stdout.write(`\n${tableOf(results)}\n`);
  say(`results are in ${jsonFile}`);
  const differing = results.filter(({ observation }) => !observation?.facts.every(({ ok }) => ok)).length;
  say(differing === 0 ? "all as expected" : `${differing} of ${results.length} not as expected, or not run`);
  process.exit(differing === 0 ? 0 : 1);
} catch (error) {
  fail(error);
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

function readOptions(args: readonly string[]): { chosen: readonly Fault[]; jsonFile: string } {
  const options = { only: { type: "string" }, json: { type: "string" } } as const;
  let values: { only?: string | undefined; json?: string | undefined };
  try {
    ({ values } = parseArgs({ args: [...args], options }));
  } catch (error) {
    throw new SetupError(`${(error as Error).message}\nnpm run faults -- [--only NUMBER,…] [--json FILE]`);
  }
  const numbers = values.only?.split(",").map(Number);
  for (const number of numbers ?? []) {
    if (faults.some((fault) => fault.number === number)) continue;
    throw new SetupError(
      `--only: expected some of ${faults.map((fault) => fault.number).join(",")}, got ${values.only}`,
    );
  }
  return {
    chosen: numbers === undefined ? faults : faults.filter(({ number }) => numbers.includes(number)),
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/results/latest.json`),
  };
}

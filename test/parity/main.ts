// `npm run parity`: plays a million random decisions of each algorithm in Node and in each other runtime, and prints what was
// compared. With --break, one line is broken in all but Node, and the run succeeds if the break is found. See README.md here.

import { parseArgs } from "node:util";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { breaks } from "./breaks.ts";
import { build } from "./build.ts";
import { compare, everything, type ParityOptions, tableOf } from "./parity.ts";
import { type RuntimeName, runtimeNames } from "./runtimes.ts";
import { algorithms } from "./trace.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    decisions: { type: "string" },
    algorithm: { type: "string" },
    runtime: { type: "string", multiple: true },
    break: { type: "string" },
  },
});

const broken = values.break === undefined ? undefined : breaks.find(({ name }) => name === values.break);
if (values.break !== undefined && broken === undefined) {
  fail(`--break: expected one of ${list(breaks.map(({ name }) => name))}, got "${values.break}"`);
}
const algorithm = values.algorithm ?? broken?.algorithm;
const family = (algorithms as readonly (string | undefined)[]).indexOf(algorithm);
if (algorithm !== undefined && family < 0) fail(`--algorithm: expected one of ${list(algorithms)}, got "${algorithm}"`);
for (const name of values.runtime ?? []) {
  if (!runtimeNames.some((known) => known === name)) {
    fail(`--runtime: expected one of ${list(runtimeNames)}, got "${name}"`);
  }
}
const options: ParityOptions = {
  seed: wholeNumber("seed", values.seed) ?? everything.seed,
  decisions: wholeNumber("decisions", values.decisions) ?? (broken === undefined ? everything.decisions : 25_000),
  runtimes: (values.runtime as RuntimeName[] | undefined) ?? broken?.runtimes ?? everything.runtimes,
  families: family < 0 ? everything.families : [family],
};

await requireGatewayBuild();
const built = await build(broken);
try {
  const parity = await compare(options, built);
  for (const report of parity.reports) process.stdout.write(`${report}\n\n`);
  process.stdout.write(`${tableOf(parity)}\n`);
  const differing = parity.pairs.filter(({ differences }) => differences > 0);
  if (broken !== undefined) {
    const found = differing.length === parity.pairs.length;
    process.stdout.write(found ? "The break was found.\n" : "The break went unnoticed.\n");
    process.exitCode = found ? 0 : 1;
  } else {
    process.exitCode = differing.length === 0 ? 0 : 1;
  }
} finally {
  built.remove();
}

function wholeNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) fail(`--${name}: expected a whole number from 1, got "${text}"`);
  return number;
}

function list(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(", ");
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

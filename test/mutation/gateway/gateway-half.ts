// Mutates the gateway's leases, batching, refusals and circuit breaker. Each mutant is held against the specs of its subject in the virtual
// nginx, as far as they reach it: the quickest first, until one fails.

import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { projectDir } from "../../../launch/settings.ts";
import { SetupError, say } from "../../../launch/step.mjs";
import type { Mutant, Report } from "../scores.ts";
import { buildMutatedBundle, type Place } from "./mutated-bundle.ts";
import { beginRunner, measure, type SpecRunner, type Test } from "./spec-runner.ts";

interface Subject {
  /** Patterns, from the project's directory. */
  readonly files: readonly string[];
  /** By name, of test/gateway. Random worlds are nobody's: they find more, but take as long as all other specs together. */
  readonly specs: readonly string[];
}

const subjects: readonly Subject[] = [
  {
    files: ["gateway/src/stores/lease/*.ts"],
    specs: ["leases", "lease-decisions", "lease-exchanges", "lease-messages"],
  },
  {
    files: [
      "gateway/src/stores/redis/{batcher,submit,pending-check,replies,script-arguments}.ts",
      "gateway/src/stores/redis/{refunds,reconcile,decide-checks,exact-store}.ts",
    ],
    specs: [
      "batcher",
      "batch-queue",
      "refusal-cache",
      "cluster-checks",
      "redis-decisions",
      "redis-refunds",
      "redis-submit",
    ],
  },
  {
    files: ["gateway/src/stores/redis/{refusal-cache,shared-refusals}.ts"],
    specs: ["refusal-cache", "refusal-records"],
  },
  {
    files: ["gateway/src/redis/{breaker,patience}.ts"],
    specs: ["breaker", "breaker-probes", "patience", "patience-clock"],
  },
];

const directory = join(projectDir, "dist/mutation/gateway");
const knownFile = join(directory, "known.json");
const processes = Number(process.env["SLUICE_MUTATION_PROCESSES"] ?? 2);
/** Tests that take more CPU time are left out. */
const mostSeconds = Number(process.env["SLUICE_MUTATION_SECONDS"] ?? Number.POSITIVE_INFINITY);
const sayEveryMs = 30_000;

/** What earlier runs found of a mutant. Tests go by a hash of their name and their file's text. */
interface Known {
  killer?: string;
  /** The killer is tried first where it has changed. */
  killerName?: string;
  timeout?: boolean;
  survived: string[];
}

/** By the mutant's place and the text of its file. */
type KnownOfAll = Record<string, Known | undefined>;

interface Options {
  /** Beginnings of the files to mutate; none: all. */
  readonly files: readonly string[];
  /** Forget what earlier runs found. */
  readonly force: boolean;
}

export async function mutateGateway({ files, force }: Options): Promise<Report["files"]> {
  const specsOf = new Map(
    subjects.flatMap(({ files: patterns, specs }) => filesOf(patterns).map((file) => [file, specs])),
  );
  const all = [...specsOf.keys()].sort();
  const chosen = all.filter((file) => files.length === 0 || files.some((beginning) => file.startsWith(beginning)));
  if (chosen.length === 0) throw new SetupError(`no mutants are made of ${files.join(", ")}`);
  say("building the gateway with all mutants …");
  const { path, mutants } = await buildMutatedBundle(all, directory);
  const specs = filesOf(["test/gateway/**/*_spec.lua"]).filter((file) =>
    subjects.some((subject) => subject.specs.includes(subjectOf(file))),
  );
  say("running the specs without a mutant …");
  const tests = (await measure(path, specs, directory)).filter(({ seconds }) => seconds <= mostSeconds);
  const known: KnownOfAll = !force && existsSync(knownFile) ? JSON.parse(readFileSync(knownFile, "utf8")) : {};
  const own = mutants.filter(({ file }) => chosen.includes(file));
  const reaching = new Map(
    own.map((place) => [
      place,
      tests.filter(
        ({ file, reaches }) => reaches.has(place.number) && specsOf.get(place.file)?.includes(subjectOf(file)),
      ),
    ]),
  );
  const runners = Array.from({ length: processes }, () => beginRunner(path, specs));
  try {
    await findAll(reaching, runners, known);
  } finally {
    for (const runner of runners) runner.end();
    writeFileSync(knownFile, JSON.stringify(known));
  }
  const report = reportOf(chosen, reaching, known);
  writeFileSync(join(directory, "report.json"), JSON.stringify({ schemaVersion: "1", files: report }));
  return report;
}

function filesOf(patterns: readonly string[]): string[] {
  return patterns.flatMap((pattern) => globSync(pattern, { cwd: projectDir })).sort();
}

/** `test/gateway/stores/lease/leases_spec.lua` → `leases` */
function subjectOf(spec: string): string {
  return basename(spec, "_spec.lua");
}

async function findAll(
  reaching: ReadonlyMap<Place, readonly Test[]>,
  runners: readonly SpecRunner[],
  known: KnownOfAll,
): Promise<void> {
  const waiting = [...reaching.keys()];
  const lastKillers: Test[] = [];
  let saidAtMs = Date.now();
  const work = async (runner: SpecRunner) => {
    for (let place = waiting.shift(); place !== undefined; place = waiting.shift()) {
      const tests = reaching.get(place) as readonly Test[];
      const before = known[keyOf(place)];
      const likely = [...tests.filter(({ name }) => name === before?.killerName), ...lastKillers];
      const found = await findOne(runner, place, orderOf(tests, likely), before);
      known[keyOf(place)] = found;
      const killer = tests.find((test) => test.hash === found.killer);
      if (killer !== undefined) lastKillers.splice(0, lastKillers.length, killer, ...lastKillers.slice(0, 2));
      if (Date.now() - saidAtMs < sayEveryMs) continue;
      saidAtMs = Date.now();
      say(`${reaching.size - waiting.length} of ${reaching.size} mutants …`);
      writeFileSync(knownFile, JSON.stringify(known));
    }
  };
  await Promise.all(runners.map(work));
}

/** Runs only what the mutant was not yet held against. */
async function findOne(
  runner: SpecRunner,
  place: Place,
  tests: readonly Test[],
  before: Known | undefined,
): Promise<Known> {
  const hashes = new Set(tests.map((test) => test.hash));
  if (before?.killer !== undefined && hashes.has(before.killer)) return before;
  const survived = (before?.survived ?? []).filter((hash) => hashes.has(hash));
  const left = tests.filter((test) => !survived.includes(test.hash));
  if (left.length === 0) return { survived };
  const { killer, timeout } = await runner.findKiller(place.number, left);
  if (killer !== undefined) return { killer: killer.hash, killerName: killer.name, timeout, survived };
  return { survived: [...hashes] };
}

/** The quickest first, after those that are likely to fail: mutants that lie side by side often have the same killer. */
function orderOf(tests: readonly Test[], likely: readonly Test[]): Test[] {
  const first = likely.filter((test) => tests.includes(test));
  return [...new Set([...first, ...[...tests].sort((a, b) => a.seconds - b.seconds)])];
}

const texts = new Map<string, string>();

function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(projectDir, file), "utf8");
  texts.set(file, text);
  return text;
}

function keyOf({ file, mutatorName, replacement, location: { start, end } }: Place): string {
  const parts = [file, textOf(file), mutatorName, replacement, start.line, start.column, end.line, end.column];
  return createHash("sha256").update(parts.join("\n")).digest("hex").slice(0, 16);
}

function reportOf(
  files: readonly string[],
  reaching: ReadonlyMap<Place, readonly Test[]>,
  known: KnownOfAll,
): Report["files"] {
  const statusOf = (place: Place): Mutant["status"] => {
    const { killer, timeout } = known[keyOf(place)] as Known;
    if (killer !== undefined) return timeout ? "Timeout" : "Killed";
    return reaching.get(place)?.length === 0 ? "NoCoverage" : "Survived";
  };
  const mutants = [...reaching.keys()].map((place) => ({
    ...place,
    id: String(place.number),
    status: statusOf(place),
  }));
  return Object.fromEntries(
    files.map((file) => [
      file,
      { language: "typescript", source: textOf(file), mutants: mutants.filter((mutant) => mutant.file === file) },
    ]),
  );
}

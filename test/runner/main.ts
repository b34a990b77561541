// `npm test`: sets everything up, runs every suite, gives files that failed a second chance, and prints one line with the totals. A
// suite that cannot run counts as failed, and so does a run without any test.
//
// Options of its own; all other arguments are vitest's, such as the names of files:
//   --busy N           N processes compute meanwhile
//   --keep-durations   writes how long each file took into durations.json, which orders later runs

import { parseArgs } from "node:util";
import { requireConsoleBuild } from "../../launch/console-build.ts";
import { requireGatewayBuild } from "../../launch/gateway-build.ts";
import { readSettings } from "../../launch/settings.ts";
import { fail, SetupError, say } from "../../launch/step.mjs";
import { requireSystemPackages } from "../../launch/system-packages.ts";
import { BusyLoops } from "../fixtures/clients/busy-loops.ts";
import { keepDurations } from "./durations.ts";
import type { FileReport, RunReport } from "./file-report.ts";
import { type Counts, failedFiles, mostSecondChances, outcomeOf } from "./outcome.ts";
import { busted, endSuites, lint, vitest } from "./suites.ts";

/** Those that run beside style, types and the Lua specs. Tests that measure run after all others, and alone. */
const unmeasured = ["units", "system", "on mariadb", "on postgres", "clients"];
const measured = ["measured"];

interface Suites {
  readonly reports: readonly RunReport[];
  readonly others: readonly Counts[];
}

try {
  const { busy, keep, forVitest } = ownOptions(process.argv.slice(2));
  await requireSystemPackages("test", readSettings(process.env).nginx);
  await requireGatewayBuild();
  await requireConsoleBuild();
  const busyLoops = await BusyLoops.start(busy);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      endSuites();
      process.exit(1);
    });
  }
  const { reports, others } = await allSuites(forVitest);
  const second = await secondChance(failedFiles(reports));
  await busyLoops.stop();
  if (keep) keepDurations(reports.flatMap(({ files }) => files));
  const { passed, failed, paragraphs } = outcomeOf(reports, second, others);
  for (const text of paragraphs) say(text);
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
} catch (error) {
  fail(error);
}

async function allSuites(args: readonly string[]): Promise<Suites> {
  // A caller who names projects wants no others.
  if (args.some((arg) => arg.startsWith("--project"))) {
    return { reports: [await vitest("vitest", [], args)], others: [await lint(), await busted()] };
  }
  const beside = vitest("vitest: units, system, databases and clients", unmeasured, args);
  const [first, ...others] = await Promise.all([beside, lint(beside), busted(beside)]);
  const last = await vitest("vitest: measured", measured, args);
  return { reports: [first, last], others };
}

/** Runs each file once more, alone. */
async function secondChance(failed: readonly FileReport[]): Promise<FileReport[]> {
  if (failed.length > mostSecondChances) {
    say(`${failed.length} files failed: more than ${mostSecondChances}, so none is run again`);
    return [];
  }
  const again: FileReport[] = [];
  for (const { project, file } of failed) {
    const { files } = await vitest(`once more, alone: ${file} (${project})`, [project], [file]);
    again.push(...files);
  }
  return again;
}

/** @throws SetupError if a value is wrong */
function ownOptions(args: readonly string[]): { busy: number; keep: boolean; forVitest: string[] } {
  const options = { busy: { type: "string" }, "keep-durations": { type: "boolean" } } as const;
  const { values, tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const busy = Number(values.busy ?? 0);
  if (!Number.isInteger(busy) || busy < 0 || busy > 64) {
    throw new SetupError(
      `--busy: expected how many processes are to compute meanwhile, from 0 to 64, got "${values.busy}"`,
    );
  }
  const own = new Set<number>();
  for (const token of tokens) {
    if (token.kind !== "option" || !(token.name in options)) continue;
    own.add(token.index);
    if (token.value !== undefined && token.inlineValue === false) own.add(token.index + 1);
  }
  return { busy, keep: values["keep-durations"] === true, forVitest: args.filter((_, i) => !own.has(i)) };
}
